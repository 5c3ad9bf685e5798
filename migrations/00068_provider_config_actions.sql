-- +goose Up
-- Which actions of its provider a configuration offers, and what it states about their risk; JSON, null for nothing.
ALTER TABLE provider_configs ADD COLUMN actions_included text NOT NULL DEFAULT 'null';
ALTER TABLE provider_configs ADD COLUMN actions_excluded text NOT NULL DEFAULT 'null';
ALTER TABLE provider_configs ADD COLUMN risk text NOT NULL DEFAULT 'null';

-- +goose Down
ALTER TABLE provider_configs DROP COLUMN risk;
ALTER TABLE provider_configs DROP COLUMN actions_excluded;
ALTER TABLE provider_configs DROP COLUMN actions_included;
