package deliveries

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// targets stands in for internal/webhooks/subscriptions: it says what is enabled and what is gone.
type targets struct {
	byID map[string]*subscriptions.Target
	// saved holds subscriptions that take less than every event.
	saved map[string]subscriptions.Subscription
}

func (f *targets) Get(_ context.Context, v access.View, subscriptionID string) (subscriptions.Subscription, error) {
	if _, ok := f.byID[subscriptionID]; !ok {
		return subscriptions.Subscription{}, apperr.NotFound("webhook subscription")
	}
	if sub, ok := f.saved[subscriptionID]; ok {
		return sub, nil
	}
	return subscriptions.Subscription{ID: subscriptionID, Environment: v.Environment, EventTypes: []string{"*"}}, nil
}

func (f *targets) Target(_ context.Context, _ id.Environment, subscriptionID string) (*subscriptions.Target, error) {
	t, ok := f.byID[subscriptionID]
	if !ok {
		return nil, apperr.NotFound("webhook subscription")
	}
	return t, nil
}

func (*targets) TypeRules(context.Context, id.Environment, subscriptions.Origin) (eventtypes.Rules, error) {
	return eventtypes.Rules{}, nil
}

func (*targets) Warnings(context.Context, *subscriptions.Subscription) []subscriptions.Warning {
	return nil
}

func (*targets) TestedTypes(_ context.Context, _ *subscriptions.Subscription,
	written string) []subscriptions.TestedType {
	return []subscriptions.TestedType{{Type: written}}
}

func (f *targets) Disable(_ context.Context, _ id.Environment, subscriptionID, _ string) error {
	f.byID[subscriptionID].Enabled = false
	return nil
}

const machineEnvironment id.Environment = "env_00000000000000000000000000"

// machine drives the real service and a model of it through the same steps.
type machine struct {
	t     *testing.T
	rt    *rapid.T
	s     *Service
	clock *clock.Manual
	subs  *targets
	// model is every delivery as the pure transitions say it must be.
	model map[Key]Delivery
	// leased holds what this process holds, as it was claimed; lost holds leases that have ended meanwhile.
	leased map[Key]Delivery
	lost   []Delivery
	// sent counts the recorded successes of each generation.
	sent map[Key]map[int64]int
	// expunged holds the events whose payload was removed.
	expunged map[string]bool
	// ended counts the deliveries that came to an end that no attempt records.
	ended map[Status]int64
	// last is how the last recorded attempt of a delivery ended, or its life where its worker was lost permanently.
	last map[Key]ending
}

func newMachine(t *testing.T, rt *rapid.T, store testkit.Store) *machine {
	t.Helper()
	clk := clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	f := &targets{byID: map[string]*subscriptions.Target{}}
	s := newService(store.DB, f, clk, nil, 1, 1, 1)
	return &machine{t: t, rt: rt, s: s, clock: clk, subs: f, model: map[Key]Delivery{}, leased: map[Key]Delivery{},
		sent: map[Key]map[int64]int{}, last: map[Key]ending{}, expunged: map[string]bool{}, ended: map[Status]int64{}}
}

func (m *machine) tx(fn func(tx *sql.Tx) error) { require.NoError(m.rt, m.s.db.Tx(m.t.Context(), fn)) }

func (m *machine) addSubscription() {
	sub := id.New(id.PrefixSubscription)
	m.subs.byID[sub] = &subscriptions.Target{ID: sub, Enabled: true, Schedule: []time.Duration{5 * time.Second,
		30 * time.Second}}
}

// receive stores an event with a delivery to each living subscription, some of them leased immediately as ingest does.
func (m *machine) receive(leaseNow func() bool) {
	now := m.clock.Now()
	claim, until := m.s.claimer.newLease(now)
	e := events.NewEvent{Event: events.Event{UUID: id.NewUUID(), Environment: machineEnvironment, Type: "a.b",
		Verification: "{}", ReceivedAt: now}, Payload: &events.Payload{Headers: "{}", Encoding: events.Text}}
	var list []Delivery
	for _, sub := range slices.Sorted(maps.Keys(m.subs.byID)) {
		if m.subs.byID[sub].Deleted {
			continue
		}
		d := Delivery{Key: Key{e.UUID, sub}, ID: id.NewUUID(), Environment: machineEnvironment, Status: Pending,
			Generation: 1, Due: now, CreatedAt: now, UpdatedAt: now}
		switch {
		case !m.subs.byID[sub].Enabled:
			d.Status = Held
			e.Held++
		case leaseNow():
			d = d.claimed(claim, until)
			m.leased[d.Key] = d
			e.Sending++
		default:
			e.Pending++
		}
		list = append(list, d)
		m.model[d.Key] = d
		m.sent[d.Key] = map[int64]int{}
	}
	m.tx(func(tx *sql.Tx) error {
		_, err := m.s.db.ExecAll(m.t.Context(), tx, append(events.Insert([]events.NewEvent{e}), Insert(list))...)
		return err
	})
}

