-- +goose NO TRANSACTION
-- +goose Up
-- Due deliveries are claimed by subscription, through deliveries_open. What is left goes by state: expired leases must be
-- found without reading everything that waits.
-- Indexes are built while others write. An interrupted build leaves one that is invalid, so each build begins with a removal.
DROP INDEX CONCURRENTLY IF EXISTS deliveries_queue;
CREATE INDEX CONCURRENTLY deliveries_queue ON deliveries (status, due_ms) WHERE status IN ('pending', 'retry_wait', 'sending');
DROP INDEX CONCURRENTLY IF EXISTS deliveries_due;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS deliveries_due;
CREATE INDEX CONCURRENTLY deliveries_due ON deliveries (due_ms) WHERE status IN ('pending', 'retry_wait', 'sending');
DROP INDEX CONCURRENTLY IF EXISTS deliveries_queue;
