-- +goose Up
-- The name that the provider has for the private key of an OAuth client, which signatures carry as kid; empty for none.
ALTER TABLE provider_configs ADD COLUMN private_key_id text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE provider_configs DROP COLUMN private_key_id;
