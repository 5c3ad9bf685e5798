-- +goose Up
-- Bulk replays. What a job needs to go on stands in its row and changes with the deliveries that it starts, so that a crash
-- leaves nothing half done. The job is about the events up to last_uuid that were received up to created_ms. Those up to
-- place_uuid are done; of begun_uuid, where it is not empty, the deliveries up to the subscription begun_after are.
-- open_deliveries names the started deliveries whose first attempt has not ended. version changes with every change.
CREATE TABLE webhook_replays (
  id                 text PRIMARY KEY,
  environment_id     text NOT NULL REFERENCES environments (id),
  status             text NOT NULL,
  filter             text NOT NULL,
  forced             boolean NOT NULL,
  to_subscription_id text,
  rate_per_second    bigint NOT NULL,
  created_by_type    text NOT NULL,
  created_by_id      text NOT NULL,
  created_by_name    text NOT NULL,
  counts             text NOT NULL,
  error_code         text,
  first_uuid         text NOT NULL,
  last_uuid          text NOT NULL,
  place_uuid         text NOT NULL,
  begun_uuid         text NOT NULL,
  begun_after        text NOT NULL,
  scanned            boolean NOT NULL,
  open_deliveries    text NOT NULL,
  claim_id           text NOT NULL,
  lease_ms           bigint NOT NULL,
  due_ms             bigint NOT NULL,
  version            bigint NOT NULL,
  created_ms         bigint NOT NULL,
  updated_ms         bigint NOT NULL,
  started_ms         bigint,
  finished_ms        bigint
);
CREATE INDEX webhook_replays_by_environment ON webhook_replays (environment_id, id);
CREATE INDEX webhook_replays_open ON webhook_replays (environment_id, id) WHERE finished_ms IS NULL;
CREATE INDEX webhook_replays_by_end ON webhook_replays (finished_ms) WHERE finished_ms IS NOT NULL;

-- +goose Down
DROP TABLE webhook_replays;
