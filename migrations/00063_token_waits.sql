-- +goose Up
-- Until when no request has a token renewed whose last renewal has failed: the token endpoint has asked to wait, or fails again and again.
ALTER TABLE token_refreshes ADD COLUMN not_before_ms bigint;

-- +goose Down
ALTER TABLE token_refreshes DROP COLUMN not_before_ms;
