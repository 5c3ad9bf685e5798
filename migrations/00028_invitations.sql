-- +goose Up
-- Invitations into the team. token_mac is the HMAC of the newest link, null once it no longer works. Rows are removed some
-- time after their expiry.
CREATE TABLE invitations (
  id             text PRIMARY KEY,
  team_id        text NOT NULL REFERENCES teams (id),
  email          text NOT NULL,
  role           text NOT NULL,
  environment_id text REFERENCES environments (id),
  token_mac      bytea,
  invited_by     text NOT NULL REFERENCES users (id),
  created_ms     bigint NOT NULL,
  sent_ms        bigint NOT NULL,
  expires_ms     bigint NOT NULL,
  accepted_ms    bigint,
  accepted_by    text REFERENCES users (id),
  revoked_ms     bigint
);
CREATE UNIQUE INDEX invitations_by_token ON invitations (token_mac);
CREATE INDEX invitations_by_team ON invitations (team_id, id);
CREATE INDEX invitations_by_email ON invitations (team_id, email);
CREATE INDEX invitations_by_expiry ON invitations (expires_ms);

-- +goose Down
DROP TABLE invitations;
