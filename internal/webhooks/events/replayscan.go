package events

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// Scan selects events for a job that reads them in the order of their uuids.
type Scan struct {
	Filter
	// UUIDs restricts the scan to these events; empty does not restrict.
	UUIDs []string
	// Failing restricts the scan to events with a delivery that is dead or waits after a failed attempt.
	Failing bool
	// Through is the last uuid of the scan; empty for no limit.
	Through string
	// ReceivedThrough is the last time of receipt of the scan; the zero time for no limit.
	ReceivedThrough time.Time
	// Descending begins with the newest.
	Descending bool
	// Window is the maximum number of events that one Next reads, so that a filter with few matches in a long history
	// costs little at a time.
	Window int
}

// Found is the result of a part of a scan.
type Found struct {
	Events []Event
	// Place is the uuid up to which all events were read. The next part continues there.
	Place string
	// End is true if nothing follows.
	End bool
}

// Next returns up to limit events of the view that the scan selects, after the given place. It takes its turn among the
// lists of the environment.
func (s *Store) Next(ctx context.Context, v access.View, scan Scan, place string, limit int) (Found, error) {
	forms, err := s.Forms(ctx, v.Environment, scan.Types)
	if err != nil {
		return Found{}, fmt.Errorf("scan events: %w", err)
	}
	return db.Listed(ctx, s.db, string(v.Environment), func(ctx context.Context, q db.Querier) (Found, error) {
		return s.next(ctx, q, v, scan, forms, place, limit)
	})
}

func (s *Store) next(ctx context.Context, q db.Querier, v access.View, scan Scan, forms []Form,
	place string, limit int) (Found, error) {
	order := page.Request{Ascending: !scan.Descending}
	// These conditions, which indexes serve, limit the window: a window of failed events can span any number of others.
	w := new(db.Where).And("e.environment_id = ?", string(v.Environment))
	db.AnyOf(w, "e.event_uuid", scan.UUIDs)
	if len(scan.Statuses) > 0 && onlyFailures(scan.Statuses) {
		w.And("e.failed_ms IS NOT NULL") // names the partial index
	}
	receivedBetween(w, "e.event_uuid", scan.Filter)
	if scan.Through != "" {
		w.And("e.event_uuid <= ?", scan.Through)
	}
	if place != "" {
		w.And("e.event_uuid "+order.Compare()+" ?", place)
	}
	var last string
	more, err := db.Found("the end of a window of events", q.QueryRowContext(ctx, "SELECT e.event_uuid "+table+
		w.Text()+" ORDER BY e.event_uuid "+order.Direction()+" LIMIT 1 OFFSET "+strconv.Itoa(scan.Window-1), w.Args()...).
		Scan(&last))
	if err != nil {
		return Found{}, err
	}
	if more {
		within := " <= ?"
		if scan.Descending {
			within = " >= ?"
		}
		w.And("e.event_uuid"+within, last)
	}
	bounded(w, v.Connections)
	s.addFilter(w, v, scan.Filter, forms)
	if scan.Failing {
		w.And("(e.n_dead > 0 OR e.n_retry_wait > 0)")
	}
	if !scan.ReceivedThrough.IsZero() {
		w.And("e.received_ms <= ?", clock.Millis(scan.ReceivedThrough))
	}
	rows, err := db.All(ctx, q, columns, table, w,
		"ORDER BY e.event_uuid "+order.Direction()+" LIMIT "+strconv.Itoa(limit))
	var out Found
	if err == nil {
		out.Events, err = s.events(ctx, v.Environment, rows)
	}
	if err != nil {
		return Found{}, fmt.Errorf("scan events: %w", err)
	}
	switch {
	case len(out.Events) == limit:
		out.Place = out.Events[limit-1].UUID
	case !more:
		out.End = true
	default:
		out.Place = last
	}
	return out, nil
}

// Bounds returns the uuids of the environment's first and last event; both are empty if there is none.
func (s *Store) Bounds(ctx context.Context, env id.Environment) (first, last string, err error) {
	var low, high *string
	// Two queries, because each of them alone is one step in the index.
	err = s.db.Read().QueryRowContext(ctx, `SELECT (SELECT MIN(e.event_uuid) FROM webhook_events e
		WHERE e.environment_id = $1),
		(SELECT MAX(e.event_uuid) FROM webhook_events e WHERE e.environment_id = $1)`, string(env)).Scan(&low, &high)
	if err != nil {
		return "", "", fmt.Errorf("find the first and the last event: %w", err)
	}
	if low == nil || high == nil {
		return "", "", nil
	}
	return *low, *high, nil
}
