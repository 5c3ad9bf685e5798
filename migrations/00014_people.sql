-- +goose Up
-- What opens the set-up of an installation that has no team: a code of each token given out. The rows go with the set-up.
CREATE TABLE setup_tokens (
  token_mac  bytea PRIMARY KEY,
  created_ms bigint NOT NULL
);

-- +goose Down
DROP TABLE setup_tokens;
