-- +goose Up
-- A connection may have several active secrets, so that one can replace another without a gap. last_matched_ms is when a
-- delivery last verified under the secret, to the minute.
ALTER TABLE connection_secrets ADD COLUMN label text NOT NULL DEFAULT '';
ALTER TABLE connection_secrets ADD COLUMN last_matched_ms bigint;

-- +goose Down
ALTER TABLE connection_secrets DROP COLUMN last_matched_ms;
ALTER TABLE connection_secrets DROP COLUMN label;
