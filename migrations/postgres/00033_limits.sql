-- +goose Up
-- The state of rate limits that several nodes share. It is not in the write-ahead log: after a crash of the database every
-- limit starts again. tat_ns is the theoretical arrival time of GCRA, in nanoseconds since 1970.
CREATE UNLOGGED TABLE rate_limit_buckets (
  id     text PRIMARY KEY,
  tat_ns bigint NOT NULL
) WITH (fillfactor = 50);

CREATE UNLOGGED TABLE rate_limit_nodes (
  id      text PRIMARY KEY,
  seen_ms bigint NOT NULL
);

-- The limit of an API key; null is what the service is configured for.
ALTER TABLE api_keys ADD COLUMN rate_per_second bigint;
ALTER TABLE api_keys ADD COLUMN rate_burst bigint;

-- +goose Down
ALTER TABLE api_keys DROP COLUMN rate_burst;
ALTER TABLE api_keys DROP COLUMN rate_per_second;
DROP TABLE rate_limit_nodes;
DROP TABLE rate_limit_buckets;
