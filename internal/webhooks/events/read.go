package events

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

const eventColumns = `e.event_uuid, e.environment_id, e.connection_uuid, e.connection_id, e.provider,
	e.provider_config_key, e.event_type, e.event_types, e.status, e.idempotency_key, e.idempotency_source, e.duplicate_of,
	e.suspect, e.control, e.verification, e.content_type, e.body_size, e.hops, e.attempt_count, e.last_error,
	e.received_ms, e.updated_ms, e.forwarded_ms,
	e.expunged_ms, (SELECT h.gone_ms FROM webhook_payload_horizons h WHERE h.environment_id = e.environment_id)`

// scanEvent reads a row of eventColumns of an environment with the lifetimes given, as it stands at now.
func scanEvent(scan func(dest ...any) error, l Lifetimes, now time.Time) (Event, error) {
	var e Event
	var received, updated int64
	var forwarded, expunged, gone *int64
	var types *string
	err := scan(&e.UUID, &e.Environment, &e.ConnectionUUID, &e.ConnectionID, &e.Provider, &e.ProviderConfigKey, &e.Type,
		&types, &e.Status, &e.IdempotencyKey, &e.IdempotencySource, &e.DuplicateOf, &e.Suspect, &e.Control, &e.Verification,
		&e.ContentType, &e.BodySize, &e.Hops, &e.AttemptCount, &e.LastError, &received, &updated, &forwarded, &expunged,
		&gone)
	if err != nil {
		return Event{}, err
	}
	if types != nil {
		if err := json.Unmarshal([]byte(*types), &e.Types); err != nil {
			return Event{}, fmt.Errorf("decode the types of event %s: %w", e.UUID, err)
		}
	}
	e.ReceivedAt, e.UpdatedAt = clock.FromMillis(received), clock.FromMillis(updated)
	if forwarded != nil {
		at := clock.FromMillis(*forwarded)
		e.ForwardedAt = &at
	}
	if expunged != nil {
		at := clock.FromMillis(*expunged)
		e.ExpungedAt = &at
	}
	e.mature(l, gone, now)
	return e, nil
}

// Get returns an event that the view shows, or not_found.
func (s *Store) Get(ctx context.Context, v access.View, uuid string) (Event, error) {
	if !id.IsUUID(uuid) {
		return Event{}, apperr.NotFound("webhook event")
	}
	lifetimes, err := s.retention.Lifetimes(ctx, v.Environment)
	if err != nil {
		return Event{}, fmt.Errorf("read an event: %w", err)
	}
	w := where{}
	w.add("e.event_uuid = ?", uuid)
	w.shown(v)
	row := s.db.Read().QueryRowContext(ctx, `SELECT `+eventColumns+` FROM webhook_events e WHERE `+
		strings.Join(w.conditions, " AND "), w.args...)
	e, err := scanEvent(row.Scan, lifetimes, s.clock.Now())
	if errors.Is(err, sql.ErrNoRows) {
		return Event{}, apperr.NotFound("webhook event")
	}
	if err != nil {
		return Event{}, fmt.Errorf("read an event: %w", err)
	}
	return e, nil
}

// ByUUIDs returns events of the environment by uuid. An event that is not there is not in the map.
func (s *Store) ByUUIDs(ctx context.Context, env id.Environment, uuids []string) (map[string]*Event, error) {
	out, now := make(map[string]*Event, len(uuids)), s.clock.Now()
	lifetimes, err := s.retention.Lifetimes(ctx, env)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	for chunk := range slices.Chunk(uuids, 100) {
		args := []any{string(env)}
		for _, u := range chunk {
			args = append(args, u)
		}
		rows, err := s.db.Read().QueryContext(ctx, `SELECT `+eventColumns+
			` FROM webhook_events e WHERE e.environment_id = $1 AND e.event_uuid IN `+
			db.In(2, len(chunk)), args...)
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		if err := db.Each(rows, func(r *sql.Rows) error {
			e, err := scanEvent(r.Scan, lifetimes, now)
			out[e.UUID] = &e
			return err
		}); err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
	}
	return out, nil
}

// Payloads returns the payloads of events of the environment, by uuid. An event without one, or whose payload has
// expired, is not in the map.
func (s *Store) Payloads(ctx context.Context, env id.Environment, list []Event) (map[string]Payload, error) {
	out := make(map[string]Payload, len(list))
	list = slices.DeleteFunc(slices.Clone(list), func(e Event) bool { return e.PayloadExpired || e.DuplicateOf != nil })
	for len(list) > 0 {
		n := min(len(list), 100)
		args := []any{string(env)}
		for _, e := range list[:n] {
			args = append(args, e.UUID)
		}
		// received_ms lets PostgreSQL open one day's partition instead of all of them.
		rows, err := s.db.Read().QueryContext(ctx, `SELECT p.event_uuid, p.headers, p.body, p.encoding FROM webhook_events e
			JOIN webhook_event_payloads p ON p.event_uuid = e.event_uuid AND p.received_ms = e.received_ms
			WHERE e.environment_id = $1 AND e.event_uuid IN `+db.In(2, n), args...)
		if err != nil {
			return nil, fmt.Errorf("read payloads: %w", err)
		}
		if err := db.Each(rows, func(r *sql.Rows) error {
			var uuid string
			var p Payload
			if err := r.Scan(&uuid, &p.Headers, &p.Body, &p.Encoding); err != nil {
				return err
			}
			out[uuid] = p
			return nil
		}); err != nil {
			return nil, fmt.Errorf("read payloads: %w", err)
		}
		list = list[n:]
	}
	return out, nil
}

