-- +goose Up
-- The filter of a subscription, an expression that an event must match beyond its type; null for none.
ALTER TABLE webhook_subscriptions ADD COLUMN filter text;

-- The signing secrets that were replaced and still sign alongside the new one, sealed; null where none does. retiring_until_ms is when
-- the last of them ends.
ALTER TABLE webhook_subscriptions ADD COLUMN retiring_secrets bytea;
ALTER TABLE webhook_subscriptions ADD COLUMN retiring_until_ms bigint;
CREATE INDEX webhook_subscriptions_retiring ON webhook_subscriptions (retiring_until_ms) WHERE retiring_until_ms IS NOT NULL;

-- +goose Down
DROP INDEX webhook_subscriptions_retiring;
ALTER TABLE webhook_subscriptions DROP COLUMN retiring_until_ms;
ALTER TABLE webhook_subscriptions DROP COLUMN retiring_secrets;
ALTER TABLE webhook_subscriptions DROP COLUMN filter;
