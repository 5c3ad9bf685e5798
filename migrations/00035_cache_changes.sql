-- +goose Up
-- What each version of a cached collection has changed, so that a process reads again only that. The release before this one raises
-- versions without a row here; a process that misses one reads everything again.
CREATE TABLE cache_changes (
  name    text NOT NULL,
  version bigint NOT NULL,
  key     text NOT NULL,
  PRIMARY KEY (name, version)
);

-- +goose Down
DROP TABLE cache_changes;