// Filter selects events. Values of one field are alternatives; fields restrict together. Empty fields do not restrict.
type Filter struct {
	Statuses           []Status
	Providers          []string
	ProviderConfigKeys []string
	ConnectionIDs      []string
	// Types are exact event types, and patterns as internal/webhooks/subscriptions parses them; what has no "*" is a type.
	Types           []string
	IdempotencyKeys []string
	Duplicate       *bool
	Control         *bool
	ReceivedAfter   *time.Time
	ReceivedBefore  *time.Time
	// Search is an event's uuid, its idempotency key, or the beginning of its type.
	Search string
	DeliveryCriteria
}

// List returns a page of the events that the view shows, one row more than the page when another follows. By key and by
// a search a repeat is found while the event that it repeats is there. A search that is the beginning of too many types
// is a validation error, and a list that takes longer than readTimeout is unavailable.
func (s *Store) List(ctx context.Context, v access.View, f Filter, p page.Request) ([]Event, error) {
	limited, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	found, err := s.list(limited, v, f, p)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, &apperr.Error{Code: apperr.CodeUnavailable,
			Message: "The list takes too long with these filters: narrow them, as by " +
				"received_after, connection_id or event_type", RetryAfter: 2 * time.Second, Cause: err}
	}
	return found, err
}

func (s *Store) list(ctx context.Context, v access.View, f Filter, p page.Request) ([]Event, error) {
	w := where{}
	w.shown(v)
	if p.After != "" {
		w.add("e.event_uuid "+p.Compare()+" ?", p.After)
	}
	s.selects(&w, f)
	query, ok, err := s.narrowed(ctx, v, &w, f, p)
	if err != nil || ok && query == "" {
		return []Event{}, err
	}
	if !ok {
		query = `SELECT ` + eventColumns + ` FROM webhook_events e WHERE ` + strings.Join(w.conditions, " AND ") +
			` ORDER BY e.event_uuid ` + p.Direction() + ` LIMIT ` + strconv.Itoa(p.Fetch())
	}
	lifetimes, err := s.retention.Lifetimes(ctx, v.Environment)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	rows, err := s.db.Read().QueryContext(ctx, query, w.args...)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	found, now := []Event{}, s.clock.Now()
	if err := db.Each(rows, func(r *sql.Rows) error {
		e, err := scanEvent(r.Scan, lifetimes, now)
		found = append(found, e)
		return err
	}); err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return found, nil
}

// selects adds what the filter asks.
func (s *Store) selects(w *where, f Filter) {
	w.in("e.status", texts(f.Statuses))
	if len(f.Statuses) > 0 && onlyFailures(f.Statuses) {
		w.raw("e.failed_ms IS NOT NULL") // names the partial index
	}
	w.in("e.provider", f.Providers)
	w.in("e.provider_config_key", f.ProviderConfigKeys)
	w.in("e.connection_id", f.ConnectionIDs)
	w.in("e.idempotency_key", f.IdempotencyKeys)
	w.types(s.db.Engine(), f.Types)
	w.search(f.Search)
	if f.Duplicate != nil {
		w.raw("e.duplicate_of IS " + map[bool]string{true: "NOT NULL", false: "NULL"}[*f.Duplicate])
	}
	if f.Control != nil {
		w.add("e.control = ?", *f.Control)
	}
	if f.ReceivedAfter != nil {
		w.add("e.received_ms > ?", clock.Millis(*f.ReceivedAfter))
	}
	if f.ReceivedBefore != nil {
		w.add("e.received_ms < ?", clock.Millis(*f.ReceivedBefore))
	}
	w.between(f)
	if condition, args := s.deliveries.Where("e.event_uuid", f.DeliveryCriteria, len(w.args)+1); condition != "" {
		w.conditions = append(w.conditions, condition)
		w.args = append(w.args, args...)
	}
}

// readTimeout bounds a list's query: a filter that matches little in a long history must not hold a connection for
// ever.
const readTimeout = 5 * time.Second

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

func onlyFailures(statuses []Status) bool {
	for _, s := range statuses {
		if s != Failed && s != DeadLetter {
			return false
		}
	}
	return true
}

// where collects conditions; each ? becomes the next placeholder.
type where struct {
	conditions []string
	args       []any
}

func (w *where) raw(condition string) { w.conditions = append(w.conditions, condition) }

func (w *where) add(condition string, arg any) { w.raw(strings.Replace(condition, "?", w.arg(arg), 1)) }

// arg takes an argument and returns its placeholder.
func (w *where) arg(v any) string {
	w.args = append(w.args, v)
	return "$" + strconv.Itoa(len(w.args))
}

// shown restricts the query to what the view shows. Every query for a caller begins with it.
func (w *where) shown(v access.View) {
	w.add("e.environment_id = ?", string(v.Environment))
	if condition, args := v.Connections.Where("e.connection_id", len(w.args)+1); condition != "" {
		w.raw(condition)
		w.args = append(w.args, args...)
	}
}

// between restricts the query to the uuids of the times of receipt that the filter asks for, which are in the order of
// the index: what was received at another time is not even looked at.
func (w *where) between(f Filter) {
	if f.ReceivedAfter != nil {
		w.add("e.event_uuid >= ?", id.FirstUUID(f.ReceivedAfter.Add(-passedAfter)))
	}
	if f.ReceivedBefore != nil {
		w.add("e.event_uuid < ?", id.FirstUUID(f.ReceivedBefore.Add(passedAfter)))
	}
}

func (w *where) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	w.conditions = append(w.conditions, column+" IN "+db.In(len(w.args)+1, len(values)))
	for _, v := range values {
		w.args = append(w.args, v)
	}
}
