-- +goose Up
-- Provider configurations: a team's own settings of a provider in an environment. client_secret and private_key are
-- sealed, and null where there is none. scopes and rate_limit are JSON, null where the definition of the provider decides.
-- Empty texts are settings that are not made.
CREATE TABLE provider_configs (
  id                  text PRIMARY KEY,
  environment_id      text NOT NULL REFERENCES environments (id),
  provider_config_key text NOT NULL,
  provider            text NOT NULL,
  display_name        text NOT NULL,
  client_id           text NOT NULL,
  client_secret       bytea,
  client_secret_hint  text NOT NULL,
  private_key         bytea,
  scopes              text NOT NULL,
  base_url            text NOT NULL,
  rate_limit          text NOT NULL,
  created_ms          bigint NOT NULL,
  updated_ms          bigint NOT NULL,
  UNIQUE (environment_id, provider_config_key)
);
CREATE INDEX provider_configs_by_environment ON provider_configs (environment_id, id);

-- +goose Down
DROP TABLE provider_configs;
