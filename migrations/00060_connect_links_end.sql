-- +goose Up
-- When the credentials that the connection had were given, at the time when the link was made: 0 without any, and negative
-- where that is not known. A link replaces no others.
ALTER TABLE connect_links ADD COLUMN credentials_ms bigint NOT NULL DEFAULT -1;
-- The state with which a browser has last come back, hashed as the id of a flow: a page that is loaded again shows how it ended.
ALTER TABLE connect_links ADD COLUMN returned_state text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE connect_links DROP COLUMN returned_state;
ALTER TABLE connect_links DROP COLUMN credentials_ms;
