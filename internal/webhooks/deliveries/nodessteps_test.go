package deliveries

import (
	"cmp"
	"database/sql"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// worker is a node: a service of its own on the shared database, and the deliveries that it believes to have leased.
type worker struct {
	*Service
	name   string
	memory map[Key]Delivery
}

// nodes drives several nodes on one database, and a model of what the database must hold.
type nodes struct {
	t     *testing.T
	rt    *rapid.T
	db    *db.DB
	clock *clock.Manual
	subs  *targets
	all   []*worker
	model map[string]*modelledEvent
}

func newNodes(t *testing.T, rt *rapid.T, store testkit.Store) *nodes {
	t.Helper()
	n := &nodes{t: t, rt: rt, db: store.DB, clock: clock.NewManual(testTime()), model: map[string]*modelledEvent{},
		subs: &targets{byID: map[string]*subscriptions.Target{}}}
	for _, name := range []string{"a", "b"} {
		n.all = append(n.all, &worker{name: name, memory: map[Key]Delivery{}, Service: New(Config{
			Store: NewStore(StoreConfig{DB: store.DB, Events: events.New(events.Config{DB: store.DB,
				Deliveries: Filter{}})}), Subscriptions: n.subs, Clock: n.clock, Logger: slog.New(slog.DiscardHandler),
			Batches: obs.NewBatches(), Options: Options{Concurrency: 1, PerSubscription: 1, PerHost: 1, Lease: nodesLease,
				Node: name}})})
	}
	for range 3 {
		n.subscribe()
	}
	return n
}

const nodesLease = 2 * time.Minute

func (n *nodes) subscribe() {
	sub := id.New(id.PrefixSubscription)
	n.subs.byID[sub] = &subscriptions.Target{ID: sub, Enabled: true,
		Schedule: []time.Duration{5 * time.Second, 30 * time.Second}}
}

func (n *nodes) tx(fn func(tx *sql.Tx) error) { require.NoError(n.rt, n.db.Tx(n.t.Context(), fn)) }

func (n *nodes) principal() access.Principal {
	p := access.System("test")
	p.Environment = machineEnvironment
	return p
}

// living returns the subscriptions that match an event now, in order.
func (n *nodes) living() (list []subscriptions.Matched) {
	for _, sub := range slices.Sorted(maps.Keys(n.subs.byID)) {
		if t := n.subs.byID[sub]; !t.Deleted {
			list = append(list, subscriptions.Matched{ID: sub, Enabled: t.Enabled})
		}
	}
	return list
}

func newEvent(at time.Time) events.NewEvent {
	return events.NewEvent{Event: events.Event{UUID: id.NewUUID(), Environment: machineEnvironment, Type: "a.b",
		Verification: "{}", ReceivedAt: at}, Payload: &events.Payload{Headers: "{}", Encoding: events.Text}}
}

// ingest stores an event as a node does that has room for some of its deliveries: those are leased immediately. It
// returns the event.
func (n *nodes) ingest(w *worker, leased func() bool) string {
	now, e := n.clock.Now(), newEvent(n.clock.Now())
	claim, until := w.claimer.newLease(now)
	m := &modelledEvent{deliveries: map[string]*modelled{}}
	var list []Delivery
	for _, match := range n.living() {
		d := newDelivery(machineEnvironment, e.UUID, match, now)
		if d.Status == Pending && leased() {
			d.Status, d.ClaimID, d.Due = Sending, claim, until
			w.memory[d.Key] = d
		}
		list = append(list, d)
		m.deliveries[match.ID] = &modelled{status: d.Status, generation: 1, due: d.Due, claim: d.ClaimID, created: now,
			successes: map[int64]int{}}
	}
	e.Counters = m.counters()
	n.model[e.UUID] = m
	n.tx(func(tx *sql.Tx) error {
		_, err := n.db.ExecAll(n.t.Context(), tx, append(events.Insert([]events.NewEvent{e}), Insert(list))...)
		return err
	})
	return e.UUID
}

// ingestMany stores an event of whose deliveries only the first are stored with it.
func (n *nodes) ingestMany(first int) {
	now, e := n.clock.Now(), newEvent(n.clock.Now())
	m := &modelledEvent{deliveries: map[string]*modelled{}, unstored: map[string]bool{}}
	matched := n.living()
	for i, match := range matched {
		if i >= first {
			m.unstored[match.ID] = match.Enabled
			continue
		}
		m.deliveries[match.ID] = &modelled{status: Held, generation: 1, due: now, created: now, successes: map[int64]int{}}
		if match.Enabled {
			m.deliveries[match.ID].status = Pending
		}
	}
	var f Forwards
	counters, err := f.Add(machineEnvironment, e.UUID, matched, first, now)
	require.NoError(n.rt, err)
	require.Equal(n.rt, m.counters(), counters)
	e.Counters = counters
	n.model[e.UUID] = m
	n.tx(func(tx *sql.Tx) error {
		_, err := n.db.ExecAll(n.t.Context(), tx, append(events.Insert([]events.NewEvent{e}), f.Statements()...)...)
		return err
	})
}

// storeRest stores the next part of an event's deliveries.
func (n *nodes) storeRest(w *worker, event string) {
	now, m := n.clock.Now(), n.model[event]
	p, last, err := w.store.nextPart(n.t.Context(), machineEnvironment, event)
	require.NoError(n.rt, err)
	if p == nil {
		require.Empty(n.rt, m.unstored, "no part is left, and not all deliveries are stored")
		return
	}
	require.True(n.rt, last)
	n.tx(func(tx *sql.Tx) error {
		return w.store.storePart(n.t.Context(), tx, machineEnvironment, event, p, now)
	})
	for sub, enabled := range m.unstored {
		d := &modelled{status: Held, generation: 1, due: now, created: now, successes: map[int64]int{}}
		if enabled {
			d.status = Pending
		}
		m.deliveries[sub] = d
	}
	m.unstored = nil
	m.cancelExpunged(now)
}

// duplicate stores a resent webhook, which has no deliveries, and lets its original be sent again where it died.
func (n *nodes) duplicate(w *worker, original string) {
	e := newEvent(n.clock.Now())
	e.DuplicateOf, e.Payload = &original, nil
	n.model[e.UUID] = &modelledEvent{duplicateOf: original}
	n.tx(func(tx *sql.Tx) error {
		_, err := n.db.ExecAll(n.t.Context(), tx, events.Insert([]events.NewEvent{e})...)
		return err
	})
	n.redeliver(w, original)
}

// claim leases what is due for a node, of each subscription up to limit, the longest due first.
func (n *nodes) claim(w *worker, limit int) {
	now := n.clock.Now()
	got := map[string][]Key{}
	for _, d := range w.claim(n.rt, now, limit, slices.Sorted(maps.Keys(n.subs.byID))...) {
		m := n.of(d.Key)
		require.True(n.rt, m.waits() && !m.due.After(now), "claimed %v, which is %+v", d.Key, *m)
		require.Zero(n.rt, m.successes[m.generation], "nothing is sent after its success was recorded")
		got[d.SubscriptionID] = append(got[d.SubscriptionID], d.Key)
		w.memory[d.Key] = d
	}
	latest := map[string]time.Time{}
	for sub, keys := range got {
		require.LessOrEqual(n.rt, len(keys), limit, sub)
		for _, k := range keys {
			if m := n.of(k); m.due.After(latest[sub]) {
				latest[sub] = m.due
			}
		}
	}
	for k, m := range n.each() {
		if !m.waits() || m.due.After(now) || slices.Contains(got[k.SubscriptionID], k) {
			continue
		}
		require.Len(n.rt, got[k.SubscriptionID], limit, "a due delivery was left: %v", k)
		require.False(n.rt, m.due.Before(latest[k.SubscriptionID]), "a later one was claimed before %v", k)
	}
	for _, keys := range got {
		for _, k := range keys {
			n.of(k).lease(w.memory[k].ClaimID, w.memory[k].Due)
		}
	}
}

// giveWay returns deliveries of a node to the table with the due times given, so that others have room.
func (n *nodes) giveWay(w *worker, keys []Key, due time.Time) {
	list := n.take(w, keys)
	_, err := w.store.changeEach(n.t.Context(), list, n.clock.Now(), func(d Delivery) Delivery { return d.returned(due) })
	require.NoError(n.rt, err)
	for _, d := range list {
		if n.holds(d) {
			n.of(d.Key).wait(due)
		}
	}
	n.cancelExpunged()
}

// holds reports whether the lease that a node believes to have is still the delivery's.
func (n *nodes) holds(d Delivery) bool {
	m := n.of(d.Key)
	return m.status == Sending && m.claim == d.ClaimID && m.generation == d.Generation
}

// take removes deliveries from the memory of a node.
func (n *nodes) take(w *worker, keys []Key) (list []Delivery) {
	for _, k := range keys {
		list = append(list, w.memory[k])
		delete(w.memory, k)
	}
	return list
}

// finish stores the outcomes of deliveries that a node believes to have leased, in one batch.
func (n *nodes) finish(w *worker, keys []Key, draw func() outcome) {
	now := n.clock.Now()
	var batch []*result
	for _, d := range n.take(w, keys) {
		o, schedule := draw(), n.subs.byID[d.SubscriptionID].Schedule
		a := Attempt{ID: id.NewUUID(), EventUUID: d.EventUUID, SubscriptionID: d.SubscriptionID, Generation: d.Generation,
			Number: d.GenerationAttempts + 1, StartedAt: o.At, RequestHeaders: "{}", ResponseHeaders: "{}",
			Outcome: AttemptSucceeded}
		if o.Failure != nil {
			a.Outcome = AttemptFailed
		}
		batch = append(batch, &result{delivery: d, next: d.attempted(o, schedule, 0.5), attempt: a, attempted: true})
		if n.holds(d) {
			n.of(d.Key).end(o.Failure == nil, o.Permanent, schedule, now)
		} else {
			n.of(d.Key).superseded++
		}
	}
	require.NoError(n.rt, w.recorder.storeResults(n.t.Context(), batch))
	n.cancelExpunged()
}

// release ends leases of a node without an attempt, as one does that stops in order.
func (n *nodes) release(w *worker, keys []Key) {
	now := n.clock.Now()
	var batch []*result
	for _, d := range n.take(w, keys) {
		batch = append(batch, &result{delivery: d, next: d.returned(now)})
		if n.holds(d) {
			n.of(d.Key).wait(now)
		}
	}
	require.NoError(n.rt, w.recorder.storeResults(n.t.Context(), batch))
	n.cancelExpunged()
}

// crash ends a node; its successor knows the name and recovers its leases, or others find them when they have expired.
func (n *nodes) crash(w *worker, restart bool) {
	w.memory = map[Key]Delivery{}
	if !restart {
		return
	}
	now, prefix := n.clock.Now(), w.claimer.claims.NodePrefix()
	_, _, err := w.store.recover(n.t.Context(), now, prefix, func(Key) bool { return false })
	require.NoError(n.rt, err)
	for _, m := range n.each() {
		if m.status == Sending && len(m.claim) > len(prefix) && m.claim[:len(prefix)] == prefix {
			m.loseLease(now)
		}
	}
	n.cancelExpunged()
}

// recover lets a node take over the leases that have expired, except its own.
func (n *nodes) recover(w *worker) {
	now := n.clock.Now()
	_, _, err := w.store.recover(n.t.Context(), now, "", func(k Key) bool { _, mine := w.memory[k]; return mine })
	require.NoError(n.rt, err)
	for k, m := range n.each() {
		if _, mine := w.memory[k]; m.status == Sending && !m.due.After(now) && !mine {
			m.loseLease(now)
		}
	}
	n.cancelExpunged()
}

// renew extends the leases that a node still has, which it returns. It gets nothing back that it has lost to others.
func (n *nodes) renew(w *worker) {
	until := n.clock.Now().Add(nodesLease)
	list := slices.Collect(maps.Values(w.memory))
	slices.SortFunc(list, func(a, b Delivery) int { return cmp.Compare(a.ID, b.ID) })
	kept, err := w.store.renew(n.t.Context(), list, until)
	require.NoError(n.rt, err)
	for _, d := range list {
		require.Equal(n.rt, n.holds(d), kept[d.Key])
		if n.holds(d) {
			n.of(d.Key).due = until
		}
	}
}

// change switches a subscription by a node: its open deliveries change with it.
func (n *nodes) change(w *worker, sub string, to func(*subscriptions.Target)) {
	next := *n.subs.byID[sub]
	to(&next)
	n.subs.byID[sub] = &next
	ctx, now := n.t.Context(), n.clock.Now()
	n.tx(func(tx *sql.Tx) error {
		switch {
		case next.Deleted:
			return w.store.Control().Cancel(ctx, tx, machineEnvironment, sub, now)
		case !next.Enabled:
			return w.store.Control().Hold(ctx, tx, machineEnvironment, sub, now)
		default:
			return nil
		}
	})
	for k, m := range n.each() {
		switch {
		case k.SubscriptionID != sub:
		case next.Deleted && m.open():
			m.become(Cancelled, now)
		case !next.Enabled && m.waits():
			m.become(Held, m.due)
		}
	}
}

// follow lets a node compare open deliveries with their subscriptions, as each does every second.
func (n *nodes) follow(w *worker) {
	n.clock.Advance(followInterval)
	now := n.clock.Now()
	w.follower.followSubscriptions(n.t.Context())
	for k, m := range n.each() {
		switch sub := n.subs.byID[k.SubscriptionID]; {
		case sub.Deleted && m.open():
			m.become(Cancelled, now)
		case !sub.Deleted && !sub.Enabled && m.waits():
			m.become(Held, m.due)
		case !sub.Deleted && sub.Enabled && m.status == Held:
			m.wait(now) // fewer are held here than the ramp releases at a time
		}
	}
	n.cancelExpunged()
}

func (n *nodes) replay(w *worker, event string, force bool) {
	now, e := n.clock.Now(), n.model[event]
	sending := false
	var eligible []string
	for sub, m := range e.deliveries {
		switch {
		case n.subs.byID[sub].Deleted:
		case m.status == Sending:
			sending = true
		case force || m.status == Dead || m.status == RetryWait:
			eligible = append(eligible, sub)
		}
	}
	_, err := w.Replay(n.t.Context(), n.principal(), event, ReplayRequest{Force: force})
	switch {
	case e.expunged || e.duplicateOf != "":
		require.Error(n.rt, err)
	case sending:
		require.True(n.rt, apperr.Is(err, apperr.CodeDeliveryInFlight), "%v", err)
	case len(eligible) == 0:
		require.True(n.rt, apperr.Is(err, apperr.CodeNothingToReplay), "%v", err)
	default:
		require.NoError(n.rt, err)
		for _, sub := range eligible {
			e.deliveries[sub].restart(n.subs.byID[sub].Enabled, now)
		}
	}
}

// redeliver restarts what died of an event whose provider has resent it, at most once in five minutes.
func (n *nodes) redeliver(w *worker, event string) {
	now, e := n.clock.Now(), n.model[event]
	count, err := w.Redeliver(n.t.Context(), machineEnvironment, event)
	require.NoError(n.rt, err)
	dead, want := 0, 0
	for _, m := range e.deliveries {
		if m.status == Dead {
			dead++
		}
	}
	if dead == 0 || e.expunged || !e.redelivered.IsZero() && now.Sub(e.redelivered) < 5*time.Minute {
		require.Zero(n.rt, count)
		return
	}
	e.redelivered = now
	for sub, m := range e.deliveries {
		if m.status == Dead && !n.subs.byID[sub].Deleted {
			m.restart(n.subs.byID[sub].Enabled, now)
			want++
		}
	}
	require.Equal(n.rt, want, count, "exactly the dead deliveries are restarted")
}

func (n *nodes) expunge(w *worker, event string) {
	require.NoError(n.rt, w.Expunge(n.t.Context(), n.principal(), event))
	if e := n.model[event]; e.duplicateOf == "" {
		e.expunged = true
	}
	n.cancelExpunged()
}

// endExpired ends what waits of events received at cutoff or before, as retention does.
func (n *nodes) endExpired(w *worker, cutoff time.Time) {
	now := n.clock.Now()
	for more := 1; more > 0; {
		var err error
		more, err = w.store.EndExpired(n.t.Context(), machineEnvironment, cutoff, now, chunk)
		require.NoError(n.rt, err)
	}
	for _, m := range n.each() {
		if m.open() && !m.created.After(cutoff) {
			m.die(now)
		}
	}
}

// cancelExpunged cancels in the model every delivery that no step may leave open.
func (n *nodes) cancelExpunged() {
	for _, e := range n.model {
		e.cancelExpunged(n.clock.Now())
	}
}

func (n *nodes) of(k Key) *modelled { return n.model[k.EventUUID].deliveries[k.SubscriptionID] }

// each goes through all deliveries of the model.
func (n *nodes) each() func(yield func(Key, *modelled) bool) {
	return func(yield func(Key, *modelled) bool) {
		for event, e := range n.model {
			for sub, m := range e.deliveries {
				if !yield(Key{event, sub}, m) {
					return
				}
			}
		}
	}
}
