-- +goose Up
-- Changes of the OAuth client of a provider configuration of which connections are left that have tokens of the former one: those after a
-- UUID.
CREATE TABLE connection_client_changes (
  environment_id      text NOT NULL REFERENCES environments (id),
  provider_config_key text NOT NULL,
  provider            text NOT NULL,
  changed_ms          bigint NOT NULL,
  after_uuid          text NOT NULL,
  PRIMARY KEY (environment_id, provider_config_key)
);

-- +goose Down
DROP TABLE connection_client_changes;
