-- +goose Up
-- What the clock showed by which the node stores due times, where that is the machine's: a process that starts sees whether it was set
-- back in the meantime. Unix milliseconds.
ALTER TABLE store_probes ADD COLUMN shown_ms bigint;

-- +goose Down
ALTER TABLE store_probes DROP COLUMN shown_ms;
