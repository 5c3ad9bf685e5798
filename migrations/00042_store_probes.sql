-- +goose Up
-- Each node writes its row from time to time, to know whether the database stores anything.
CREATE TABLE store_probes (
  node      text PRIMARY KEY,
  probed_ms bigint NOT NULL,
  filler    bytea NOT NULL
);

-- +goose Down
DROP TABLE store_probes;
