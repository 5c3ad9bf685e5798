-- +goose Up
-- The member whose connection it is, and who alone uses its credentials; empty for a connection of the environment.
ALTER TABLE connections ADD COLUMN owner_user_id text NOT NULL DEFAULT '';

-- When the owner of the connection has signed in, in the browser to which the link belongs; 0 before.
ALTER TABLE connect_links ADD COLUMN signed_in_ms bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE connect_links DROP COLUMN signed_in_ms;
ALTER TABLE connections DROP COLUMN owner_user_id;
