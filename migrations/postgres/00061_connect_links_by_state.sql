-- +goose NO TRANSACTION
-- +goose Up
-- Links by the state of a browser that comes back. It is built while others write, and again after an interruption.
DROP INDEX CONCURRENTLY IF EXISTS connect_links_by_returned_state;
CREATE INDEX CONCURRENTLY connect_links_by_returned_state ON connect_links (returned_state) WHERE returned_state <> '';

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS connect_links_by_returned_state;
