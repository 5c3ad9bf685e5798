-- +goose Up
-- The deliveries of an event beyond the first few hundred, until a worker has stored them. The event counts them from the start. A
-- fan-out is the job, a part what one transaction stores: the subscriptions that matched when the event was received.
CREATE TABLE delivery_fanouts (
  event_uuid     text PRIMARY KEY,
  environment_id text NOT NULL,
  claim_id       text NOT NULL,
  lease_ms       bigint NOT NULL,
  due_ms         bigint NOT NULL,
  attempts       bigint NOT NULL
);
CREATE INDEX delivery_fanouts_due ON delivery_fanouts (environment_id, due_ms);
CREATE TABLE delivery_fanout_parts (
  event_uuid     text NOT NULL,
  part           bigint NOT NULL,
  environment_id text NOT NULL,
  subscriptions  text NOT NULL,
  PRIMARY KEY (event_uuid, part)
);

-- +goose Down
DROP TABLE delivery_fanout_parts;
DROP TABLE delivery_fanouts;
