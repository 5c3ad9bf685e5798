package events

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"

	"sallyport/internal/platform/db"
)

// Keys claims and releases the idempotency keys of events.
type Keys struct{ db *db.DB }

// NewKeys returns Keys.
func NewKeys(d *db.DB) *Keys { return &Keys{db: d} }

// KeyForever is the expiry of a key that lives as long as its event.
const KeyForever = int64(math.MaxInt64)

// Key is an idempotency key of a connection, to claim for an event.
type Key struct {
	ConnectionUUID string
	Hash           []byte
	EventUUID      string
	// ExpiresMillis is when the key becomes free again, in Unix milliseconds, or KeyForever.
	ExpiresMillis int64
}

func compareKeys(a, b *Key) int {
	return cmp.Or(cmp.Compare(a.ConnectionUUID, b.ConnectionUUID), bytes.Compare(a.Hash, b.Hash))
}

// claimKeys inserts keys and takes over expired ones. Other keys are left as they are and not counted as affected.
var claimKeys = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO webhook_event_keys (connection_uuid, key_hash, event_uuid, claimed_ms, expires_ms)",
	Types:  []string{"text", "bytea", "text", "bigint", "bigint"},
	After: "ON CONFLICT (connection_uuid, key_hash) DO UPDATE SET event_uuid = excluded.event_uuid, claimed_ms = " +
		"excluded.claimed_ms," +
		" expires_ms = excluded.expires_ms WHERE webhook_event_keys.expires_ms <= excluded.claimed_ms",
}

// Claim claims every key that is free or expired at nowMillis. It returns, by position, the events that hold the
// others, and "" for a claimed key. The keys must differ from each other. They are claimed in the order of connection
// and hash, so that writers cannot deadlock.
func (k *Keys) Claim(ctx context.Context, tx *sql.Tx, keys []*Key, nowMillis int64) ([]string, error) {
	sorted := slices.Clone(keys)
	slices.SortFunc(sorted, compareKeys)
	args := make([]any, 0, len(sorted)*claimKeys.Columns())
	for _, key := range sorted {
		args = append(args, key.ConnectionUUID, key.Hash, key.EventUUID, nowMillis, key.ExpiresMillis)
	}
	n, err := k.db.Exec(ctx, tx, claimKeys, args)
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
	for i, key := range keys {
		if h := held[key.ConnectionUUID+string(key.Hash)]; h != key.EventUUID {
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

// HandOver makes another event the holder of a key that the event has claimed.
func (*Keys) HandOver(ctx context.Context, tx *sql.Tx, key Key, to string) error {
	_, err := tx.ExecContext(ctx, `UPDATE webhook_event_keys SET event_uuid = $4 WHERE connection_uuid = $1
		AND key_hash = $2 AND event_uuid = $3`, key.ConnectionUUID, key.Hash, key.EventUUID, to)
	if err != nil {
		return fmt.Errorf("hand a key over: %w", err)
	}
	return nil
}

// Release deletes a key that the event has claimed.
func (*Keys) Release(ctx context.Context, tx *sql.Tx, key Key) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM webhook_event_keys WHERE connection_uuid = $1 AND key_hash = $2
		AND event_uuid = $3`,
		key.ConnectionUUID, key.Hash, key.EventUUID)
	if err != nil {
		return fmt.Errorf("release a key: %w", err)
	}
	return nil
}
