package events

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// Scan selects events for a job that goes through them in the order of their uuids.
type Scan struct {
	Filter
	// UUIDs restricts the scan to these events; empty does not restrict.
	UUIDs []string
	// Failing restricts it to events with a delivery that is dead or waits after a failed try.
	Failing bool
	// Through is the last uuid that belongs to the scan; empty where there is no last one.
	Through string
	// ReceivedThrough is the last time of receipt that belongs to it; the zero time where there is no last one.
	ReceivedThrough time.Time
	// Descending begins with the newest.
	Descending bool
	// Window is how many events one Next looks at, at most, so that a filter that selects little in a long history costs
	// little at a time.
	Window int
}

// Found is what a part of a scan has found.
type Found struct {
	Events []Event
	// Place is the uuid up to which everything was looked at: where the next part goes on.
	Place string
	// End says that nothing is behind it.
	End bool
}

// Next returns up to limit events of the view that the scan selects, from behind the place on.
func (s *Store) Next(ctx context.Context, v access.View, scan Scan, place string, limit int) (Found, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	order := page.Request{Ascending: !scan.Descending}
	// What an index serves bounds the window, too: a window of failed events reaches over any number of others.
	w := where{}
	w.add("e.environment_id = ?", string(v.Environment))
	w.in("e.event_uuid", scan.UUIDs)
	if len(scan.Statuses) > 0 && onlyFailures(scan.Statuses) {
		w.raw("e.failed_ms IS NOT NULL") // names the partial index
	}
	w.between(scan.Filter)
	if scan.Through != "" {
		w.add("e.event_uuid <= ?", scan.Through)
	}
	if place != "" {
		w.add("e.event_uuid "+order.Compare()+" ?", place)
	}
	var last string
	err := s.db.Read().QueryRowContext(ctx, `SELECT e.event_uuid FROM webhook_events e WHERE `+strings.Join(w.conditions,
		" AND ")+
		` ORDER BY e.event_uuid `+order.Direction()+` LIMIT 1 OFFSET `+strconv.Itoa(scan.Window-1), w.args...).Scan(&last)
	end := errors.Is(err, sql.ErrNoRows)
	if err != nil && !end {
		return Found{}, fmt.Errorf("measure a window of events: %w", err)
	}
	if !end {
		within := " <= ?"
		if scan.Descending {
			within = " >= ?"
		}
		w.add("e.event_uuid"+within, last)
	}
	if condition, args := v.Connections.Where("e.connection_id", len(w.args)+1); condition != "" {
		w.raw(condition)
		w.args = append(w.args, args...)
	}
	s.selects(&w, scan.Filter)
	if scan.Failing {
		w.raw("(e.n_dead > 0 OR e.n_retry_wait > 0)")
	}
	if !scan.ReceivedThrough.IsZero() {
		w.add("e.received_ms <= ?", clock.Millis(scan.ReceivedThrough))
	}
	lifetimes, err := s.retention.Lifetimes(ctx, v.Environment)
	if err != nil {
		return Found{}, fmt.Errorf("scan events: %w", err)
	}
	rows, err := s.db.Read().QueryContext(ctx, `SELECT `+eventColumns+` FROM webhook_events e WHERE `+
		strings.Join(w.conditions, " AND ")+
		` ORDER BY e.event_uuid `+order.Direction()+` LIMIT `+strconv.Itoa(limit), w.args...)
	if err != nil {
		return Found{}, fmt.Errorf("scan events: %w", err)
	}
	var out Found
	now := s.clock.Now()
	if err := db.Each(rows, func(r *sql.Rows) error {
		e, err := scanEvent(r.Scan, lifetimes, now)
		out.Events = append(out.Events, e)
		return err
	}); err != nil {
		return Found{}, fmt.Errorf("scan events: %w", err)
	}
	switch {
	case len(out.Events) == limit:
		out.Place = out.Events[limit-1].UUID
	case end:
		out.End = true
	default:
		out.Place = last
	}
	return out, nil
}

// Bounds returns the uuids of the environment's first and last event; both are empty where there is none.
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
