-- +goose Up
-- One row for each transaction and environment whose events it stored or changed, for readers of the live
-- stream. Rows become visible out of the order of their ordinals, so a row has no position until one transaction at a time,
-- after the row's own commit, gives it the next one. The newest row of an environment always stays, so no position is
-- given twice.
CREATE TABLE webhook_event_log (
  ordinal        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  position       bigint,
  environment_id text NOT NULL,
  at_ms          bigint NOT NULL,
  messages       bigint NOT NULL,
  entries        text NOT NULL
);
CREATE INDEX webhook_event_log_without_position ON webhook_event_log (ordinal) WHERE position IS NULL;
CREATE UNIQUE INDEX webhook_event_log_by_position ON webhook_event_log (position) WHERE position IS NOT NULL;
CREATE INDEX webhook_event_log_by_environment ON webhook_event_log (environment_id, position) WHERE position IS NOT NULL;

-- A ticket opens one stream, once: its use deletes the row.
CREATE TABLE webhook_stream_tickets (
  ticket_hash    bytea PRIMARY KEY,
  environment_id text NOT NULL REFERENCES environments (id),
  principal_id   text NOT NULL,
  principal      text NOT NULL,
  filter         text NOT NULL,
  expires_ms     bigint NOT NULL
);
CREATE INDEX webhook_stream_tickets_by_principal ON webhook_stream_tickets (principal_id, expires_ms);
CREATE INDEX webhook_stream_tickets_by_expiry ON webhook_stream_tickets (expires_ms);

-- +goose Down
DROP TABLE webhook_stream_tickets;
DROP TABLE webhook_event_log;
