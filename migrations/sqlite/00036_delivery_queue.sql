-- +goose Up
-- Due deliveries are claimed by subscription, through deliveries_open. What is left goes by state: expired leases must be
-- found without reading everything that waits.
CREATE INDEX deliveries_queue ON deliveries (status, due_ms) WHERE status IN ('pending', 'retry_wait', 'sending');
DROP INDEX deliveries_due;

-- +goose Down
CREATE INDEX deliveries_due ON deliveries (due_ms) WHERE status IN ('pending', 'retry_wait', 'sending');
DROP INDEX deliveries_queue;
