-- +goose Up
-- One row for each transaction and environment whose events it stored or changed, for readers of the live
-- stream. There is one writer, so positions are in the order of the commits. The newest row of an environment always stays, so
-- no position is given twice.
CREATE TABLE webhook_event_log (
  position       INTEGER PRIMARY KEY,
  environment_id text NOT NULL,
  at_ms          bigint NOT NULL,
  messages       bigint NOT NULL,
  entries        text NOT NULL
);
CREATE INDEX webhook_event_log_by_environment ON webhook_event_log (environment_id, position);

-- A ticket opens one stream, once: its use deletes the row.
CREATE TABLE webhook_stream_tickets (
  ticket_hash    blob PRIMARY KEY,
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
