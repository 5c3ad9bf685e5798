-- +goose Up
-- The types of a batch's items, as a JSON array; null for a delivery of one event, whose type is event_type alone.
ALTER TABLE webhook_events ADD COLUMN event_types text;

-- An operator's permission for a provider to hand over its secret in a handshake: at most one for each connection, which the
-- first secret closes. value is sealed, and there only while the secret waits for the operator's confirmation.
CREATE TABLE webhook_enrolments (
  connection_uuid text PRIMARY KEY REFERENCES connections (uuid) ON DELETE CASCADE,
  team_id         text NOT NULL,
  status          text NOT NULL,
  opened_ms       bigint NOT NULL,
  expires_ms      bigint NOT NULL,
  captured_ms     bigint,
  secret_id       text,
  value           bytea
);

-- +goose Down
DROP TABLE webhook_enrolments;
ALTER TABLE webhook_events DROP COLUMN event_types;
