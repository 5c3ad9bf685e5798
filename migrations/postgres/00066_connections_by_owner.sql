-- +goose NO TRANSACTION
-- +goose Up
-- Connections of members, by member. It is built while others write, and again after an interruption.
DROP INDEX CONCURRENTLY IF EXISTS connections_by_owner;
CREATE INDEX CONCURRENTLY connections_by_owner ON connections (owner_user_id, environment_id, uuid) WHERE owner_user_id <> '';

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS connections_by_owner;
