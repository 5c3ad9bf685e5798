-- +goose Up
-- changes holds digests of the target before and after and the fields that differ; details, facts about the action. What was
-- recorded before there were digests is kept among the details.
ALTER TABLE audit_events ADD COLUMN details text NOT NULL DEFAULT '{}';
UPDATE audit_events SET details = changes, changes = '{"before_digest":null,"after_digest":null,"diff":{}}';

-- +goose Down
UPDATE audit_events SET changes = details;
ALTER TABLE audit_events DROP COLUMN details;
