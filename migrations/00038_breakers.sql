-- +goose Up
-- The breaker of a subscription: open while its receiver fails most attempts. A subscription without a row has a closed breaker that
-- has never opened. Times are Unix milliseconds.
CREATE TABLE delivery_breakers (
  subscription_id text PRIMARY KEY,
  environment_id  text NOT NULL,
  -- Since when it is open; NULL while it is closed.
  opened_ms       bigint,
  -- The earliest time of the next probe.
  probe_ms        bigint NOT NULL,
  -- Since when every attempt has failed, as far as was known when it opened.
  failing_ms      bigint NOT NULL,
  -- Attempts before this time do not count: it has closed since, or the subscription was enabled or got another URL.
  since_ms        bigint NOT NULL,
  -- The earliest time at which a node may release further deliveries that were held.
  release_ms      bigint NOT NULL
);

-- +goose Down
DROP TABLE delivery_breakers;
