-- +goose Up
-- One row for each transaction and environment whose events it stored or changed: what readers of the live stream are told
-- of. There is one writer, so positions are in the order of the commits. The newest row of an environment always stays, so
-- no position is given twice.
CREATE TABLE webhook_event_log (
  position       INTEGER PRIMARY KEY,
  environment_id text NOT NULL,
  at_ms          bigint NOT NULL,
  messages       bigint NOT NULL,
  entries        text NOT NULL
);
CREATE INDEX webhook_event_log_by_environment ON webhook_event_log (environment_id, position);

-- +goose Down
DROP TABLE webhook_event_log;
