-- +goose Up
CREATE INDEX connect_links_by_returned_state ON connect_links (returned_state) WHERE returned_state <> '';

-- +goose Down
DROP INDEX connect_links_by_returned_state;
