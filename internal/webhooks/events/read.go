package events

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// row is an event as it is stored.
type row struct {
	Event // without what age fills in
	// gone is the time of receipt up to which the environment's payloads are gone, in Unix milliseconds.
	gone *int64
}

// columns binds the columns of a row of webhook_events, which a query calls e.
func columns(r *row) db.Columns {
	return db.Columns{
		db.Col("e.event_uuid", &r.UUID),
		db.Col("e.environment_id", &r.Environment),
		db.Col("e.connection_uuid", &r.ConnectionUUID),
		db.Col("e.connection_id", &r.ConnectionID),
		db.Col("e.provider", &r.Provider),
		db.Col("e.provider_config_key", &r.ProviderConfigKey),
		db.Col("e.event_type", &r.Type),
		db.Col("e.event_types", typesOf{&r.Types}),
		db.Col("e.status", &r.Status),
		db.Col("e.idempotency_key", &r.IdempotencyKey),
		db.Col("e.idempotency_source", &r.IdempotencySource),
		db.Col("e.duplicate_of", &r.DuplicateOf),
		db.Col("e.suspect", &r.Suspect),
		db.Col("e.control", &r.Control),
		db.Col("e.verification", &r.Verification),
		db.Col("e.content_type", &r.ContentType),
		db.Col("e.body_size", &r.BodySize),
		db.Col("e.hops", &r.Hops),
		db.Col("e.attempt_count", &r.AttemptCount),
		db.Col("e.n_sending + e.n_pending + e.n_retry_wait + e.n_held + e.n_held_failed + e.n_dead + e.n_succeeded + "+
			"e.n_cancelled", &r.DeliveryCount),
		db.Col("e.n_held + e.n_held_failed", &r.HeldCount),
		db.Col("e.last_error", &r.LastError),
		db.Col("e.received_ms", db.Millis(&r.ReceivedAt)),
		db.Col("e.updated_ms", db.Millis(&r.UpdatedAt)),
		db.Col("e.forwarded_ms", db.NullMillis(&r.ForwardedAt)),
		db.Col("e.expunged_ms", db.NullMillis(&r.ExpungedAt)),
		db.Col("(SELECT h.gone_ms FROM webhook_payload_horizons h WHERE h.environment_id = e.environment_id)", &r.gone),
	}
}

// typesOf reads the types of a batch's items, which other events do not have.
type typesOf struct{ types *[]string }

// Scan implements sql.Scanner.
func (t typesOf) Scan(src any) error {
	var text sql.NullString
	if err := text.Scan(src); err != nil || !text.Valid {
		return err
	}
	return json.Unmarshal([]byte(text.String), t.types)
}

const table = "FROM webhook_events e"

// shown restricts a query to the events that the view shows.
func shown(v access.View) *db.Where {
	return bounded(new(db.Where).And("e.environment_id = ?", string(v.Environment)), v.Connections)
}

// bounded restricts a query to the events that the bound shows, as Shows does.
func bounded(w *db.Where, b access.Bound) *db.Where {
	w.Numbered(b.Where("e.connection_id", w.Next()))
	if b.Contains("") && !b.Unrestricted() {
		w.And("NOT (e.connection_id = '' AND e.provider = ? AND SUBSTR(e.event_type, 1, "+strconv.Itoa(len(OwnPrefix))+
			") = ?)", OwnProvider, OwnPrefix)
	}
	return w
}

// Shows reports whether the bound shows the event: it contains the event's connection. One of the gateway's own events
// without a connection belongs to the whole environment, because it can name what belongs to any connection.
func Shows(b access.Bound, e *Event) bool {
	if e.ConnectionID == "" && e.Own() {
		return b.Unrestricted()
	}
	return b.Contains(e.ConnectionID)
}

// events returns the events of the environment's rows, with what follows from their age.
func (s *Store) events(ctx context.Context, env id.Environment, rows []row) ([]Event, error) {
	lifetimes, err := s.retention.Lifetimes(ctx, env)
	if err != nil {
		return nil, err
	}
	list, now := make([]Event, len(rows)), s.clock.Now()
	for i := range rows {
		list[i] = rows[i].Event
		list[i].applyAge(lifetimes, rows[i].gone, now)
	}
	return list, nil
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
	r, found, err := db.One(ctx, db.ReadAs(ctx, s.db), columns, table, shown(v).And("e.event_uuid = ?", uuid), "")
	if err != nil {
		return Event{}, fmt.Errorf("read an event: %w", err)
	}
	if !found {
		return Event{}, apperr.NotFound("webhook event")
	}
	r.applyAge(lifetimes, r.gone, s.clock.Now())
	return r.Event, nil
}

