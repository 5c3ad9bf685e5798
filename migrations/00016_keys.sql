-- +goose Up
-- disabled_ms is when the key was disabled, null while it is not; updated_ms when it was last changed, null for never.
ALTER TABLE api_keys ADD COLUMN disabled_ms bigint;
ALTER TABLE api_keys ADD COLUMN updated_ms bigint;
-- The secret before the last rotation, which works until previous_ends_ms. Null where there is none.
ALTER TABLE api_keys ADD COLUMN previous_mac bytea;
ALTER TABLE api_keys ADD COLUMN previous_ends_ms bigint;
-- The networks that requests with the key may come from, separated by spaces; null for all.
ALTER TABLE api_keys ADD COLUMN source_cidrs text;
-- Raised with every change of the grants, so that a cache of compiled grants knows when to read them again.
ALTER TABLE api_keys ADD COLUMN grants_version bigint NOT NULL DEFAULT 0;
-- The last use that was written down; null for none.
ALTER TABLE api_keys ADD COLUMN last_used_ms bigint;
ALTER TABLE api_keys ADD COLUMN last_used_ip text;
ALTER TABLE api_keys ADD COLUMN last_used_agent text;
ALTER TABLE api_keys ADD COLUMN last_used_route text;

-- The ids of the connections that the grant is about, a JSON array; null for all. The grant means nothing from not_after_ms on.
ALTER TABLE api_key_grants ADD COLUMN connections text;
ALTER TABLE api_key_grants ADD COLUMN not_after_ms bigint;

-- Counts of requests with a key by outcome, hour and route. The rows of a deleted key stay until they expire, so that the
-- deletion is short.
CREATE TABLE api_key_usage (
  api_key_id     text NOT NULL,
  hour_ms        bigint NOT NULL,
  route          text NOT NULL,
  outcome        text NOT NULL,
  requests       bigint NOT NULL,
  PRIMARY KEY (api_key_id, hour_ms, route, outcome)
);
CREATE INDEX api_key_usage_by_hour ON api_key_usage (hour_ms);

-- The connections to which the job's creator was limited, as JSON; empty for all. The job is limited to them, too.
ALTER TABLE webhook_replays ADD COLUMN bound text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE webhook_replays DROP COLUMN bound;
DROP TABLE api_key_usage;
ALTER TABLE api_key_grants DROP COLUMN not_after_ms;
ALTER TABLE api_key_grants DROP COLUMN connections;
ALTER TABLE api_keys DROP COLUMN last_used_route;
ALTER TABLE api_keys DROP COLUMN last_used_agent;
ALTER TABLE api_keys DROP COLUMN last_used_ip;
ALTER TABLE api_keys DROP COLUMN last_used_ms;
ALTER TABLE api_keys DROP COLUMN grants_version;
ALTER TABLE api_keys DROP COLUMN source_cidrs;
ALTER TABLE api_keys DROP COLUMN previous_ends_ms;
ALTER TABLE api_keys DROP COLUMN previous_mac;
ALTER TABLE api_keys DROP COLUMN updated_ms;
ALTER TABLE api_keys DROP COLUMN disabled_ms;
