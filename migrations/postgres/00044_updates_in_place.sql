-- +goose Up
-- A statement that waits for its lock makes all others wait. If the lock is not free in time, run the migration again.
SET LOCAL lock_timeout = '5s';
-- One transaction changes all events of a page: their new versions fit next to the old ones only if half of the page is free. The
-- rest of a full page is updated with a new entry in every index. Pages that exist keep their form.
ALTER TABLE webhook_events SET (fillfactor = 50);
-- The entries are ids, which are random: compressing them costs more time than the rest of the row, and saves little.
ALTER TABLE webhook_event_log ALTER COLUMN entries SET STORAGE EXTERNAL;

-- +goose Down
ALTER TABLE webhook_event_log ALTER COLUMN entries SET STORAGE EXTENDED;
ALTER TABLE webhook_events SET (fillfactor = 60);
