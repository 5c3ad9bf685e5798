-- +goose Up
-- Requests for a link to reset a password. A job looks for the account afterwards, so that the response reveals nothing.
-- request is sealed, because what strangers type may be a password in the wrong field.
CREATE TABLE password_reset_requests (
  id         text PRIMARY KEY,
  request    bytea NOT NULL,
  created_ms bigint NOT NULL
);

-- Tokens that reset a password, once: the HMAC of each.
CREATE TABLE password_resets (
  token_mac  bytea PRIMARY KEY,
  user_id    text NOT NULL REFERENCES users (id),
  created_ms bigint NOT NULL,
  expires_ms bigint NOT NULL
);
CREATE INDEX password_resets_by_user ON password_resets (user_id);
CREATE INDEX password_resets_by_expiry ON password_resets (expires_ms);

-- +goose Down
DROP TABLE password_resets;
DROP TABLE password_reset_requests;
