-- +goose Up
-- The base URL of the provider configuration when credentials were given; null if it is not known. As long as it is the same, other hosts
-- of the provider come from its definition. client_id is the OAuth client that the tokens belong to; empty for none, or if it is not
-- known.
ALTER TABLE connection_credentials ADD COLUMN base_url text;
ALTER TABLE connection_credentials ADD COLUMN client_id text NOT NULL DEFAULT '';
-- The base URL with which stored credentials were given is not known: it may have been another since.
UPDATE connection_credentials SET client_id = coalesce((SELECT p.client_id FROM connections c JOIN provider_configs p
    ON p.environment_id = c.environment_id AND p.provider_config_key = c.provider_config_key
    WHERE c.uuid = connection_credentials.connection_uuid), '')
WHERE EXISTS (SELECT 1 FROM connections c WHERE c.uuid = connection_credentials.connection_uuid
  AND c.enabled_reason NOT IN ('host_changed', 'client_changed'));

-- client_id is that before the change; empty for none. The connections that are left may also have other hosts.
ALTER TABLE connection_client_changes ADD COLUMN client_id text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE connection_client_changes DROP COLUMN client_id;
ALTER TABLE connection_credentials DROP COLUMN client_id;
ALTER TABLE connection_credentials DROP COLUMN base_url;
