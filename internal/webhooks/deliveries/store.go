package deliveries

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/fleet"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// errStale is the error of a change to a delivery that is no longer in the state from which the change starts.
var errStale = errors.New("the delivery has changed meanwhile")

// Store reads and writes deliveries and attempts. Every change of a delivery's state changes its event's counters in
// the same transaction.
type Store struct {
	db       *db.DB
	events   *events.Store
	emitters []Emitter
	log      *slog.Logger
	// moves and outcomes are how many deliveries a transaction changes, without and with attempts.
	moves, outcomes *db.Chunk
	breakers        breakerStore
	// runs knows the failures in a row of subscriptions.
	runs failureRuns
	// follow wakes the worker that makes deliveries follow their subscriptions.
	follow *followSignal
	// hints lead to the workers of other nodes; nil if there are none.
	hints *fleet.Hints
}

// StoreConfig holds what a Store is made from.
type StoreConfig struct {
	DB     *db.DB
	Events *events.Store
	// Emitters add statements to the transactions in which deliveries die or recover.
	Emitters []Emitter
	// Logger may be nil.
	Logger *slog.Logger
	// Hints lead to the workers if they are on other nodes; nil means that they are not.
	Hints *fleet.Hints
}

// NewStore returns a Store.
func NewStore(c StoreConfig) *Store {
	s := &Store{db: c.DB, events: c.Events, emitters: c.Emitters, log: c.Logger, follow: newFollowSignal(c.Hints),
		hints: c.Hints, breakers: breakerStore{c.DB},
		moves: c.DB.NewChunk(leastChunk, chunk), outcomes: c.DB.NewChunk(leastOutcomes, outcomeBatch)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

var insertDeliveries = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: `INSERT INTO deliveries (event_uuid, subscription_id, id, environment_id, status, claim_id, due_ms, created_ms,
		updated_ms, generation, generation_attempts, attempt_count, leases_lost)`,
	Types: []string{"text", "text", "text", "text", "text", "text", "bigint", "bigint", "bigint"},
	Row:   "(?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0, 0, 0)",
}

// Insert returns the statement that stores new deliveries. The counters of their events already include them.
func Insert(list []Delivery) db.Statement {
	args := make([]any, 0, len(list)*insertDeliveries.Columns())
	for i := range list {
		d := &list[i]
		created := clock.Millis(d.CreatedAt)
		args = append(args, d.EventUUID, d.SubscriptionID, d.ID, string(d.Environment), string(d.Status), d.ClaimID,
			clock.Millis(d.Due), created, created)
	}
	return db.Statement{Rows: insertDeliveries, Args: args}
}

// move is a change of one delivery from a state that was read to another.
type move struct {
	from, to Delivery
	// attempts is the number of attempts that the change records.
	attempts int64
}

var updateDeliveries = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: `WITH v (event_uuid, subscription_id, old_status, old_claim, old_generation, status, generation, claim_id,
		due_ms,
		generation_attempts, attempt_count, leases_lost, last_http_status, last_error, completed_ms, now_ms) AS (`,
	Types: []string{"text", "text", "text", "text", "bigint", "text", "bigint", "text", "bigint", "bigint", "bigint",
		"bigint", "bigint", "text", "bigint", "bigint"},
	After: `) UPDATE deliveries AS d SET status = v.status, generation = v.generation, claim_id = v.claim_id,
		due_ms = v.due_ms, generation_attempts = v.generation_attempts, attempt_count = v.attempt_count,
		leases_lost = v.leases_lost, last_http_status = v.last_http_status, last_error = v.last_error,
		completed_ms = v.completed_ms, updated_ms = v.now_ms
		FROM v WHERE d.event_uuid = v.event_uuid AND d.subscription_id = v.subscription_id AND d.status = v.old_status
		AND d.claim_id = v.old_claim AND d.generation = v.old_generation`,
}

// apply makes the moves, changes the events' counters, records the attempts and counts deliveries that have ended. It
// returns errStale, and must be rolled back, if a delivery is not in the state from which its move starts. A delivery
// that a move leaves open although its event's payload was expunged meanwhile is cancelled, so that no transaction ends
// with such a delivery.
func (s *Store) apply(ctx context.Context, tx *sql.Tx, moves []move, nowMillis int64, tried ...*result) error {
	of := s.moves
	if len(tried) > 0 {
		of = s.outcomes
	}
	return of.Measure(len(moves), func() error { return s.applyMeasured(ctx, tx, moves, nowMillis, tried) })
}

