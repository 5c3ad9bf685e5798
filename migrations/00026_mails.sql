-- +goose Up
-- Mails that wait to be sent. message is sealed: it holds the recipient and, mostly, a token. A row goes when its mail was sent,
-- refused permanently, or is no longer needed.
CREATE TABLE mails (
  id         text PRIMARY KEY,
  kind       text NOT NULL,
  about      text NOT NULL,
  message    bytea NOT NULL,
  tries      bigint NOT NULL,
  due_ms     bigint NOT NULL,
  expires_ms bigint NOT NULL
);
CREATE INDEX mails_by_time ON mails (due_ms);
CREATE INDEX mails_by_subject ON mails (about);

-- +goose Down
DROP TABLE mails;
