-- +goose Up
-- How a connection authenticates at its provider. enabled_status and enabled_reason are its status as long as no user disables it.
ALTER TABLE connections ADD COLUMN auth_mode text NOT NULL DEFAULT 'none';
ALTER TABLE connections ADD COLUMN connection_config text NOT NULL DEFAULT '{}';
ALTER TABLE connections ADD COLUMN account_id text NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN account_label text NOT NULL DEFAULT '';
ALTER TABLE connections ADD COLUMN enabled_status text NOT NULL DEFAULT 'active';
ALTER TABLE connections ADD COLUMN enabled_reason text NOT NULL DEFAULT '';

-- What the last test of a connection's credentials said. refusals counts the tests in a row in which they were refused.
CREATE TABLE connection_health (
  connection_uuid text PRIMARY KEY REFERENCES connections (uuid) ON DELETE CASCADE,
  environment_id  text NOT NULL REFERENCES environments (id),
  status          text NOT NULL,
  code            text NOT NULL,
  checks          text NOT NULL,
  latency_ms      bigint NOT NULL,
  checked_ms      bigint NOT NULL,
  changed_ms      bigint NOT NULL,
  refusals        bigint NOT NULL
);

-- +goose Down
DROP TABLE connection_health;
ALTER TABLE connections DROP COLUMN enabled_reason;
ALTER TABLE connections DROP COLUMN enabled_status;
ALTER TABLE connections DROP COLUMN account_label;
ALTER TABLE connections DROP COLUMN account_id;
ALTER TABLE connections DROP COLUMN connection_config;
ALTER TABLE connections DROP COLUMN auth_mode;
