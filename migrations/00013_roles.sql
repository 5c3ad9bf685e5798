-- +goose Up
-- The roles that a team has made; the system roles are no rows. permissions is a JSON array of texts.
CREATE TABLE roles (
  id             text PRIMARY KEY,
  team_id        text NOT NULL REFERENCES teams (id),
  name           text NOT NULL,
  description    text NOT NULL,
  permissions    text NOT NULL,
  created_ms     bigint NOT NULL,
  updated_ms     bigint NOT NULL,
  UNIQUE (team_id, name)
);

-- Bindings of users to roles, in one environment or, without one, in the whole team. role is the name of a system role or the id of a
-- row of roles. Rights are read from here; memberships.role is read by the previous release alone.
CREATE TABLE role_bindings (
  id             text PRIMARY KEY,
  team_id        text NOT NULL REFERENCES teams (id),
  principal_type text NOT NULL,
  principal_id   text NOT NULL,
  role           text NOT NULL,
  environment_id text REFERENCES environments (id),
  created_ms     bigint NOT NULL,
  expires_ms     bigint
);
CREATE UNIQUE INDEX role_bindings_by_principal ON role_bindings (principal_type, principal_id, team_id, role, COALESCE(environment_id, ''));
CREATE INDEX role_bindings_by_role ON role_bindings (team_id, role);
CREATE INDEX role_bindings_by_environment ON role_bindings (environment_id) WHERE environment_id IS NOT NULL;

-- Every membership becomes a binding. The bodies of the ids need only be of their form: that of the user names no other binding.
INSERT INTO role_bindings (id, team_id, principal_type, principal_id, role, environment_id, created_ms, expires_ms)
  SELECT 'rbd_' || SUBSTR(user_id, 5), team_id, 'user', user_id, role, NULL, created_ms, NULL FROM memberships;

-- When a member was disabled; null for those who are not.
ALTER TABLE memberships ADD COLUMN disabled_ms bigint;

-- +goose Down
ALTER TABLE memberships DROP COLUMN disabled_ms;
DROP TABLE role_bindings;
DROP TABLE roles;
