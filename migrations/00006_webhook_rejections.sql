-- +goose Up
-- A ring of the last refused requests of each connection. They are no events: nothing is forwarded from here.
CREATE TABLE webhook_rejections (
  id                  text PRIMARY KEY,
  environment_id      text NOT NULL,
  connection_uuid     text NOT NULL,
  connection_id       text NOT NULL,
  provider            text NOT NULL,
  provider_config_key text NOT NULL,
  received_ms         bigint NOT NULL,
  reason              text NOT NULL,
  message             text NOT NULL,
  diagnosis_code      text NOT NULL,
  diagnosis_message   text NOT NULL,
  by_alias            boolean NOT NULL,
  client_ip           text NOT NULL,
  method              text NOT NULL,
  headers             text NOT NULL,
  body                bytea NOT NULL,
  body_size           bigint NOT NULL,
  suppressed          bigint NOT NULL
);
CREATE INDEX webhook_rejections_by_environment ON webhook_rejections (environment_id, id);
CREATE INDEX webhook_rejections_by_connection_id ON webhook_rejections (environment_id, connection_id, id);
CREATE INDEX webhook_rejections_by_connection ON webhook_rejections (connection_uuid, by_alias, id);
CREATE INDEX webhook_rejections_by_age ON webhook_rejections (received_ms);

-- +goose Down
DROP TABLE webhook_rejections;
