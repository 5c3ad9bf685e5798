-- +goose Up
-- Connections of members, by member.
DROP INDEX IF EXISTS connections_by_owner;
CREATE INDEX connections_by_owner ON connections (owner_user_id, environment_id, uuid) WHERE owner_user_id <> '';

-- +goose Down
DROP INDEX IF EXISTS connections_by_owner;
