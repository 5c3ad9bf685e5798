-- +goose Up
-- Somebody asks for a link to reset a password. Whether there is an account is found out afterwards, when nobody waits for the
-- answer. request is sealed, because what strangers type may be a password in the wrong field.
CREATE TABLE password_reset_requests (
  id         text PRIMARY KEY,
  request    bytea NOT NULL,
  created_ms bigint NOT NULL
);

-- What resets a password, once: a code of each token sent.
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
