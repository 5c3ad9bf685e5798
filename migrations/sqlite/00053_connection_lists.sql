-- +goose Up
-- Lists of connections by their state.
CREATE INDEX connections_by_status ON connections (environment_id, status, uuid);
CREATE INDEX connections_by_auth_mode ON connections (environment_id, auth_mode, uuid);
CREATE INDEX connection_health_by_status ON connection_health (environment_id, status, connection_uuid);

-- +goose Down
DROP INDEX connection_health_by_status;
DROP INDEX connections_by_auth_mode;
DROP INDEX connections_by_status;
