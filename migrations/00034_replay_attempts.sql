-- +goose Up
-- How often the queue has claimed a replay since it was last due by its own schedule or stored a step.
ALTER TABLE webhook_replays ADD COLUMN attempts bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE webhook_replays DROP COLUMN attempts;
