-- +goose Up
-- When the credentials of a connection are tested next. claim is the process that does it, and due_ms the end of its lease then.
CREATE TABLE connection_checks (
  connection_uuid text PRIMARY KEY REFERENCES connections (uuid) ON DELETE CASCADE,
  environment_id  text NOT NULL REFERENCES environments (id),
  due_ms          bigint NOT NULL,
  claim           text NOT NULL
);
CREATE INDEX connection_checks_by_environment ON connection_checks (environment_id, due_ms);

-- +goose Down
DROP TABLE connection_checks;
