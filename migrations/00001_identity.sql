-- +goose Up
-- One row: what this database is. dev marks a database made by development mode, which alone may open it without set-up.
CREATE TABLE installation (
  id            text PRIMARY KEY CHECK (id = 'installation'),
  dev           boolean NOT NULL,
  pepper        bytea NOT NULL,
  created_ms    bigint NOT NULL
);

-- A counter per cached collection, raised in the transaction of every change, so that other processes notice.
CREATE TABLE cache_versions (
  name          text PRIMARY KEY,
  version       bigint NOT NULL
);

CREATE TABLE teams (
  id            text PRIMARY KEY,
  name          text NOT NULL,
  created_ms    bigint NOT NULL
);

CREATE TABLE environments (
  id            text PRIMARY KEY,
  team_id       text NOT NULL REFERENCES teams (id),
  name          text NOT NULL,
  created_ms    bigint NOT NULL,
  UNIQUE (team_id, name)
);

CREATE TABLE users (
  id            text PRIMARY KEY,
  email         text NOT NULL UNIQUE,
  password_hash text NOT NULL,
  created_ms    bigint NOT NULL,
  updated_ms    bigint NOT NULL
);

CREATE TABLE memberships (
  team_id       text NOT NULL REFERENCES teams (id),
  user_id       text NOT NULL REFERENCES users (id),
  role          text NOT NULL,
  created_ms    bigint NOT NULL,
  PRIMARY KEY (team_id, user_id)
);
CREATE INDEX memberships_by_user ON memberships (user_id);

CREATE TABLE signing_keys (
  id            text PRIMARY KEY,
  private_key   bytea NOT NULL,
  created_ms    bigint NOT NULL
);

CREATE TABLE api_keys (
  id             text PRIMARY KEY,
  lookup_id      text NOT NULL UNIQUE,
  team_id        text NOT NULL REFERENCES teams (id),
  environment_id text NOT NULL REFERENCES environments (id),
  name           text NOT NULL,
  secret_mac     bytea NOT NULL,
  last_four      text NOT NULL,
  created_by     text NOT NULL,
  created_ms     bigint NOT NULL,
  expires_ms     bigint,
  revoked_ms     bigint
);
CREATE INDEX api_keys_by_team ON api_keys (team_id, id);

CREATE TABLE api_key_grants (
  id            text PRIMARY KEY,
  api_key_id    text NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  effect        text NOT NULL,
  routes        text NOT NULL,
  created_ms    bigint NOT NULL
);
CREATE INDEX api_key_grants_by_key ON api_key_grants (api_key_id, id);

CREATE TABLE audit_events (
  id             text PRIMARY KEY,
  team_id        text,
  environment_id text,
  time_ms        bigint NOT NULL,
  actor_type     text NOT NULL,
  actor_id       text NOT NULL,
  actor_name     text NOT NULL,
  ip             text NOT NULL,
  action         text NOT NULL,
  outcome        text NOT NULL,
  target_type    text NOT NULL,
  target_id      text NOT NULL,
  request_id     text NOT NULL,
  changes        text NOT NULL
);
CREATE INDEX audit_events_by_environment ON audit_events (environment_id, id);

-- +goose Down
DROP TABLE audit_events;
DROP TABLE api_key_grants;
DROP TABLE api_keys;
DROP TABLE signing_keys;
DROP TABLE memberships;
DROP TABLE users;
DROP TABLE environments;
DROP TABLE teams;
DROP TABLE cache_versions;
DROP TABLE installation;
