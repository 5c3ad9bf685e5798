package deliveries

import (
	"database/sql"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// receivers is a world of one subscription and two nodes, whose receiver is up or down.
type receivers struct {
	*world
	t     *testing.T
	rt    *rapid.T
	sub   string
	nodes []*Service

	mu   sync.Mutex
	down bool
	made []made
	// renewed holds when counting began again by a change of the subscription. begun is when it began last, also because
	// the breaker closed, and first is the first attempt that counts since then: several things happen at one time here.
	renewed []time.Time
	begun   time.Time
	first   int
}

// made is an attempt that a node has made.
type made struct {
	node          int
	at, due       time.Time
	failed, probe bool
}

func newReceivers(t *testing.T, rt *rapid.T, store testkit.Store) *receivers {
	t.Helper()
	for _, table := range []string{"delivery_stats", "delivery_breakers", "delivery_attempts", "deliveries",
		"webhook_event_payloads", "webhook_events"} {
		_, err := store.DB.Write().ExecContext(t.Context(), "DELETE FROM "+table)
		require.NoError(t, err)
	}
	r := &receivers{world: newWorld(t, store), t: t, rt: rt}
	r.sub = r.subscription()
	r.subs.byID[r.sub].Schedule = slices.Repeat([]time.Duration{5 * time.Second, time.Minute, 10 * time.Minute}, 30)
	for range 2 {
		node := newService(store.DB, r.subs, r.clock, nil, 20, 5, 20)
		number := len(r.nodes)
		node.dispatcher.run = func(j *job) { r.send(number, j) }
		r.nodes = append(r.nodes, node)
		require.NoError(t, node.breakers.refresh(t.Context()))
	}
	return r
}

// send does what sendDelivery does, without a request.
func (r *receivers) send(number int, j *job) {
	node, now := r.nodes[number], r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	target := r.subs.byID[r.sub]
	if !target.Enabled || !j.probe && node.breakers.isOpen(r.sub) {
		node.recorder.recordBatch([]*result{{delivery: j.delivery, next: j.delivery.returned(j.due).held()}})
		return
	}
	o := outcome{At: now}
	a := Attempt{EventUUID: j.delivery.EventUUID, SubscriptionID: r.sub, Generation: j.delivery.Generation,
		Number: j.delivery.GenerationAttempts + 1, StartedAt: now, RequestHeaders: "{}", ResponseHeaders: "{}",
		Outcome: AttemptSucceeded, Timings: egress.Timings{Total: time.Millisecond}}
	if r.down {
		o.Failure = &Failure{Code: "connection_refused", At: now}
		a.Outcome = AttemptFailed
	}
	r.made = append(r.made, made{number, now, j.due, r.down, j.probe})
	node.recorder.recordBatch([]*result{{delivery: j.delivery, next: j.delivery.attempted(o, target.Schedule, 0.5),
		attempt: a, attempted: true, sent: true, probe: j.probe}})
}

// receive stores events with a delivery each, as ingest on a node does.
func (r *receivers) receive(number, n int) {
	node := r.nodes[number]
	var found []events.NewEvent
	var list []Delivery
	matched := []subscriptions.Matched{{ID: r.sub, Enabled: r.subs.byID[r.sub].Enabled}}
	for range n {
		e, _ := r.event(Delivery{Status: Pending}, r.sub)
		d := newDelivery(r.env, e.UUID, node.breakers.holding(matched)[0], r.clock.Now())
		e.Counters = d.counters()
		found, list = append(found, e), append(list, d)
	}
	r.insert(r.rt, found, list)
	node.Due(r.env, r.sub)
}

// work lets a node claim and send what is due.
func (r *receivers) work(number int) {
	r.nodes[number].claimer.claimDue(r.t.Context())
	r.nodes[number].dispatcher.workers.Wait()
}

// look lets both nodes look at each other's changes, at what has failed and at what waits.
func (r *receivers) look() {
	for _, node := range r.nodes {
		require.NoError(r.rt, node.breakers.refresh(r.t.Context()))
		node.breakers.run(r.t.Context())
	}
	for _, node := range r.nodes {
		require.NoError(r.rt, node.breakers.refresh(r.t.Context()))
		node.follower.followSubscriptions(r.t.Context())
		node.dispatcher.workers.Wait()
		node.breakers.run(r.t.Context())
	}
}

// lookOn looks for as long as there is more to hold than the looks before could: each holds slowRows on each node.
func (r *receivers) lookOn() {
	for left := r.open(); r.holds() && left > 0; {
		r.look()
		now := r.open()
		require.Less(r.rt, now, left, "what is open is held, a part with each look")
		left = now
	}
}

// holds reports whether all that is open is to be held.
func (r *receivers) holds() bool { return r.stored().opened != nil || !r.subs.byID[r.sub].Enabled }

// open returns how many deliveries wait to be sent.
func (r *receivers) open() int {
	now := r.statuses()
	return now[Pending] + now[RetryWait]
}

// tx changes the subscription, with the consequences for its deliveries.
func (r *receivers) tx(fn func(tx *sql.Tx) error) { require.NoError(r.rt, r.db.Tx(r.t.Context(), fn)) }

func (r *receivers) enable(enabled bool) {
	target := *r.subs.byID[r.sub]
	if target.Enabled == enabled {
		return
	}
	target.Enabled = enabled
	r.subs.byID[r.sub] = &target
	r.tx(func(tx *sql.Tx) error {
		if enabled {
			return r.store.Control().Renewed(r.t.Context(), tx, r.env, r.sub, r.clock.Now())
		}
		return r.store.Control().Hold(r.t.Context(), tx, r.env, r.sub, r.clock.Now())
	})
	if enabled {
		r.renew()
	}
}

func (r *receivers) renew() {
	r.renewed = append(r.renewed, r.clock.Now())
	r.beginCounting()
}

// beginCounting makes only attempts from now on count. Nodes see by the time that counting began again, so a second
// beginning at one time changes nothing.
func (r *receivers) beginCounting() {
	if now := r.clock.Now(); now.After(r.begun) {
		r.begun, r.first = now, len(r.made)
	}
}

func (r *receivers) changeURL() {
	r.tx(func(tx *sql.Tx) error {
		return r.store.Control().Renewed(r.t.Context(), tx, r.env, r.sub, r.clock.Now())
	})
	r.renew()
}

// stored returns the breaker as it is stored.
func (r *receivers) stored() breaker {
	list, err := r.store.breakers.of(r.t.Context(), []string{r.sub})
	require.NoError(r.rt, err)
	if len(list) == 0 {
		return breaker{}
	}
	return list[0]
}

func (r *receivers) statuses() map[Status]int {
	list, err := r.store.query(r.t.Context(), r.db.Read(), "d.subscription_id = $1", r.sub)
	require.NoError(r.rt, err)
	out := map[Status]int{}
	for _, d := range list {
		out[d.Status]++
	}
	return out
}

// count counts the attempts of some nodes from a time on.
func (r *receivers) count(from time.Time, nodes ...int) (c attemptCounts) {
	for _, m := range r.made[r.first:] {
		if slices.Contains(nodes, m.node) && !m.at.Before(from) {
			c.all++
			if m.failed {
				c.failed++
			}
		}
	}
	return c
}

// recovers reports whether the last attempts of a node have succeeded.
func (r *receivers) recovers() bool {
	return slices.ContainsFunc([]int{0, 1}, func(node int) bool {
		successes := 0
		for _, m := range r.made[r.first:] {
			switch {
			case m.node != node:
			case m.failed:
				successes = 0
			default:
				successes++
			}
		}
		return successes >= recoveredAfter
	})
}

// begins returns every time from which the attempts within the window can count.
func (r *receivers) begins() []time.Time {
	var out []time.Time
	for _, m := range r.made[r.first:] {
		if r.clock.Now().Sub(m.at) <= breakerWindow {
			out = append(out, m.at)
		}
	}
	return out
}

// check compares what the nodes do with what the rules say. before is the breaker before the step.
func (r *receivers) check(before breaker) {
	after := r.stored()
	if before.opened == nil && after.opened != nil {
		justified := slices.ContainsFunc(r.begins(), func(from time.Time) bool {
			return r.count(from, 0, 1).opens() || r.count(from, 0).opens() || r.count(from, 1).opens()
		})
		require.True(r.rt, justified, "it opens only if most attempts fail: %+v", r.made)
	}
	if after.opened == nil {
		if from := r.clock.Now().Add(-breakerWindow + time.Minute); r.subs.byID[r.sub].Enabled && after.since.Before(from) {
			all := r.count(from, 0, 1)
			earlier := r.count(r.clock.Now().Add(-breakerWindow-time.Minute), 0, 1)
			require.False(r.rt, all.opens() && all == earlier && !r.recovers(), "it opens if most attempts fail: %+v", all)
		}
	}
	if before.opened != nil && after.opened == nil {
		require.True(r.rt, slices.ContainsFunc(r.made, func(m made) bool { return m.probe && !m.failed }))
		r.beginCounting()
	}
	for _, node := range r.nodes {
		require.Equal(r.rt, after.opened != nil, node.breakers.isOpen(r.sub), "nodes agree after they have looked")
	}
	open := r.statuses()
	if after.opened != nil || !r.subs.byID[r.sub].Enabled {
		require.Zero(r.rt, open[Pending]+open[RetryWait], "what is open is held")
	}
	require.Zero(r.rt, open[Sending])
	var last made
	for _, m := range r.made {
		require.False(r.rt, m.due.After(m.at), "no attempt comes before its time")
		if m.probe {
			if last.probe && !slices.ContainsFunc(r.renewed, func(at time.Time) bool {
				return !at.Before(last.at) && !at.After(m.at)
			}) {
				require.GreaterOrEqual(r.rt, m.at.Sub(last.at), probeInterval, "one probe at a time, over all nodes")
			}
			last = m
		}
	}
}

// Over every order of receipts, attempts of two nodes, looks, waits, failures and recoveries of the receiver, pauses
// and new URLs, a breaker opens exactly if most attempts fail, then holds everything but one probe in thirty seconds,
// and closes only with a probe that succeeds; and when the receiver is back, everything arrives.
func TestBreakersFollowTheRules(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		rapid.Check(t, func(rt *rapid.T) {
			r := newReceivers(t, rt, store)
			node := func() int { return rapid.IntRange(0, 1).Draw(rt, "node") }
			received, unnoticed := 0, false
			rt.Repeat(map[string]func(*rapid.T){
				"": func(rt *rapid.T) {
					if unnoticed {
						unnoticed = false
						return // nodes learn of it by their next attempts
					}
					before := r.stored()
					r.look()
					// The next look holds deliveries that a node sent before it looked.
					r.look()
					r.lookOn()
					r.check(before)
				},
				"receive": func(rt *rapid.T) {
					n := rapid.IntRange(1, 12).Draw(rt, "events")
					received += n
					r.receive(node(), n)
				},
				"work": func(*rapid.T) { r.work(node()) },
				"wait": func(rt *rapid.T) {
					r.clock.Advance(time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second)
				},
				"fail":    func(*rapid.T) { r.down, unnoticed = true, true },
				"recover": func(*rapid.T) { r.down, unnoticed = false, true },
				"pause":   func(*rapid.T) { r.enable(false) },
				"resume":  func(*rapid.T) { r.enable(true) },
				"newURL":  func(*rapid.T) { r.changeURL() },
			})
			r.down = false
			r.enable(true)
			for range 100 {
				if r.statuses()[Succeeded] == received {
					break
				}
				r.look()
				r.work(0)
				r.work(1)
				r.clock.Advance(31 * time.Second)
			}
			require.Equal(rt, received, r.statuses()[Succeeded], "everything arrives: %v", r.statuses())
			require.Nil(rt, r.stored().opened)
			require.Len(rt, r.succeeded(), received, "and once")
		})
	})
}

func (r *receivers) succeeded() []made {
	return slices.DeleteFunc(slices.Clone(r.made), func(m made) bool { return m.failed })
}
