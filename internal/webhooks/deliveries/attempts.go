package deliveries

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/events"
)

var insertAttempts = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: `INSERT INTO delivery_attempts (id, event_uuid, subscription_id, environment_id, generation, number, outcome, started_ms,
		dns_us, connect_us, tls_us, first_byte_us, total_us, request_headers, http_status, response_headers, response_body, truncated,
		error_code, error_message)`,
	Types: []string{"text", "text", "text", "text", "bigint", "bigint", "text", "bigint", "bigint", "bigint", "bigint",
		"bigint", "bigint", "text", "bigint", "text", "bytea", "boolean", "text", "text"},
}

// recordAttempts returns the statement that stores the records of tries, and notes them in the log.
func recordAttempts(results []*result, log *events.Log) db.Statement {
	args := make([]any, 0, len(results)*insertAttempts.Columns())
	for _, r := range results {
		a := &r.attempt
		// The recorder makes the ids, so that they ascend in the order of commits and no page is passed by a late one. A
		// batch that is stored again, because the answer to its commit was lost, keeps them and is recognised by them.
		if a.ID == "" {
			a.ID = id.NewUUID()
		}
		log.Attempted(r.delivery.Environment, a.EventUUID, a.ID)
		args = append(args, a.ID, a.EventUUID, a.SubscriptionID, string(r.delivery.Environment), a.Generation, a.Number,
			string(a.Outcome), clock.Millis(a.StartedAt), a.Timings.DNS.Microseconds(), a.Timings.Connect.Microseconds(),
			a.Timings.TLS.Microseconds(), a.Timings.FirstByte.Microseconds(), a.Timings.Total.Microseconds(), a.RequestHeaders,
			a.HTTPStatus, a.ResponseHeaders, a.ResponseBody, a.Truncated, a.ErrorCode, a.ErrorMessage)
	}
	return db.Statement{Rows: insertAttempts, Args: args}
}

// AttemptsByID returns tries of the environment by their id, without what was sent and what came back. A try that is
// not there is not in the map.
func (s *Store) AttemptsByID(ctx context.Context, env id.Environment,
	tries []events.LogAttempt) (map[string]*Attempt, error) {
	out := make(map[string]*Attempt, len(tries))
	for chunk := range slices.Chunk(tries, 100) {
		args := []any{string(env)}
		for _, t := range chunk {
			args = append(args, t.EventUUID)
		}
		for _, t := range chunk {
			args = append(args, t.ID)
		}
		rows, err := s.db.Read().QueryContext(ctx, `SELECT a.id, a.event_uuid, a.subscription_id, a.generation, a.number, a.outcome, a.started_ms,
			a.dns_us, a.connect_us, a.tls_us, a.first_byte_us, a.total_us, a.http_status, a.error_code, a.error_message
			FROM delivery_attempts a WHERE a.environment_id = $1 AND a.event_uuid IN `+db.In(2, len(chunk))+` AND a.id IN `+
			db.In(2+len(chunk), len(chunk)), args...)
		if err != nil {
			return nil, fmt.Errorf("read attempts: %w", err)
		}
		if err := db.Each(rows, func(r *sql.Rows) error {
			a := &Attempt{}
			var t storedTimes
			err := r.Scan(&a.ID, &a.EventUUID, &a.SubscriptionID, &a.Generation, &a.Number, &a.Outcome, &t.started, &t.dns,
				&t.connect, &t.tls, &t.firstByte, &t.total, &a.HTTPStatus, &a.ErrorCode, &a.ErrorMessage)
			t.fill(a)
			out[a.ID] = a
			return err
		}); err != nil {
			return nil, fmt.Errorf("read attempts: %w", err)
		}
	}
	return out, nil
}

// storedTimes are the times of a try as they are stored.
type storedTimes struct{ started, dns, connect, tls, firstByte, total int64 }

func (t storedTimes) fill(a *Attempt) {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	a.StartedAt = clock.FromMillis(t.started)
	a.Timings = egress.Timings{DNS: us(t.dns), Connect: us(t.connect), TLS: us(t.tls), FirstByte: us(t.firstByte),
		Total: us(t.total)}
}

// Attempts returns a page of an event's tries. The event is known to be the environment's or yields none.
func (s *Store) Attempts(ctx context.Context, env id.Environment, eventUUID string, p page.Request) ([]Attempt, error) {
	condition := "a.event_uuid = $1 AND a.environment_id = $2"
	args := []any{eventUUID, string(env)}
	if p.After != "" {
		condition += " AND a.id " + p.Compare() + " $3"
		args = append(args, p.After)
	}
	rows, err := s.db.Read().QueryContext(ctx, `SELECT a.id, a.event_uuid, a.subscription_id, a.generation, a.number, a.outcome, a.started_ms,
		a.dns_us, a.connect_us, a.tls_us, a.first_byte_us, a.total_us, a.request_headers, a.http_status, a.response_headers, a.response_body,
		a.truncated, a.error_code, a.error_message FROM delivery_attempts a WHERE `+condition+` ORDER BY a.id `+p.Direction()+
		` LIMIT `+strconv.Itoa(p.Fetch()), args...)
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	list := []Attempt{}
	if err := db.Each(rows, func(r *sql.Rows) error {
		var a Attempt
		var t storedTimes
		if err := r.Scan(&a.ID, &a.EventUUID, &a.SubscriptionID, &a.Generation, &a.Number, &a.Outcome, &t.started, &t.dns,
			&t.connect, &t.tls, &t.firstByte, &t.total, &a.RequestHeaders, &a.HTTPStatus, &a.ResponseHeaders, &a.ResponseBody,
			&a.Truncated, &a.ErrorCode, &a.ErrorMessage); err != nil {
			return err
		}
		t.fill(&a)
		list = append(list, a)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	return list, nil
}
