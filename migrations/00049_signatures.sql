-- +goose Up
-- The provider's signatures, which headers does not show and receivers of raw get. A JSON object as in headers, NULL for none.
ALTER TABLE webhook_event_payloads ADD COLUMN signatures text;

-- +goose Down
ALTER TABLE webhook_event_payloads DROP COLUMN signatures;