func (s *Store) applyMeasured(ctx context.Context, tx *sql.Tx, moves []move, nowMillis int64, tried []*result) error {
	if err := s.applyAll(ctx, tx, moves, nowMillis, tried); err != nil {
		return err
	}
	cancel, err := s.cancelExpunged(ctx, tx, moves, nowMillis)
	if err != nil {
		return err
	}
	if err := s.applyAll(ctx, tx, cancel, nowMillis, nil); err != nil {
		return err
	}
	return s.emitEvents(ctx, tx, moves)
}

// cancelExpunged returns the moves that cancel deliveries of expunged events that the given moves have left open.
func (s *Store) cancelExpunged(ctx context.Context, tx *sql.Tx, moves []move, nowMillis int64) ([]move, error) {
	open := map[id.Environment][]string{}
	for i := range moves {
		if to := &moves[i].to; to.Status.isOpen() {
			open[to.Environment] = append(open[to.Environment], to.EventUUID)
		}
	}
	var cancel []move
	for env, uuids := range open {
		slices.Sort(uuids)
		expunged, err := s.events.Expunged(ctx, tx, env, slices.Compact(uuids))
		if err != nil {
			return nil, err
		}
		for i := range moves {
			if to := moves[i].to; to.Status.isOpen() && slices.Contains(expunged, to.EventUUID) {
				cancel = append(cancel, move{from: to, to: to.cancelled(clock.FromMillis(nowMillis))})
			}
		}
	}
	return cancel, nil
}

func (s *Store) applyAll(ctx context.Context, tx *sql.Tx, moves []move, nowMillis int64, tried []*result) error {
	if len(moves) == 0 {
		return nil
	}
	moves = slices.Clone(moves)
	slices.SortFunc(moves, func(a, b move) int {
		return cmp.Or(cmp.Compare(a.from.EventUUID, b.from.EventUUID), cmp.Compare(a.from.SubscriptionID,
			b.from.SubscriptionID))
	})
	args := make([]any, 0, len(moves)*updateDeliveries.Columns())
	changes := make([]events.Change, 0, len(moves))
	counted, now := tally{}, clock.FromMillis(nowMillis)
	for i := range moves {
		m := &moves[i]
		counted.move(m, now)
		failure, err := encodeFailure(m.to.LastFailure, "")
		if err != nil {
			return err
		}
		args = append(args, m.from.EventUUID, m.from.SubscriptionID, string(m.from.Status), m.from.ClaimID, m.from.Generation,
			string(m.to.Status), m.to.Generation, m.to.ClaimID, clock.Millis(m.to.Due), m.to.GenerationAttempts,
			m.to.AttemptCount, m.to.LeasesLost, m.to.LastHTTPStatus, failure, millis(m.to.CompletedAt), nowMillis)
		change, err := m.change(nowMillis)
		if err != nil {
			return err
		}
		changes = append(changes, change)
	}
	log := events.Log{At: now}
	attempts := recordAttempts(tried, &log)
	count, list := events.Apply(changes, &log)
	n, err := s.db.ExecAll(ctx, tx, db.Statement{Rows: updateDeliveries, Args: args}, list, attempts, log.Statement(),
		counted.statement(statMinute))
	if err != nil {
		return fmt.Errorf("change deliveries: %w", err)
	}
	if n[0] != int64(len(moves)) {
		return errStale
	}
	if n[1] != int64(count) {
		return fmt.Errorf("change deliveries: %d of %d events found", n[1], count)
	}
	return nil
}

// change returns the effect of the move on its event.
func (m *move) change(nowMillis int64) (events.Change, error) {
	before, after := m.from.counters(), m.to.counters()
	c := events.Change{Environment: m.from.Environment, EventUUID: m.from.EventUUID, Attempts: m.attempts,
		At: clock.FromMillis(nowMillis), Counters: events.Counters{
			Sending: after.Sending - before.Sending, Pending: after.Pending - before.Pending,
			RetryWait: after.RetryWait - before.RetryWait, Held: after.Held - before.Held,
			HeldFailed: after.HeldFailed - before.HeldFailed, Dead: after.Dead - before.Dead,
			Succeeded: after.Succeeded - before.Succeeded, Cancelled: after.Cancelled - before.Cancelled,
			Attempted: after.Attempted - before.Attempted,
		}}
	if f := m.to.LastFailure; f != m.from.LastFailure && f != nil && !f.Overcome {
		text, err := encodeFailure(m.to.LastFailure, m.from.SubscriptionID)
		if err != nil {
			return c, err
		}
		c.LastError = *text
	}
	return c, nil
}

