-- +goose Up
-- Which calls a grant is about, as JSON; empty for all.
ALTER TABLE api_key_grants ADD COLUMN call_limits text NOT NULL DEFAULT '';

-- One row for each governed call to a provider. The id is a UUIDv7, so that rows are in the order of time.
CREATE TABLE calls (
  id                  text PRIMARY KEY,
  environment_id      text NOT NULL,
  execution_id        text NOT NULL,
  time_ms             bigint NOT NULL,
  principal_type      text NOT NULL,
  principal_id        text NOT NULL,
  principal_name      text NOT NULL,
  via                 text NOT NULL,
  provider_config_key text NOT NULL,
  provider            text NOT NULL,
  connection_id       text NOT NULL,
  connection_uuid     text NOT NULL,
  action              text NOT NULL,
  version             text NOT NULL,
  method              text NOT NULL,
  path_template       text NOT NULL,
  risk                text NOT NULL,
  operation           text NOT NULL,
  flags               text NOT NULL,
  effect              text NOT NULL,
  code                text NOT NULL,
  reason              text NOT NULL,
  rules               text NOT NULL,
  outcome             text NOT NULL,
  error_code          text NOT NULL,
  upstream_status     bigint NOT NULL,
  attempts            bigint NOT NULL,
  timing              text NOT NULL,
  request_id          text NOT NULL
);
CREATE INDEX calls_by_environment ON calls (environment_id, id);

-- What a caller asked for, and what came of it. lease_ms is until when the process that carries it out keeps it, 0 for one
-- that has ended.
CREATE TABLE executions (
  id                  text PRIMARY KEY,
  environment_id      text NOT NULL,
  principal_type      text NOT NULL,
  principal_id        text NOT NULL,
  provider_config_key text NOT NULL,
  provider            text NOT NULL,
  connection_id       text NOT NULL,
  connection_uuid     text NOT NULL,
  action              text NOT NULL,
  version             text NOT NULL,
  status              text NOT NULL,
  error_code          text NOT NULL,
  created_ms          bigint NOT NULL,
  finished_ms         bigint NOT NULL,
  lease_ms            bigint NOT NULL,
  state               text NOT NULL,
  input               bytea,
  output              bytea,
  output_until_ms     bigint NOT NULL
);
CREATE INDEX executions_by_environment ON executions (environment_id, id);
CREATE INDEX executions_running ON executions (lease_ms) WHERE lease_ms > 0;
CREATE INDEX executions_outputs ON executions (output_until_ms) WHERE output_until_ms > 0;

-- The idempotency keys of callers, hashed with their scope.
CREATE TABLE execution_keys (
  key_hash       text PRIMARY KEY,
  environment_id text NOT NULL,
  execution_id   text NOT NULL,
  fingerprint    text NOT NULL,
  expires_ms     bigint NOT NULL
);
CREATE INDEX execution_keys_by_end ON execution_keys (expires_ms);

-- +goose Down
DROP TABLE execution_keys;
DROP TABLE executions;
DROP TABLE calls;
ALTER TABLE api_key_grants DROP COLUMN call_limits;