// claim leases what is due, of each subscription up to limit, and checks that nothing else was leased.
func (m *machine) claim(limit int) {
	now := m.clock.Now()
	of := map[string]int{}
	for _, d := range m.s.claim(m.rt, now, limit, slices.Sorted(maps.Keys(m.subs.byID))...) {
		of[d.SubscriptionID]++
		before := m.model[d.Key]
		require.Contains(m.rt, []Status{Pending, RetryWait}, before.Status, "only what waits is claimed")
		require.False(m.rt, before.Due.After(now), "only what is due is claimed")
		require.Zero(m.rt, m.sent[d.Key][d.Generation], "nothing is sent after its success was recorded")
		m.model[d.Key], m.leased[d.Key] = d, d
	}
	for sub, n := range of {
		require.LessOrEqual(m.rt, n, limit, "%s", sub)
	}
	for k, d := range m.model {
		waits := d.Status == Pending || d.Status == RetryWait
		require.False(m.rt, of[k.SubscriptionID] < limit && waits && !d.Due.After(now), "a due delivery was left: %v", k)
	}
}

func (m *machine) result(d Delivery, o outcome) *result {
	next := d.attempted(o, m.subs.byID[d.SubscriptionID].Schedule, 0.5)
	a := Attempt{ID: id.NewUUID(), EventUUID: d.EventUUID, SubscriptionID: d.SubscriptionID, Generation: d.Generation,
		Number: d.GenerationAttempts + 1, StartedAt: o.At, RequestHeaders: "{}", ResponseHeaders: "{}",
		Outcome: AttemptSucceeded}
	if o.Failure != nil {
		a.Outcome = AttemptFailed
	}
	return &result{delivery: d, next: next, attempt: a, attempted: true}
}

// finish stores the outcomes of some leased deliveries in one batch, together with those of leases that were lost.
func (m *machine) finish(keys []Key, draw func() outcome) {
	var batch []*result
	for _, k := range keys {
		r := m.result(m.leased[k], draw())
		batch = append(batch, r)
		delete(m.leased, k)
		m.last[k] = wentWell
		m.becomes(k, r.next)
		if r.attempt.Outcome == AttemptFailed {
			m.last[k] = wentWrong
		}
		if r.next.Status == Succeeded {
			m.sent[k][r.next.Generation]++
		}
	}
	for _, d := range m.lost {
		batch = append(batch, m.result(d, outcome{At: m.clock.Now()}))
	}
	m.lost = nil
	require.NoError(m.rt, m.s.recorder.storeResults(m.t.Context(), batch))
}

// crash ends every lease of this process without an outcome, as a successor finds them.
func (m *machine) crash() {
	now := m.clock.Now()
	n, _, err := m.s.store.recover(m.t.Context(), now, "node:", func(Key) bool { return false })
	require.NoError(m.rt, err)
	require.Equal(m.rt, len(m.leased), n)
	for k := range m.leased {
		m.loses(k, now)
	}
	m.leased = map[Key]Delivery{}
}

// loses notes that a lease has ended without an outcome.
func (m *machine) loses(k Key, now time.Time) {
	m.lost = append(m.lost, m.leased[k])
	m.becomes(k, m.leased[k].leaseLost(now))
	if m.model[k].Status == Dead {
		m.last[k] = wentWrong
	}
}

// expire lets the leases end by themselves, except those in memory.
func (m *machine) expire(held map[Key]bool) {
	m.clock.Advance(m.s.opts.Lease + time.Second)
	now := m.clock.Now()
	_, _, err := m.s.store.recover(m.t.Context(), now, "", func(k Key) bool { return held[k] })
	require.NoError(m.rt, err)
	for k := range m.leased {
		if !held[k] {
			m.loses(k, now)
			delete(m.leased, k)
		}
	}
}