// storedFailure is the JSON form of a failure; the event's copy names the subscription.
type storedFailure struct {
	Code           string `json:"code"`
	Message        string `json:"message"`
	HTTPStatus     *int   `json:"http_status"`
	SubscriptionID string `json:"subscription_id,omitempty"`
	At             int64  `json:"at"`
	Overcome       bool   `json:"overcome,omitempty"`
	Died           bool   `json:"died,omitempty"`
}

func encodeFailure(f *Failure, subscriptionID string) (*string, error) {
	if f == nil {
		return nil, nil //nolint:nilnil // no failure is stored as NULL
	}
	b, err := json.Marshal(storedFailure{f.Code, f.Message, f.HTTPStatus, subscriptionID, clock.Millis(f.At), f.Overcome,
		f.Died})
	if err != nil {
		return nil, fmt.Errorf("encode a failure: %w", err)
	}
	text := string(b)
	return &text, nil
}

// DecodeFailure reads a stored failure and the subscription that it names, if any.
func DecodeFailure(text *string) (f *Failure, subscriptionID string, err error) {
	if text == nil {
		return nil, "", nil
	}
	var s storedFailure
	if err := json.Unmarshal([]byte(*text), &s); err != nil {
		return nil, "", fmt.Errorf("decode a failure: %w", err)
	}
	return &Failure{Code: s.Code, Message: s.Message, HTTPStatus: s.HTTPStatus, At: clock.FromMillis(s.At),
		Overcome: s.Overcome, Died: s.Died}, s.SubscriptionID, nil
}

const deliveryColumns = `d.event_uuid, d.subscription_id, d.id, d.environment_id, d.status, d.generation, d.claim_id,
	d.due_ms, d.generation_attempts, d.attempt_count, d.leases_lost, d.last_http_status, d.last_error, d.created_ms,
	d.updated_ms, d.completed_ms`

func scanDelivery(r *sql.Rows) (Delivery, error) {
	var d Delivery
	var due, created, updated int64
	var completed *int64
	var failure *string
	err := r.Scan(&d.EventUUID, &d.SubscriptionID, &d.ID, &d.Environment, &d.Status, &d.Generation, &d.ClaimID, &due,
		&d.GenerationAttempts, &d.AttemptCount, &d.LeasesLost, &d.LastHTTPStatus, &failure, &created, &updated, &completed)
	if err != nil {
		return d, err
	}
	d.Due, d.CreatedAt, d.UpdatedAt = clock.FromMillis(due), clock.FromMillis(created), clock.FromMillis(updated)
	if completed != nil {
		at := clock.FromMillis(*completed)
		d.CompletedAt = &at
	}
	d.LastFailure, _, err = DecodeFailure(failure)
	return d, err
}

// query returns the deliveries that a condition selects.
func (s *Store) query(ctx context.Context, q db.Querier, condition string, args ...any) ([]Delivery, error) {
	return scanDeliveries(q.QueryContext(ctx, "SELECT "+deliveryColumns+" FROM deliveries d WHERE "+condition, args...))
}

// scanDeliveries reads the rows of a query for deliveryColumns.
func scanDeliveries(rows *sql.Rows, err error) ([]Delivery, error) {
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	var list []Delivery
	if err := db.Each(rows, func(r *sql.Rows) error {
		d, err := scanDelivery(r)
		list = append(list, d)
		return err
	}); err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	return list, nil
}

// lock returns the suffix that locks the rows a transaction is about to change.
func (s *Store) lock() string { return s.db.ForUpdate() }

// readEvents is the number of events whose deliveries one query reads, and listedEvents that of a page's events.
const readEvents, listedEvents = 100, 20

