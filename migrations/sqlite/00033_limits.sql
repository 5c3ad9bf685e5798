-- +goose Up
-- The limit of an API key; null is what the service is configured for. Requests are counted in memory: one process has the
-- database to itself.
ALTER TABLE api_keys ADD COLUMN rate_per_second bigint;
ALTER TABLE api_keys ADD COLUMN rate_burst bigint;

-- +goose Down
ALTER TABLE api_keys DROP COLUMN rate_burst;
ALTER TABLE api_keys DROP COLUMN rate_per_second;
