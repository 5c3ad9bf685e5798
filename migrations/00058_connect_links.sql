-- +goose Up
-- The URLs to which the connect page may send browsers back: a JSON list.
ALTER TABLE environments ADD COLUMN connect_redirect_urls text NOT NULL DEFAULT '[]';

-- The last link of a connection under which a person connects it. token_hash and browser_hash are SHA-256 of 256 random
-- bits. browser_hash is null until a browser has begun. A link that has connected its connection cannot be used again.
CREATE TABLE connect_links (
  id              text PRIMARY KEY,
  token_hash      bytea NOT NULL UNIQUE,
  connection_uuid text NOT NULL UNIQUE REFERENCES connections (uuid) ON DELETE CASCADE,
  environment_id  text NOT NULL REFERENCES environments (id),
  team_id         text NOT NULL REFERENCES teams (id),
  provider_config_key text NOT NULL,
  connection_id   text NOT NULL,
  auth_mode       text NOT NULL,
  client_id       text NOT NULL,
  redirect_url    text NOT NULL,
  state           text NOT NULL,
  scopes          text NOT NULL,
  browser_hash    bytea,
  attempts        bigint NOT NULL,
  connected       boolean NOT NULL,
  created_ms      bigint NOT NULL,
  expires_ms      bigint NOT NULL
);
CREATE INDEX connect_links_by_creation ON connect_links (created_ms);

-- Browsers that are at a provider. The id is the hash of the state, in hexadecimal digits. secrets is sealed.
CREATE TABLE connect_flows (
  id             text PRIMARY KEY,
  link_id        text NOT NULL REFERENCES connect_links (id) ON DELETE CASCADE,
  environment_id text NOT NULL REFERENCES environments (id),
  secrets        bytea NOT NULL,
  expires_ms     bigint NOT NULL
);
CREATE INDEX connect_flows_by_link ON connect_flows (link_id);
CREATE INDEX connect_flows_by_expiry ON connect_flows (expires_ms);

-- +goose Down
DROP TABLE connect_flows;
DROP TABLE connect_links;
ALTER TABLE environments DROP COLUMN connect_redirect_urls;
