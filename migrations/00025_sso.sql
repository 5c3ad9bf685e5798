-- +goose Up
-- Identity providers by OpenID Connect. client_secret is sealed, and null for a public client. The lists are JSON.
CREATE TABLE sso_providers (
  id              text PRIMARY KEY,
  team_id         text NOT NULL REFERENCES teams (id),
  name            text NOT NULL,
  issuer          text NOT NULL,
  client_id       text NOT NULL,
  client_secret   bytea,
  scopes          text NOT NULL,
  groups_claim    text NOT NULL,
  role_mappings   text NOT NULL,
  allowed_domains text NOT NULL,
  just_in_time    boolean NOT NULL,
  link_existing   boolean NOT NULL,
  enabled         boolean NOT NULL,
  created_ms      bigint NOT NULL,
  updated_ms      bigint NOT NULL
);
CREATE INDEX sso_providers_by_team ON sso_providers (team_id, id);

-- Sign-ins in progress: hashes of the state that goes through the identity provider and of the secret that stays in the
-- browser. A row goes with its use.
CREATE TABLE sso_sign_ins (
  state_hash   bytea PRIMARY KEY,
  provider_id  text NOT NULL REFERENCES sso_providers (id) ON DELETE CASCADE,
  browser_hash bytea NOT NULL,
  return_to    text NOT NULL,
  expires_ms   bigint NOT NULL
);
CREATE INDEX sso_sign_ins_by_expiry ON sso_sign_ins (expires_ms);
CREATE INDEX sso_sign_ins_by_provider ON sso_sign_ins (provider_id);

-- A user's identity at an issuer.
CREATE TABLE user_identities (
  issuer     text NOT NULL,
  subject    text NOT NULL,
  user_id    text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_ms bigint NOT NULL,
  PRIMARY KEY (issuer, subject)
);
CREATE UNIQUE INDEX user_identities_by_user ON user_identities (user_id, issuer);

-- The identity provider whose groups gave the role, which takes it away again; null for what people gave.
ALTER TABLE role_bindings ADD COLUMN managed_by text;

-- +goose Down
ALTER TABLE role_bindings DROP COLUMN managed_by;
DROP TABLE user_identities;
DROP TABLE sso_sign_ins;
DROP TABLE sso_providers;
