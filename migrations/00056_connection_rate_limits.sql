-- +goose Up
-- What the provider has last said about the rate limit of a connection. blocked_ms is until when it wants no request; 0 for no such time.
-- remaining is negative, and reset_ms 0, where it is not known.
CREATE TABLE connection_rate_limits (
  connection_uuid text PRIMARY KEY REFERENCES connections (uuid) ON DELETE CASCADE,
  environment_id  text NOT NULL REFERENCES environments (id),
  requests        bigint NOT NULL,
  remaining       bigint NOT NULL,
  reset_ms        bigint NOT NULL,
  blocked_ms      bigint NOT NULL,
  observed_ms     bigint NOT NULL
);
CREATE INDEX connection_rate_limits_by_time ON connection_rate_limits (observed_ms);

-- +goose Down
DROP TABLE connection_rate_limits;
