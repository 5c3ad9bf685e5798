-- +goose Up
-- The hosts, of those that settings of a connection name, to which the OAuth client of a provider configuration may be sent: JSON, null
-- for none.
ALTER TABLE provider_configs ADD COLUMN client_hosts text NOT NULL DEFAULT 'null';

-- +goose Down
ALTER TABLE provider_configs DROP COLUMN client_hosts;
