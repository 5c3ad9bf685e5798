-- +goose Up
-- Imports of descriptions of APIs. An import is a job first and a version of a provider's actions then: at most one of a
-- provider in an environment is active. document, outcome and failure are JSON; an empty text is one that is not there yet.
-- An import whose document is still being received has the status receiving and is shown to no one.
CREATE TABLE catalog_imports (
  id              text PRIMARY KEY,
  environment_id  text NOT NULL REFERENCES environments (id),
  slug            text NOT NULL,
  extends         boolean NOT NULL,
  display_name    text NOT NULL,
  status          text NOT NULL,
  source          text NOT NULL,
  url             text NOT NULL,
  base_url        text NOT NULL,
  includes        text NOT NULL,
  excludes        text NOT NULL,
  trusted         boolean NOT NULL,
  document        text NOT NULL,
  failure         text NOT NULL,
  stored_bytes    bigint NOT NULL,
  actions         bigint NOT NULL,
  progress        text,
  created_by_type text NOT NULL,
  created_by_id   text NOT NULL,
  created_by_name text NOT NULL,
  claim_id        text NOT NULL,
  lease_ms        bigint NOT NULL,
  due_ms          bigint NOT NULL,
  attempts        bigint NOT NULL DEFAULT 0,
  leases_lost     bigint NOT NULL DEFAULT 0,
  version         bigint NOT NULL,
  created_ms      bigint NOT NULL,
  updated_ms      bigint NOT NULL,
  started_ms      bigint,
  finished_ms     bigint,
  activated_ms    bigint,
  -- The large columns are the last: reading the others must not go through them.
  definition      text NOT NULL,
  outcome         text NOT NULL
);
CREATE INDEX catalog_imports_by_environment ON catalog_imports (environment_id, id);
CREATE INDEX catalog_imports_by_slug ON catalog_imports (environment_id, slug, id);
CREATE INDEX catalog_imports_open ON catalog_imports (environment_id, due_ms) WHERE finished_ms IS NULL;
CREATE UNIQUE INDEX catalog_imports_active ON catalog_imports (environment_id, slug) WHERE status = 'active';

-- The contents of imports in parts: the document until it was read, then the actions and their index.
CREATE TABLE catalog_import_parts (
  import_id      text NOT NULL,
  environment_id text NOT NULL,
  kind           text NOT NULL,
  part           bigint NOT NULL,
  data           bytea NOT NULL,
  PRIMARY KEY (import_id, kind, part)
);

-- +goose Down
DROP TABLE catalog_import_parts;
DROP TABLE catalog_imports;
