-- +goose Up
-- Without a rowid a delivery is in one tree instead of two. Its rows are short.
DROP INDEX deliveries_by_subscription;
DROP INDEX deliveries_open;
DROP INDEX deliveries_open_by_age;
DROP INDEX deliveries_queue;
ALTER TABLE deliveries RENAME TO deliveries_before;
CREATE TABLE deliveries (
  event_uuid          text NOT NULL,
  subscription_id     text NOT NULL,
  id                  text NOT NULL,
  environment_id      text NOT NULL,
  status              text NOT NULL,
  generation          bigint NOT NULL,
  claim_id            text NOT NULL,
  due_ms              bigint NOT NULL,
  generation_attempts bigint NOT NULL,
  attempt_count       bigint NOT NULL,
  leases_lost         bigint NOT NULL,
  last_http_status    bigint,
  last_error          text,
  created_ms          bigint NOT NULL,
  updated_ms          bigint NOT NULL,
  completed_ms        bigint,
  PRIMARY KEY (event_uuid, subscription_id)
) WITHOUT ROWID;
INSERT INTO deliveries SELECT event_uuid, subscription_id, id, environment_id, status, generation, claim_id, due_ms,
  generation_attempts, attempt_count, leases_lost, last_http_status, last_error, created_ms, updated_ms, completed_ms
  FROM deliveries_before ORDER BY event_uuid, subscription_id;
DROP TABLE deliveries_before;
CREATE INDEX deliveries_by_subscription ON deliveries (subscription_id, event_uuid);
CREATE INDEX deliveries_open ON deliveries (subscription_id, status, due_ms) WHERE status IN ('pending', 'retry_wait', 'held');
CREATE INDEX deliveries_open_by_age ON deliveries (environment_id, created_ms) WHERE status IN ('pending', 'retry_wait', 'held');
CREATE INDEX deliveries_queue ON deliveries (status, due_ms) WHERE status IN ('pending', 'retry_wait', 'sending');

-- +goose Down
DROP INDEX deliveries_by_subscription;
DROP INDEX deliveries_open;
DROP INDEX deliveries_open_by_age;
DROP INDEX deliveries_queue;
ALTER TABLE deliveries RENAME TO deliveries_before;
CREATE TABLE deliveries (
  event_uuid          text NOT NULL,
  subscription_id     text NOT NULL,
  id                  text NOT NULL,
  environment_id      text NOT NULL,
  status              text NOT NULL,
  generation          bigint NOT NULL,
  claim_id            text NOT NULL,
  due_ms              bigint NOT NULL,
  generation_attempts bigint NOT NULL,
  attempt_count       bigint NOT NULL,
  leases_lost         bigint NOT NULL,
  last_http_status    bigint,
  last_error          text,
  created_ms          bigint NOT NULL,
  updated_ms          bigint NOT NULL,
  completed_ms        bigint,
  PRIMARY KEY (event_uuid, subscription_id)
);
INSERT INTO deliveries SELECT event_uuid, subscription_id, id, environment_id, status, generation, claim_id, due_ms,
  generation_attempts, attempt_count, leases_lost, last_http_status, last_error, created_ms, updated_ms, completed_ms
  FROM deliveries_before ORDER BY event_uuid, subscription_id;
DROP TABLE deliveries_before;
CREATE INDEX deliveries_by_subscription ON deliveries (subscription_id, event_uuid);
CREATE INDEX deliveries_open ON deliveries (subscription_id, status, due_ms) WHERE status IN ('pending', 'retry_wait', 'held');
CREATE INDEX deliveries_open_by_age ON deliveries (environment_id, created_ms) WHERE status IN ('pending', 'retry_wait', 'held');
CREATE INDEX deliveries_queue ON deliveries (status, due_ms) WHERE status IN ('pending', 'retry_wait', 'sending');
