package deliveries

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/events"
)

var insertAttempts = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: `INSERT INTO delivery_attempts (id, event_uuid, subscription_id, environment_id, generation, number, outcome,
		started_ms, dns_us, connect_us, tls_us, first_byte_us, total_us, request_headers, http_status, response_headers,
		response_body, truncated, error_code, error_message)`,
	Types: []string{"text", "text", "text", "text", "bigint", "bigint", "text", "bigint", "bigint", "bigint", "bigint",
		"bigint", "bigint", "text", "bigint", "text", "bytea", "boolean", "text", "text"},
}

// recordAttempts returns the statement that stores the records of attempts, and adds them to the log.
func recordAttempts(results []*result, log *events.Log) db.Statement {
	args := make([]any, 0, len(results)*insertAttempts.Columns())
	for _, r := range results {
		a := &r.attempt
		// The recorder makes the ids, so that they ascend in the order of commits and no page misses a late one. A batch that
		// is stored again, because the response to its commit was lost, keeps its ids and is recognised by them.
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

// attemptColumns binds the columns of an attempt, for reading.
func attemptColumns(a *Attempt) db.Columns {
	return db.Columns{
		db.Col("id", &a.ID),
		db.Col("event_uuid", &a.EventUUID),
		db.Col("subscription_id", &a.SubscriptionID),
		db.Col("generation", &a.Generation),
		db.Col("number", &a.Number),
		db.Col("outcome", &a.Outcome),
		db.Col("started_ms", db.Millis(&a.StartedAt)),
		db.Col("dns_us", db.Duration(&a.Timings.DNS, time.Microsecond)),
		db.Col("connect_us", db.Duration(&a.Timings.Connect, time.Microsecond)),
		db.Col("tls_us", db.Duration(&a.Timings.TLS, time.Microsecond)),
		db.Col("first_byte_us", db.Duration(&a.Timings.FirstByte, time.Microsecond)),
		db.Col("total_us", db.Duration(&a.Timings.Total, time.Microsecond)),
		db.Col("http_status", &a.HTTPStatus),
		db.Col("error_code", &a.ErrorCode),
		db.Col("error_message", &a.ErrorMessage),
		db.Col(columnRequestHeaders, &a.RequestHeaders),
		db.Col(columnResponseHeaders, &a.ResponseHeaders),
		db.Col(columnResponseBody, &a.ResponseBody),
		db.Col("truncated", &a.Truncated),
	}
}

// The columns that hold requests and responses.
const (
	columnRequestHeaders  = "request_headers"
	columnResponseHeaders = "response_headers"
	columnResponseBody    = "response_body"
)

// attemptSummary binds the columns of an attempt without those that hold requests and responses.
func attemptSummary(a *Attempt) db.Columns {
	return slices.DeleteFunc(attemptColumns(a), func(c db.Column) bool {
		return c.Name == columnRequestHeaders || c.Name == columnResponseHeaders || c.Name == columnResponseBody
	})
}

// AttemptsByID returns attempts of the environment by their id, without requests and responses. A missing attempt is
// not in the map.
func (s *Store) AttemptsByID(ctx context.Context, env id.Environment,
	attempts []events.LogAttempt) (map[string]*Attempt, error) {
	out := make(map[string]*Attempt, len(attempts))
	for chunk := range slices.Chunk(attempts, 100) {
		uuids, ids := make([]string, len(chunk)), make([]string, len(chunk))
		for i, a := range chunk {
			uuids[i], ids[i] = a.EventUUID, a.ID
		}
		w := new(db.Where).And("environment_id = ?", string(env))
		db.AnyOf(db.AnyOf(w, "event_uuid", uuids), "id", ids)
		list, err := db.All(ctx, s.db.Read(), attemptSummary, "FROM delivery_attempts", w, "")
		if err != nil {
			return nil, fmt.Errorf("read attempts: %w", err)
		}
		for i := range list {
			out[list[i].ID] = &list[i]
		}
	}
	return out, nil
}

// Attempts returns a page of an event's attempts for subscriptions that the view shows. It returns none for an event of
// another environment. It takes turns among the lists of the environment, because it looks also at those that the view
// does not show.
func (s *Store) Attempts(ctx context.Context, v access.View, eventUUID string, p page.Request) ([]Attempt, error) {
	w := new(db.Where).And("event_uuid = ?", eventUUID)
	w.Numbered(shownWhere(v, "delivery_attempts.", w.Next()))
	tail := w.Page("id", p)
	list, err := db.Listed(ctx, s.db, string(v.Environment), func(ctx context.Context, q db.Querier) ([]Attempt, error) {
		return db.All(ctx, q, attemptColumns, "FROM delivery_attempts", w, tail)
	})
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	return list, nil
}
