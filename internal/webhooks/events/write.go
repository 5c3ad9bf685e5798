package events

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Store reads and writes events. Methods that take a transaction belong to the caller's.
type Store struct {
	db         *db.DB
	deliveries DeliveryFilter
	retention  Retention
	clock      clock.Clock
	// readTimeout bounds a list, in a field for the tests.
	readTimeout time.Duration
}

// DeliveryFilter turns the filters of a list that ask about deliveries into a condition on an event's uuid.
// internal/webhooks/deliveries provides it.
type DeliveryFilter interface {
	// Where returns a condition on the column named, with placeholders from $next on, and its arguments. Exactly the
	// non-empty fields restrict.
	Where(column string, f DeliveryCriteria, next int) (condition string, args []any)
}

// DeliveryCriteria are the filters of a list that ask about an event's deliveries.
type DeliveryCriteria struct {
	SubscriptionIDs []string
	HTTPStatuses    []int
	ErrorCodes      []string
}

// Config is what a Store is made from.
type Config struct {
	DB         *db.DB
	Deliveries DeliveryFilter
	// Retention knows how long environments keep things; nil keeps everything.
	Retention Retention
	// Clock may be nil, which means the system's.
	Clock clock.Clock
}

// New returns a Store.
func New(c Config) *Store {
	s := &Store{db: c.DB, deliveries: c.Deliveries, retention: c.Retention, clock: c.Clock, readTimeout: readTimeout}
	if s.retention == nil {
		s.retention = unlimited{}
	}
	if s.clock == nil {
		s.clock = clock.System()
	}
	return s
}

// NewEvent is an event to store, with the state of its deliveries at that moment.
type NewEvent struct {
	Event
	Counters
	// Payload is nil for a duplicate, which keeps none.
	Payload *Payload
}

// KeyForever is the expiry of a key that lives as long as its event.
const KeyForever = int64(math.MaxInt64)

// Key claims an idempotency key of a connection for an event.
type Key struct {
	ConnectionUUID string
	Hash           []byte
	EventUUID      string
	// ExpiresMillis is when the key may be claimed anew, in Unix milliseconds; KeyForever for never.
	ExpiresMillis int64
}

func compareKeys(a, b *Key) int {
	return cmp.Or(cmp.Compare(a.ConnectionUUID, b.ConnectionUUID), bytes.Compare(a.Hash, b.Hash))
}

// claimKeys inserts keys, and takes over those that have expired. A key that is neither free nor expired is left as it
// is and not counted as affected.
var claimKeys = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO webhook_event_keys (connection_uuid, key_hash, event_uuid, claimed_ms, expires_ms)",
	Types:  []string{"text", "bytea", "text", "bigint", "bigint"},
	After: "ON CONFLICT (connection_uuid, key_hash) DO UPDATE SET event_uuid = excluded.event_uuid, claimed_ms = " +
		"excluded.claimed_ms," +
		" expires_ms = excluded.expires_ms WHERE webhook_event_keys.expires_ms <= excluded.claimed_ms",
}

// ClaimKeys claims every key that is free or expired at nowMillis and returns, by position, the event that holds each
// of the others ("" for a key that was claimed). The keys must differ from each other. They are claimed in one order,
// by connection and hash, so that two writers cannot wait for each other in a circle.
func (s *Store) ClaimKeys(ctx context.Context, tx *sql.Tx, keys []*Key, nowMillis int64) ([]string, error) {
	sorted := slices.Clone(keys)
	slices.SortFunc(sorted, compareKeys)
	args := make([]any, 0, len(sorted)*claimKeys.Columns())
	for _, k := range sorted {
		args = append(args, k.ConnectionUUID, k.Hash, k.EventUUID, nowMillis, k.ExpiresMillis)
	}
	n, err := s.db.Exec(ctx, tx, claimKeys, args)
	if err != nil {
		return nil, fmt.Errorf("claim keys: %w", err)
	}
	holders := make([]string, len(keys))
	if n == int64(len(keys)) {
		return holders, nil
	}
	held, err := readHolders(ctx, tx, sorted)
	if err != nil {
		return nil, fmt.Errorf("read the holders of keys: %w", err)
	}
	for i, k := range keys {
		if h := held[k.ConnectionUUID+string(k.Hash)]; h != k.EventUUID {
			holders[i] = h
		}
	}
	return holders, nil
}

