-- +goose Up
-- A sign-in and what it was refreshed to. family_mac finds the row by the part of the refresh token that stays; token_mac
-- is that of the one token that works, previous_mac that of the one before it. An ended session keeps its row until
-- expires_ms, for the addresses that a user is known to sign in from.
CREATE TABLE sessions (
  id             text PRIMARY KEY,
  user_id        text NOT NULL REFERENCES users (id),
  team_id        text NOT NULL REFERENCES teams (id),
  family_mac     bytea NOT NULL UNIQUE,
  token_mac      bytea NOT NULL,
  previous_mac   bytea,
  signed_in_from text NOT NULL,
  ip             text NOT NULL,
  user_agent     text NOT NULL,
  created_ms     bigint NOT NULL,
  auth_ms        bigint NOT NULL,
  used_ms        bigint NOT NULL,
  expires_ms     bigint NOT NULL,
  ended_ms       bigint
);
CREATE INDEX sessions_by_user ON sessions (user_id, id);
CREATE INDEX sessions_by_address ON sessions (user_id, signed_in_from);
CREATE INDEX sessions_by_expiry ON sessions (expires_ms);

-- Failed sign-ins by account and by address. The id is a code of either, so that what strangers type is not kept.
CREATE TABLE sign_in_failures (
  id         text PRIMARY KEY,
  failures   bigint NOT NULL,
  blocked_ms bigint NOT NULL,
  last_ms    bigint NOT NULL
);
CREATE INDEX sign_in_failures_by_time ON sign_in_failures (last_ms);

-- A deleted environment keeps its row, because rows that outlive their resources name it.
ALTER TABLE environments ADD COLUMN type text NOT NULL DEFAULT 'test';
ALTER TABLE environments ADD COLUMN deleted_ms bigint;
UPDATE environments SET type = 'live' WHERE name = 'production';

-- When the key begins to sign; the newest that has begun does.
ALTER TABLE signing_keys ADD COLUMN signs_from_ms bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE signing_keys DROP COLUMN signs_from_ms;
ALTER TABLE environments DROP COLUMN deleted_ms;
ALTER TABLE environments DROP COLUMN type;
DROP TABLE sign_in_failures;
DROP TABLE sessions;
