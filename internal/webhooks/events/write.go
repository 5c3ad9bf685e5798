package events

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// NewEvent is an event to store, with the initial counters of its deliveries.
type NewEvent struct {
	Event
	Counters
	// Payload is nil for a duplicate.
	Payload *Payload
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
	Before: "INSERT INTO webhook_event_payloads (event_uuid, received_ms, headers, body, encoding, signatures)",
	Types:  []string{"text", "bigint", "text", "bytea", "text", "text"},
}

// Insert returns the statements that store events and their payloads and add them to the log. The caller stores the
// deliveries that the counters count, in the same transaction.
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
			payloads = append(payloads, e.UUID, received, e.Payload.Headers, body, string(e.Payload.Encoding),
				e.Payload.signaturesText())
		}
	}
	return []db.Statement{{Rows: insertEvents, Args: rows}, {Rows: insertPayloads, Args: payloads}, log.Statement()}
}

// signaturesText returns the value of the column signatures.
func (p *Payload) signaturesText() any {
	if p.Signatures == "" {
		return nil
	}
	return p.Signatures
}

// typesText returns the value of the column event_types.
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

// MayRedeliver reports whether the event has dead deliveries and MarkRedelivered, with the same notAfter, would return
// true. It reads one row, so that a request can look before it reads deliveries.
func (s *Store) MayRedeliver(ctx context.Context, env id.Environment, uuid string, notAfter time.Time) (bool, error) {
	var one int
	return db.Found("an event to redeliver", s.db.Read().QueryRowContext(ctx, `SELECT 1 FROM webhook_events
		WHERE environment_id = $1 AND event_uuid = $2 AND n_dead > 0
		AND (redelivered_ms IS NULL OR redelivered_ms <= $3) AND expunged_ms IS NULL`,
		string(env), uuid, clock.Millis(notAfter)).Scan(&one))
}

// MarkRedelivered records that the event's deliveries are restarted because its provider sent it again. It returns
// false, and changes nothing, if that was recorded after notAfter or the payload was expunged.
func (s *Store) MarkRedelivered(ctx context.Context, tx *sql.Tx, env id.Environment, uuid string, now,
	notAfter time.Time) (bool, error) {
	marked, err := db.Changed(tx.ExecContext(ctx, `UPDATE webhook_events SET redelivered_ms = $1 WHERE environment_id = $2
		AND event_uuid = $3
		AND (redelivered_ms IS NULL OR redelivered_ms <= $4) AND expunged_ms IS NULL`,
		clock.Millis(now), string(env), uuid, clock.Millis(notAfter)))
	if err != nil {
		return false, fmt.Errorf("mark a redelivery: %w", err)
	}
	return marked, nil
}