// readHolders returns the event that holds each key, by connection and hash. The keys are sorted by connection.
func readHolders(ctx context.Context, tx *sql.Tx, keys []*Key) (map[string]string, error) {
	held := make(map[string]string, len(keys))
	for len(keys) > 0 {
		connection := keys[0].ConnectionUUID
		args := []any{connection}
		for len(keys) > 0 && keys[0].ConnectionUUID == connection {
			args = append(args, keys[0].Hash)
			keys = keys[1:]
		}
		//nolint:gosec // only placeholders are added
		query := `SELECT key_hash, event_uuid FROM webhook_event_keys WHERE connection_uuid = $1 AND key_hash IN ` +
			db.In(2, len(args)-1)
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		if err := db.Each(rows, func(r *sql.Rows) error {
			var hash []byte
			var event string
			if err := r.Scan(&hash, &event); err != nil {
				return err
			}
			held[connection+string(hash)] = event
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// ReleaseKey gives back a key that the event has claimed.
func (s *Store) ReleaseKey(ctx context.Context, tx *sql.Tx, k Key) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM webhook_event_keys WHERE connection_uuid = $1 AND key_hash = $2
		AND event_uuid = $3`,
		k.ConnectionUUID, k.Hash, k.EventUUID)
	if err != nil {
		return fmt.Errorf("release a key: %w", err)
	}
	return nil
}

var insertEvents = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: `INSERT INTO webhook_events (event_uuid, environment_id, connection_uuid, connection_id, provider,
		provider_config_key, event_type, event_types, status, idempotency_key, idempotency_source, duplicate_of, suspect,
		control, verification, content_type, body_size, hops, n_sending, n_pending, n_held, received_ms, updated_ms,
		attempt_count, n_retry_wait, n_held_failed, n_dead, n_succeeded, n_cancelled, n_tried)`,
	Types: []string{"text", "text", "text", "text", "text", "text", "text", "text", "text", "text", "text", "text", "text",
		"boolean", "text", "text", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint"},
	Row: "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0)",
}

var insertPayloads = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO webhook_event_payloads (event_uuid, received_ms, headers, body, encoding)",
	Types:  []string{"text", "bigint", "text", "bytea", "text"},
}

// Insert returns the statements that store events and their payloads, and note them in the log. The deliveries that the
// counters speak of are the caller's to store in the same transaction.
func Insert(list []NewEvent) []db.Statement {
	rows := make([]any, 0, len(list)*insertEvents.Columns())
	payloads := make([]any, 0, len(list)*insertPayloads.Columns())
	var log Log
	for i := range list {
		e := &list[i]
		log.Received(e.Environment, e.UUID)
		if e.ReceivedAt.After(log.At) {
			log.At = e.ReceivedAt
		}
		received := clock.Millis(e.ReceivedAt)
		rows = append(rows, e.UUID, string(e.Environment), e.ConnectionUUID, e.ConnectionID, e.Provider, e.ProviderConfigKey,
			e.Type, e.typesText(), string(StatusOf(e.Counters)), e.IdempotencyKey, e.IdempotencySource, e.DuplicateOf, e.Suspect,
			e.Control, e.Verification, e.ContentType, e.BodySize, e.Hops, e.Sending, e.Pending, e.Held, received, received)
		if e.Payload != nil {
			body := e.Payload.Body
			if body == nil {
				body = []byte{} // nil would be NULL
			}
			payloads = append(payloads, e.UUID, received, e.Payload.Headers, body, string(e.Payload.Encoding))
		}
	}
	return []db.Statement{{Rows: insertEvents, Args: rows}, {Rows: insertPayloads, Args: payloads}, log.Statement()}
}

// typesText is what the column event_types holds.
func (e *NewEvent) typesText() any {
	if e.Types == nil {
		return nil
	}
	b, err := json.Marshal(e.Types)
	if err != nil {
		return nil // strings always marshal
	}
	return string(b)
}

// MarkRedelivered notes that the event's deliveries are restarted because its provider sent it again. It reports false,
// and changes nothing, when that was noted after notAfter already, or the payload was expunged.
func (s *Store) MarkRedelivered(ctx context.Context, tx *sql.Tx, env id.Environment, uuid string, now,
	notAfter time.Time) (bool, error) {
	res, err := tx.ExecContext(ctx, `UPDATE webhook_events SET redelivered_ms = $1 WHERE environment_id = $2
		AND event_uuid = $3
		AND (redelivered_ms IS NULL OR redelivered_ms <= $4) AND expunged_ms IS NULL`,
		clock.Millis(now), string(env), uuid, clock.Millis(notAfter))
	if err != nil {
		return false, fmt.Errorf("mark a redelivery: %w", err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}