// ByEvents returns the deliveries of events, by event, oldest subscription first: those to subscriptions that the view
// shows.
func (s *Store) ByEvents(ctx context.Context, v access.View, uuids []string) (map[string][]Delivery, error) {
	out := map[string][]Delivery{}
	for chunk := range slices.Chunk(uuids, readEvents) {
		if err := s.addByEvent(ctx, s.db.Read(), v, chunk, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Statuses returns the statuses of an event's deliveries to these subscriptions. One without a delivery is not in the
// map.
func (s *Store) Statuses(ctx context.Context, env id.Environment, eventUUID string,
	subscriptionIDs []string) (map[string]Status, error) {
	out := make(map[string]Status, len(subscriptionIDs))
	for some := range slices.Chunk(subscriptionIDs, chunk) {
		args := []any{eventUUID, string(env)}
		for _, sub := range some {
			args = append(args, sub)
		}
		list, err := s.query(ctx, s.db.Read(), "d.event_uuid = $1 AND d.environment_id = $2 AND d.subscription_id IN "+
			db.In(3, len(some)), args...)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			out[d.SubscriptionID] = d.Status
		}
	}
	return out, nil
}

// ByListedEvents is ByEvents for the events of a page: it takes turns among the lists of the environment.
func (s *Store) ByListedEvents(ctx context.Context, v access.View, uuids []string) (map[string][]Delivery, error) {
	out := map[string][]Delivery{}
	for chunk := range slices.Chunk(uuids, listedEvents) {
		if err := s.db.List(ctx, string(v.Environment), func(ctx context.Context, q db.Querier) error {
			return s.addByEvent(ctx, q, v, chunk, out)
		}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addByEvent adds the deliveries of events by event.
func (s *Store) addByEvent(ctx context.Context, q db.Querier, v access.View, uuids []string,
	out map[string][]Delivery) error {
	args := make([]any, 0, len(uuids)+1)
	for _, u := range uuids {
		args = append(args, u)
	}
	shown, bound := shownWhere(v, "d.", len(uuids)+1)
	list, err := s.query(ctx, q, "d.event_uuid IN "+db.In(1, len(uuids))+" AND "+shown+
		" ORDER BY d.event_uuid, d.subscription_id", append(args, bound...)...)
	for _, d := range list {
		out[d.EventUUID] = append(out[d.EventUUID], d)
	}
	return err
}

// Filter implements events.DeliveryFilter.
type Filter struct{}

// Where returns a condition that is true for events with a delivery that the view shows and that meets all criteria.
func (Filter) Where(v access.View, column string, c events.DeliveryCriteria, next int) (string, []any) {
	var conditions string
	var args []any
	in := func(expression string, n int) {
		conditions += " AND " + expression + " IN " + db.In(next+len(args), n)
	}
	if n := len(c.SubscriptionIDs); n > 0 {
		in("fd.subscription_id", n)
		for _, v := range c.SubscriptionIDs {
			args = append(args, v)
		}
	}
	if n := len(c.HTTPStatuses); n > 0 {
		in("fd.last_http_status", n)
		for _, v := range c.HTTPStatuses {
			args = append(args, int64(v))
		}
	}
	if n := len(c.ErrorCodes); n > 0 {
		// The code is the first field of the stored object, so its text is a prefix.
		conditions += " AND ("
		for i, v := range c.ErrorCodes {
			if i > 0 {
				conditions += " OR "
			}
			p := "CAST($" + strconv.Itoa(next+len(args)) + " AS text)"
			conditions += "substr(fd.last_error, 1, length(" + p + ")) = " + p
			args = append(args, `{"code":"`+v+`",`)
		}
		conditions += ")"
	}
	if conditions == "" {
		return "", nil
	}
	if shown, names := subscriptions.ShownWhere(v, "fd.subscription_id", next+len(args)); shown != "" {
		conditions += " AND " + shown
		args = append(args, names...)
	}
	return "EXISTS (SELECT 1 FROM deliveries fd WHERE fd.event_uuid = " + column + conditions + ")", args
}

// Of returns the deliveries to a subscription of the environment. All deliveries to a subscription are of one
// environment, so one of them shows it, and the others are read from the index alone.
func (Filter) Of(env id.Environment, subscriptionID string) (from, column, condition string, args []any) {
	return "deliveries fd", "fd.event_uuid", `fd.subscription_id = ? AND (SELECT o.environment_id FROM deliveries o
		WHERE o.subscription_id = ? LIMIT 1) = ?`, []any{subscriptionID, subscriptionID, string(env)}
}
