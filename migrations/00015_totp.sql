-- +goose Up
-- A user's authenticator app, active once it is confirmed. last_step is the time step of the last code that was used: none up to
-- it works again. failures counts wrong codes in a row.
CREATE TABLE user_totp (
  user_id      text PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
  secret       bytea NOT NULL,
  created_ms   bigint NOT NULL,
  confirmed_ms bigint,
  last_step    bigint NOT NULL,
  failures     bigint NOT NULL,
  blocked_ms   bigint NOT NULL
);

CREATE TABLE user_recovery_codes (
  user_id text NOT NULL REFERENCES user_totp (user_id) ON DELETE CASCADE,
  mac     bytea NOT NULL,
  used_ms bigint,
  PRIMARY KEY (user_id, mac)
);

-- How the user has shown who they are, in the values of RFC 8176, with spaces between.
ALTER TABLE sessions ADD COLUMN methods text NOT NULL DEFAULT 'pwd';

-- +goose Down
ALTER TABLE sessions DROP COLUMN methods;
DROP TABLE user_recovery_codes;
DROP TABLE user_totp;
