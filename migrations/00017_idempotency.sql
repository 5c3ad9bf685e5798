-- +goose Up
-- Requests that carried an Idempotency-Key. The id is a hash of whose key it is, what it was sent to and the key itself. A row
-- is running while claim_id works on it and lease_ms lies ahead, effected once claim_id has committed something, done when the
-- response is stored. record is sealed: the fingerprint of the request and, when done, the response.
CREATE TABLE idempotency_keys (
  id             text PRIMARY KEY,
  environment_id text NOT NULL,
  claim_id       text NOT NULL,
  state          text NOT NULL,
  record         bytea NOT NULL,
  lease_ms       bigint NOT NULL,
  expires_ms     bigint NOT NULL
);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_ms);

-- +goose Down
DROP TABLE idempotency_keys;
