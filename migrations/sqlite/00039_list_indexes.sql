-- +goose Up
-- Lists by what few events have are read through these, in the order of the list. Most events are in none of them, and the success of
-- an event changes none of their columns.
CREATE INDEX webhook_events_duplicates ON webhook_events (environment_id, event_uuid) WHERE duplicate_of IS NOT NULL;
CREATE INDEX webhook_events_controls ON webhook_events (environment_id, event_uuid) WHERE control;
CREATE INDEX webhook_events_batches ON webhook_events (environment_id, event_uuid) WHERE event_types IS NOT NULL;
CREATE INDEX webhook_events_after_failures ON webhook_events (environment_id, event_uuid) WHERE last_error IS NOT NULL;

-- +goose Down
DROP INDEX webhook_events_after_failures;
DROP INDEX webhook_events_batches;
DROP INDEX webhook_events_controls;
DROP INDEX webhook_events_duplicates;
