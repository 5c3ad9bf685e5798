-- +goose Up
-- The processes that share the database, each with its role and when it was seen last. They register again and again, so the table is
-- not in the write-ahead log: after a crash of the database it is empty for a moment.
CREATE UNLOGGED TABLE nodes (
  id      text PRIMARY KEY,
  role    text NOT NULL,
  seen_ms bigint NOT NULL
) WITH (fillfactor = 50);

-- +goose Down
DROP TABLE nodes;