// ByUUIDs returns events of the environment by uuid. Unknown events are not in the map.
func (s *Store) ByUUIDs(ctx context.Context, env id.Environment, uuids []string) (map[string]*Event, error) {
	out := make(map[string]*Event, len(uuids))
	for chunk := range slices.Chunk(uuids, 100) {
		w := new(db.Where).And("e.environment_id = ?", string(env))
		rows, err := db.All(ctx, db.ReadAs(ctx, s.db), columns, table, db.AnyOf(w, "e.event_uuid", chunk), "")
		var list []Event
		if err == nil {
			list, err = s.events(ctx, env, rows)
		}
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		for i := range list {
			out[list[i].UUID] = &list[i]
		}
	}
	return out, nil
}

// Payloads returns the payloads of events of the environment by uuid. Events without a payload, or with an expired one,
// are not in the map.
func (s *Store) Payloads(ctx context.Context, env id.Environment, list []Event) (map[string]Payload, error) {
	return s.payloads(ctx, env, list, "p.body, p.signatures")
}

// Headers is Payloads without the bodies and signatures, which it does not read.
func (s *Store) Headers(ctx context.Context, env id.Environment, list []Event) (map[string]Payload, error) {
	return s.payloads(ctx, env, list, "NULL, NULL")
}

func (s *Store) payloads(ctx context.Context, env id.Environment, list []Event,
	more string) (map[string]Payload, error) {
	out := make(map[string]Payload, len(list))
	list = slices.DeleteFunc(slices.Clone(list), func(e Event) bool { return e.PayloadExpired || e.DuplicateOf != nil })
	for len(list) > 0 {
		n := min(len(list), 100)
		args := []any{string(env)}
		for _, e := range list[:n] {
			args = append(args, e.UUID)
		}
		// received_ms lets PostgreSQL open one day's partition instead of all of them.
		rows, err := db.ReadAs(ctx, s.db).QueryContext(ctx, `SELECT p.event_uuid, p.headers, `+more+`, p.encoding
			FROM webhook_events e
			JOIN webhook_event_payloads p ON p.event_uuid = e.event_uuid AND p.received_ms = e.received_ms
			WHERE e.environment_id = $1 AND e.event_uuid IN `+db.In(2, n), args...)
		if err != nil {
			return nil, fmt.Errorf("read payloads: %w", err)
		}
		if err := db.Each(rows, func(r *sql.Rows) error {
			var uuid string
			var p Payload
			var signatures sql.NullString
			if err := r.Scan(&uuid, &p.Headers, &p.Body, &signatures, &p.Encoding); err != nil {
				return err
			}
			p.Signatures = signatures.String
			out[uuid] = p
			return nil
		}); err != nil {
			return nil, fmt.Errorf("read payloads: %w", err)
		}
		list = list[n:]
	}
	return out, nil
}

// Filter selects events. Values of one field are alternatives. Different fields restrict together. Empty fields do not
// restrict.
type Filter struct {
	Statuses           []Status
	Providers          []string
	ProviderConfigKeys []string
	ConnectionIDs      []string
	// Types holds exact event types, and patterns as internal/webhooks/subscriptions parses them. Text without "*" is a
	// type.
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

// addFilter adds the conditions of the filter. forms are those of its types.
func (s *Store) addFilter(w *db.Where, v access.View, f Filter, forms []Form) {
	db.AnyOf(w, "e.status", f.Statuses)
	if len(f.Statuses) > 0 && onlyFailures(f.Statuses) {
		w.And("e.failed_ms IS NOT NULL") // names the partial index
	}
	db.AnyOf(w, "e.provider", f.Providers)
	db.AnyOf(w, "e.provider_config_key", f.ProviderConfigKeys)
	db.AnyOf(w, "e.connection_id", f.ConnectionIDs)
	db.AnyOf(w, "e.idempotency_key", f.IdempotencyKeys)
	s.anyType(w, f.Types, forms)
	search(w, f.Search)
	if f.Duplicate != nil {
		w.And("e.duplicate_of IS " + map[bool]string{true: "NOT NULL", false: "NULL"}[*f.Duplicate])
	}
	if f.Control != nil {
		w.And("e.control = ?", *f.Control)
	}
	if f.ReceivedAfter != nil {
		w.And("e.received_ms > ?", clock.Millis(*f.ReceivedAfter))
	}
	if f.ReceivedBefore != nil {
		w.And("e.received_ms < ?", clock.Millis(*f.ReceivedBefore))
	}
	receivedBetween(w, "e.event_uuid", f)
	w.Numbered(s.deliveries.Where(v, "e.event_uuid", f.DeliveryCriteria, w.Next()))
}

func onlyFailures(statuses []Status) bool {
	for _, s := range statuses {
		if s != Failed && s != DeadLetter {
			return false
		}
	}
	return true
}

// receivedBetween restricts the query to the uuids of the times of receipt in the filter. They are in the order of the
// index, so that events of other times are not read.
func receivedBetween(w *db.Where, column string, f Filter) {
	if f.ReceivedAfter != nil {
		w.And(column+" >= ?", id.FirstUUID(f.ReceivedAfter.Add(-passedAfter)))
	}
	if f.ReceivedBefore != nil {
		w.And(column+" < ?", id.FirstUUID(f.ReceivedBefore.Add(passedAfter)))
	}
}
