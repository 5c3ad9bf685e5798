-- +goose Up
-- seq counts the events of a trail without gaps: that of an environment, of a team (what concerns no environment), or of the
-- installation. One sealer gives it after the commit; null until then.
ALTER TABLE audit_events ADD COLUMN seq bigint;
CREATE UNIQUE INDEX audit_events_by_seq ON audit_events (COALESCE(environment_id, team_id, ''), seq) WHERE seq IS NOT NULL;
CREATE INDEX audit_events_unsealed ON audit_events (id) WHERE seq IS NULL;

-- +goose Down
DROP INDEX audit_events_unsealed;
DROP INDEX audit_events_by_seq;
ALTER TABLE audit_events DROP COLUMN seq;
