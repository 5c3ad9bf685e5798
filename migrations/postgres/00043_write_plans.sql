-- +goose NO TRANSACTION
-- +goose Up
-- These two indexes serve lists. Until a table is analyzed, every index that begins with the environment looks equal to the planner,
-- and it would change events through them, at the cost of all events of the environment for each. No statement that changes an
-- event implies their conditions, so it cannot use them. They are built under other names while others write, and again after an
-- interruption, so that lists have an index at all times.
DROP INDEX CONCURRENTLY IF EXISTS webhook_events_by_type_new;
CREATE INDEX CONCURRENTLY webhook_events_by_type_new ON webhook_events (environment_id, event_type text_pattern_ops, event_uuid)
  WHERE event_type <> '';
DROP INDEX CONCURRENTLY IF EXISTS webhook_events_by_type;
ALTER INDEX webhook_events_by_type_new RENAME TO webhook_events_by_type;
DROP INDEX CONCURRENTLY IF EXISTS webhook_events_by_connection_new;
CREATE INDEX CONCURRENTLY webhook_events_by_connection_new ON webhook_events (environment_id, connection_id, event_uuid)
  WHERE connection_id <> '';
DROP INDEX CONCURRENTLY IF EXISTS webhook_events_by_connection;
ALTER INDEX webhook_events_by_connection_new RENAME TO webhook_events_by_connection;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS webhook_events_by_type;
CREATE INDEX CONCURRENTLY webhook_events_by_type ON webhook_events (environment_id, event_type text_pattern_ops, event_uuid);
DROP INDEX CONCURRENTLY IF EXISTS webhook_events_by_connection;
CREATE INDEX CONCURRENTLY webhook_events_by_connection ON webhook_events (environment_id, connection_id, event_uuid);
