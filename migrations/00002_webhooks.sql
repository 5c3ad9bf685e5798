-- +goose Up
CREATE TABLE connections (
  uuid                text PRIMARY KEY,
  environment_id      text NOT NULL REFERENCES environments (id),
  provider            text NOT NULL,
  provider_config_key text NOT NULL,
  connection_id       text NOT NULL,
  path_token          text NOT NULL UNIQUE,
  status              text NOT NULL,
  status_reason       text NOT NULL,
  tags                text NOT NULL,
  metadata            text NOT NULL,
  webhook             text NOT NULL,
  created_ms          bigint NOT NULL,
  updated_ms          bigint NOT NULL,
  UNIQUE (environment_id, provider_config_key, connection_id)
);
CREATE INDEX connections_by_environment ON connections (environment_id, uuid);

-- A released alias keeps its row, so that no other environment can take over a URL that a provider still posts to.
CREATE TABLE webhook_aliases (
  alias           text PRIMARY KEY,
  environment_id  text NOT NULL REFERENCES environments (id),
  connection_uuid text UNIQUE,
  released_ms     bigint
);

CREATE TABLE connection_secrets (
  id              text PRIMARY KEY,
  connection_uuid text NOT NULL REFERENCES connections (uuid) ON DELETE CASCADE,
  hint            text NOT NULL,
  value           bytea NOT NULL,
  created_ms      bigint NOT NULL
);
CREATE INDEX connection_secrets_by_connection ON connection_secrets (connection_uuid, id);

CREATE TABLE webhook_subscriptions (
  id                  text PRIMARY KEY,
  environment_id      text NOT NULL REFERENCES environments (id),
  provider_config_key text,
  connection_id       text,
  event_types         text NOT NULL,
  forward_url         bytea NOT NULL,
  signing_secret      bytea NOT NULL,
  signing_secret_hint text NOT NULL,
  headers             bytea NOT NULL,
  description         text NOT NULL,
  enabled             boolean NOT NULL,
  disabled_reason     text,
  payload_mode        text NOT NULL,
  retry_schedule      text NOT NULL,
  timeout_ms          bigint NOT NULL,
  metadata            text NOT NULL,
  created_ms          bigint NOT NULL,
  updated_ms          bigint NOT NULL,
  deleted_ms          bigint
);
CREATE INDEX webhook_subscriptions_by_environment ON webhook_subscriptions (environment_id, id);

-- The n_ columns count the event's deliveries by state; status is a pure function of them and changes with them.
CREATE TABLE webhook_events (
  event_uuid          text NOT NULL,
  environment_id      text NOT NULL,
  connection_uuid     text NOT NULL,
  connection_id       text NOT NULL,
  provider            text NOT NULL,
  provider_config_key text NOT NULL,
  event_type          text NOT NULL,
  status              text NOT NULL,
  idempotency_key     text NOT NULL,
  idempotency_source  text NOT NULL,
  duplicate_of        text,
  suspect             text,
  control             boolean NOT NULL,
  verification        text NOT NULL,
  content_type        text NOT NULL,
  body_size           bigint NOT NULL,
  hops                bigint NOT NULL,
  attempt_count       bigint NOT NULL,
  last_error          text,
  n_sending           bigint NOT NULL,
  n_pending           bigint NOT NULL,
  n_retry_wait        bigint NOT NULL,
  n_held              bigint NOT NULL,
  n_held_failed       bigint NOT NULL,
  n_dead              bigint NOT NULL,
  n_succeeded         bigint NOT NULL,
  n_cancelled         bigint NOT NULL,
  n_tried             bigint NOT NULL,
  received_ms         bigint NOT NULL,
  updated_ms          bigint NOT NULL,
  forwarded_ms        bigint,
  failed_ms           bigint,
  redelivered_ms      bigint,
  PRIMARY KEY (environment_id, event_uuid)
);
CREATE INDEX webhook_events_by_connection ON webhook_events (environment_id, connection_id, event_uuid);
-- No index names a column that an event's success changes: PostgreSQL then updates the row in place, without a new entry
-- in every index. failed_ms is when the event first failed, and stays.
CREATE INDEX webhook_events_by_failure ON webhook_events (environment_id, event_uuid) WHERE failed_ms IS NOT NULL;

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
CREATE INDEX deliveries_by_subscription ON deliveries (subscription_id, event_uuid);
-- due_ms is the time of the next attempt, and for a delivery being sent the end of its lease.
CREATE INDEX deliveries_due ON deliveries (due_ms) WHERE status IN ('pending', 'retry_wait', 'sending');
CREATE INDEX deliveries_open ON deliveries (subscription_id, status, due_ms) WHERE status IN ('pending', 'retry_wait', 'held');

CREATE TABLE delivery_attempts (
  id               text NOT NULL,
  event_uuid       text NOT NULL,
  subscription_id  text NOT NULL,
  environment_id   text NOT NULL,
  generation       bigint NOT NULL,
  number           bigint NOT NULL,
  outcome          text NOT NULL,
  started_ms       bigint NOT NULL,
  dns_us           bigint NOT NULL,
  connect_us       bigint NOT NULL,
  tls_us           bigint NOT NULL,
  first_byte_us    bigint NOT NULL,
  total_us         bigint NOT NULL,
  request_headers  text NOT NULL,
  http_status      bigint,
  response_headers text NOT NULL,
  response_body    bytea,
  truncated        boolean NOT NULL,
  error_code       text,
  error_message    text,
  PRIMARY KEY (event_uuid, id)
);

-- +goose Down
DROP TABLE delivery_attempts;
DROP TABLE deliveries;
DROP TABLE webhook_events;
DROP TABLE webhook_subscriptions;
DROP TABLE connection_secrets;
DROP TABLE webhook_aliases;
DROP TABLE connections;
