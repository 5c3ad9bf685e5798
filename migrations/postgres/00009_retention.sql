-- +goose Up
-- How long the environment keeps payloads and events, in days. NULL: as the service is configured.
ALTER TABLE environments ADD COLUMN payload_retention_days bigint;
ALTER TABLE environments ADD COLUMN event_retention_days bigint;

-- When the payload was removed on request.
ALTER TABLE webhook_events ADD COLUMN expunged_ms bigint;

-- The payloads of an environment's events that were received up to gone_ms are gone, or going, regardless of later
-- settings. swept_uuid is the last event, in the order of the list, whose payload was deleted.
CREATE TABLE webhook_payload_horizons (
  environment_id text PRIMARY KEY,
  gone_ms        bigint NOT NULL,
  swept_uuid     text NOT NULL
);

-- text_pattern_ops serves both equality and prefixes, for any collation of the database.
CREATE INDEX webhook_events_by_type ON webhook_events (environment_id, event_type text_pattern_ops, event_uuid);
CREATE INDEX webhook_events_by_original ON webhook_events (environment_id, duplicate_of, event_uuid) WHERE duplicate_of IS NOT NULL;

-- Keys that live as long as their event go with it; this is for the others.
CREATE INDEX webhook_event_keys_by_expiry ON webhook_event_keys (expires_ms) WHERE expires_ms < 9223372036854775807;

CREATE INDEX deliveries_open_by_age ON deliveries (environment_id, created_ms) WHERE status IN ('pending', 'retry_wait', 'held');

-- How often what happened to a subscription's deliveries, by the minute, and by the hour once a day has passed. class is a
-- class of durations where the measure has one, else 0.
CREATE TABLE delivery_stats (
  subscription_id text NOT NULL,
  width_ms        bigint NOT NULL,
  start_ms        bigint NOT NULL,
  measure         text NOT NULL,
  class           bigint NOT NULL,
  environment_id  text NOT NULL,
  n               bigint NOT NULL,
  PRIMARY KEY (subscription_id, width_ms, start_ms, measure, class)
) WITH (fillfactor = 50);

-- +goose Down
DROP TABLE delivery_stats;
DROP INDEX deliveries_open_by_age;
DROP INDEX webhook_event_keys_by_expiry;
DROP INDEX webhook_events_by_original;
DROP INDEX webhook_events_by_type;
DROP TABLE webhook_payload_horizons;
ALTER TABLE webhook_events DROP COLUMN expunged_ms;
ALTER TABLE environments DROP COLUMN event_retention_days;
ALTER TABLE environments DROP COLUMN payload_retention_days;