// change switches a subscription and lets its deliveries follow.
func (m *machine) change(sub string, to func(*subscriptions.Target)) {
	next := *m.subs.byID[sub]
	to(&next)
	m.subs.byID[sub] = &next
	ctx, now := m.t.Context(), m.clock.Now()
	m.tx(func(tx *sql.Tx) error {
		switch {
		case next.Deleted:
			return m.s.store.Control().Cancel(ctx, tx, machineEnvironment, sub, now)
		case !next.Enabled:
			return m.s.store.Control().Hold(ctx, tx, machineEnvironment, sub, now)
		default:
			return nil
		}
	})
	m.followSubscriptions()
}

// followSubscriptions lets deliveries follow their subscriptions, as the worker does each second.
func (m *machine) followSubscriptions() {
	m.clock.Advance(followInterval)
	now := m.clock.Now()
	m.s.follower.followSubscriptions(m.t.Context())
	for k, d := range m.model {
		sub := m.subs.byID[k.SubscriptionID]
		switch {
		case !d.Status.isOpen():
		case sub.Deleted:
			m.becomes(k, d.cancelled(now))
		case !sub.Enabled && d.Status != Held:
			m.becomes(k, d.held())
		case sub.Enabled && d.Status == Held:
			m.becomes(k, d.returned(now)) // fewer are held here than the ramp releases at a time
		}
	}
}

func (m *machine) replay(event string, force bool) {
	p := access.System("test")
	p.Environment = machineEnvironment
	var sending, eligible []Key
	for k, d := range m.model {
		if k.EventUUID != event || m.subs.byID[k.SubscriptionID].Deleted {
			continue
		}
		switch {
		case d.Status == Sending:
			sending = append(sending, k)
		case force || d.Status == Dead || d.Status == RetryWait:
			eligible = append(eligible, k)
		}
	}
	_, err := m.s.Replay(m.t.Context(), p, event, ReplayRequest{Force: force})
	switch {
	case m.expunged[event]:
		require.True(m.rt, apperr.Is(err, apperr.CodePayloadExpired), "%v", err)
	case len(sending) > 0:
		require.True(m.rt, apperr.Is(err, apperr.CodeDeliveryInFlight), "%v", err)
	case len(eligible) == 0:
		require.True(m.rt, apperr.Is(err, apperr.CodeNothingToReplay), "%v", err)
	default:
		require.NoError(m.rt, err)
		for _, k := range eligible {
			m.becomes(k, m.model[k].replayed(m.clock.Now(), m.subs.byID[k.SubscriptionID].Enabled))
		}
	}
}

func (m *machine) redeliver(event string) {
	n, err := m.s.Redeliver(m.t.Context(), machineEnvironment, event)
	require.NoError(m.rt, err)
	require.False(m.rt, n > 0 && m.expunged[event], "nothing is left to send")
	if n == 0 {
		return // nothing is dead, or it was redelivered less than five minutes ago
	}
	for k, d := range m.model {
		if sub := m.subs.byID[k.SubscriptionID]; k.EventUUID == event && d.Status == Dead && !sub.Deleted {
			m.becomes(k, d.replayed(m.clock.Now(), sub.Enabled))
			n--
		}
	}
	require.Zero(m.rt, n, "exactly the dead deliveries are restarted")
}

// becomes notes a delivery's new state, which is not an open one where there is nothing left to send.
func (m *machine) becomes(k Key, d Delivery) {
	if d.Status.isOpen() && m.expunged[k.EventUUID] {
		d = d.cancelled(m.clock.Now())
	}
	if before := m.model[k].Status; d.Status != before && (d.Status == Dead || d.Status == Cancelled) {
		m.ended[d.Status]++
	}
	m.model[k] = d
}

// expunge removes an event's payload.
func (m *machine) expunge(event string) {
	p := access.System("test")
	p.Environment = machineEnvironment
	require.NoError(m.rt, m.s.Expunge(m.t.Context(), p, event))
	m.expunged[event] = true
	for k, d := range m.model {
		if k.EventUUID == event {
			m.becomes(k, d)
		}
	}
}

// restartHeld brings everything that is due to an outcome and then restarts an event while one of its subscriptions is
// disabled, so that a delivery with a past is held in a generation without one.
func (m *machine) restartHeld(sub, event string, byProvider, force bool, draw func() outcome) {
	for changed := true; changed; {
		m.claim(chunk)
		changed = len(m.leased) > 0
		m.finish(sortedKeys(m.leased), draw)
	}
	m.change(sub, func(t *subscriptions.Target) { t.Enabled = false })
	if byProvider {
		m.redeliver(event)
		return
	}
	m.replay(event, force)
}

