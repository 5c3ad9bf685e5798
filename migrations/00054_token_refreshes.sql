-- +goose Up
-- When the tokens of a connection are renewed. due_ms is null where nothing is to be done by itself. A lease is taken in the
-- transaction before a token endpoint is called, and released in the one that stores the outcome: one that has ended and was
-- not released shows that an exchange of lease_revision began whose outcome is not known.
CREATE TABLE token_refreshes (
  connection_uuid      text PRIMARY KEY REFERENCES connection_credentials (connection_uuid) ON DELETE CASCADE,
  environment_id       text NOT NULL REFERENCES environments (id),
  endpoint             text NOT NULL,
  due_ms               bigint,
  attempted_ms         bigint,
  revision             bigint NOT NULL,
  lease                text NOT NULL,
  lease_until_ms       bigint NOT NULL,
  lease_revision       bigint NOT NULL,
  interrupted_revision bigint NOT NULL
);
CREATE INDEX token_refreshes_due ON token_refreshes (due_ms) WHERE due_ms IS NOT NULL;

-- Tokens that were made elsewhere and stored before the gateway refreshed any.
INSERT INTO token_refreshes (connection_uuid, environment_id, endpoint, due_ms, revision, lease, lease_until_ms,
  lease_revision, interrupted_revision)
SELECT connection_uuid, environment_id, '', expires_ms, revision, '', 0, 0, 0 FROM connection_credentials
WHERE expires_ms IS NOT NULL;

-- +goose Down
DROP TABLE token_refreshes;
