-- +goose Up
CREATE TABLE webhook_event_payloads (
  event_uuid  text PRIMARY KEY,
  received_ms bigint NOT NULL,
  headers     text NOT NULL,
  body        blob NOT NULL,
  encoding    text NOT NULL
);

-- Without a rowid the random keys cost one tree instead of two.
CREATE TABLE webhook_event_keys (
  connection_uuid text NOT NULL,
  key_hash        blob NOT NULL,
  event_uuid      text NOT NULL,
  claimed_ms      bigint NOT NULL,
  expires_ms      bigint NOT NULL,
  PRIMARY KEY (connection_uuid, key_hash)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE webhook_event_keys;
DROP TABLE webhook_event_payloads;