// Over every order of receipts, outcomes, lost leases, crashes, holds, releases, cancellations, replays, redeliveries
// and bulk replays and removals of payloads, deliveries go where the state machine says, the event's status is the
// function of its deliveries, a success is recorded once per generation, the outcome of a lost lease changes nothing,
// and nothing waits to be sent whose payload is gone.
func TestStatesFollowTheMachine(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		rapid.Check(t, func(rt *rapid.T) {
			for _, table := range []string{"delivery_stats", "delivery_attempts", "deliveries", "webhook_event_payloads",
				"webhook_events", "audit_events"} {
				_, err := store.DB.Write().ExecContext(t.Context(), "DELETE FROM "+table)
				require.NoError(t, err)
			}
			m := newMachine(t, rt, store)
			for range 3 {
				m.addSubscription()
			}
			flip := func() bool { return rapid.Bool().Draw(rt, "leased") }
			event := func() string {
				list := map[string]bool{}
				for k := range m.model {
					list[k.EventUUID] = true
				}
				if len(list) == 0 {
					rt.Skip("no event yet")
				}
				return rapid.SampledFrom(slices.Sorted(maps.Keys(list))).Draw(rt, "event")
			}
			sub := func() string {
				return rapid.SampledFrom(slices.Sorted(maps.Keys(m.subs.byID))).Draw(rt, "subscription")
			}
			outcome := func() outcome {
				now, status := m.clock.Now(), 500
				return rapid.SampledFrom([]outcome{{At: now}, {At: now, HTTPStatus: &status,
					Failure: &Failure{Code: codeUnexpectedStatus, Message: "m", At: now}}, {At: now, Permanent: true,
					Failure: &Failure{Code: codeGone, Message: "m", At: now}}}).Draw(rt, "outcome")
			}
			rt.Repeat(map[string]func(*rapid.T){
				"":        func(*rapid.T) { m.check() },
				"receive": func(*rapid.T) { m.receive(flip) },
				"claim":   func(rt *rapid.T) { m.claim(rapid.IntRange(1, 5).Draw(rt, "limit")) },
				"finish": func(rt *rapid.T) {
					var keys []Key
					for _, k := range sortedKeys(m.leased) {
						if rapid.Bool().Draw(rt, "ended") {
							keys = append(keys, k)
						}
					}
					m.finish(keys, outcome)
				},
				"crash": func(*rapid.T) { m.crash() },
				"expire": func(rt *rapid.T) {
					held := map[Key]bool{}
					for _, k := range sortedKeys(m.leased) {
						held[k] = rapid.Bool().Draw(rt, "held")
					}
					m.expire(held)
				},
				"wait": func(rt *rapid.T) {
					m.clock.Advance(time.Duration(rapid.IntRange(1, 60).Draw(rt, "seconds")) * time.Second)
				},
				"disable": func(*rapid.T) { m.change(sub(), func(t *subscriptions.Target) { t.Enabled = false }) },
				"enable":  func(*rapid.T) { m.change(sub(), func(t *subscriptions.Target) { t.Enabled = true }) },
				"delete": func(*rapid.T) {
					m.change(sub(), func(t *subscriptions.Target) { t.Deleted = true })
					m.addSubscription()
				},
				"follow":      func(*rapid.T) { m.followSubscriptions() },
				"replay":      func(*rapid.T) { m.replay(event(), false) },
				"forceReplay": func(*rapid.T) { m.replay(event(), true) },
				"bulk": func(rt *rapid.T) {
					to := ""
					if rapid.Bool().Draw(rt, "to one subscription") {
						to = sub()
					}
					m.bulk(rapid.Bool().Draw(rt, "force"), to, rapid.IntRange(1, 4).Draw(rt, "limit"))
				},
				"redeliver": func(*rapid.T) { m.redeliver(event()) },
				"expunge":   func(*rapid.T) { m.expunge(event()) },
				"restartHeld": func(rt *rapid.T) {
					m.restartHeld(sub(), event(), rapid.Bool().Draw(rt, "by the provider"), rapid.Bool().Draw(rt, "force"), outcome)
				},
			})
		})
	})
}

func sortedKeys(m map[Key]Delivery) []Key {
	return slices.SortedFunc(maps.Keys(m), func(a, b Key) int {
		if a.EventUUID != b.EventUUID {
			return map[bool]int{true: -1, false: 1}[a.EventUUID < b.EventUUID]
		}
		return map[bool]int{true: -1, false: 1}[a.SubscriptionID < b.SubscriptionID]
	})
}
