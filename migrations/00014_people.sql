-- +goose Up
-- Tokens that open the set-up of an installation without a team: the HMAC of each. The set-up removes the rows.
CREATE TABLE setup_tokens (
  token_mac  bytea PRIMARY KEY,
  created_ms bigint NOT NULL
);

-- +goose Down
DROP TABLE setup_tokens;
