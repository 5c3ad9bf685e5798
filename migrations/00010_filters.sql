-- +goose Up
-- What a subscription asks of events beyond their type: an expression; null asks for nothing.
ALTER TABLE webhook_subscriptions ADD COLUMN filter text;

-- The signing secrets that were replaced and still sign beside the new one, sealed; null where none does. retiring_until_ms is when
-- the last of them ends.
ALTER TABLE webhook_subscriptions ADD COLUMN retiring_secrets bytea;
ALTER TABLE webhook_subscriptions ADD COLUMN retiring_until_ms bigint;
CREATE INDEX webhook_subscriptions_retiring ON webhook_subscriptions (retiring_until_ms) WHERE retiring_until_ms IS NOT NULL;

-- +goose Down
DROP INDEX webhook_subscriptions_retiring;
ALTER TABLE webhook_subscriptions DROP COLUMN retiring_until_ms;
ALTER TABLE webhook_subscriptions DROP COLUMN retiring_secrets;
ALTER TABLE webhook_subscriptions DROP COLUMN filter;
