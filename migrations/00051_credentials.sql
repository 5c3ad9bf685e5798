-- +goose Up
-- The credentials of a connection, without their values.
CREATE TABLE connection_credentials (
  connection_uuid  text PRIMARY KEY REFERENCES connections (uuid) ON DELETE CASCADE,
  environment_id   text NOT NULL REFERENCES environments (id),
  auth_mode        text NOT NULL,
  fields           text NOT NULL,
  hosts            text NOT NULL,
  scopes_requested text NOT NULL,
  scopes_granted   text NOT NULL,
  fingerprint      text NOT NULL,
  revision         bigint NOT NULL,
  stored_ms        bigint NOT NULL,
  expires_ms       bigint,
  refreshed_ms     bigint,
  refresh_failures bigint NOT NULL,
  refresh_error    text NOT NULL
);

-- The id is the connection's UUID, a slash and the name: the place for which a value is sealed.
CREATE TABLE connection_credential_values (
  id              text PRIMARY KEY,
  connection_uuid text NOT NULL REFERENCES connection_credentials (connection_uuid) ON DELETE CASCADE,
  name            text NOT NULL,
  value           bytea NOT NULL,
  UNIQUE (connection_uuid, name)
);

-- +goose Down
DROP TABLE connection_credential_values;
DROP TABLE connection_credentials;
