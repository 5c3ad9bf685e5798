-- +goose Up
-- An event's row is updated soon after it was written. Room in its page keeps the new version next to the old one.
ALTER TABLE webhook_events SET (fillfactor = 60);

-- Partitioned by day, so that ending a payload's life is dropping a table. The default partition takes what arrives
-- when no day's partition is ready, so a missing one loses nothing.
CREATE TABLE webhook_event_payloads (
  event_uuid  text NOT NULL,
  received_ms bigint NOT NULL,
  headers     text NOT NULL,
  body        bytea NOT NULL,
  encoding    text NOT NULL,
  PRIMARY KEY (event_uuid, received_ms)
) PARTITION BY RANGE (received_ms);
CREATE TABLE webhook_event_payloads_default PARTITION OF webhook_event_payloads DEFAULT;

CREATE TABLE webhook_event_keys (
  connection_uuid text NOT NULL,
  key_hash        bytea NOT NULL,
  event_uuid      text NOT NULL,
  claimed_ms      bigint NOT NULL,
  expires_ms      bigint NOT NULL,
  PRIMARY KEY (connection_uuid, key_hash)
);

-- +goose Down
DROP TABLE webhook_event_keys;
DROP TABLE webhook_event_payloads;
ALTER TABLE webhook_events RESET (fillfactor);
