-- +goose NO TRANSACTION
-- +goose Up
-- Lists of connections by their state. They are built while others write, and again after an interruption.
DROP INDEX CONCURRENTLY IF EXISTS connections_by_status;
CREATE INDEX CONCURRENTLY connections_by_status ON connections (environment_id, status, uuid);
DROP INDEX CONCURRENTLY IF EXISTS connections_by_auth_mode;
CREATE INDEX CONCURRENTLY connections_by_auth_mode ON connections (environment_id, auth_mode, uuid);
DROP INDEX CONCURRENTLY IF EXISTS connection_health_by_status;
CREATE INDEX CONCURRENTLY connection_health_by_status ON connection_health (environment_id, status, connection_uuid);

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS connection_health_by_status;
DROP INDEX CONCURRENTLY IF EXISTS connections_by_auth_mode;
DROP INDEX CONCURRENTLY IF EXISTS connections_by_status;
