package retention

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
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// known is an event as the model has it.
type known struct {
	event
	stored events.Event
	// gone says that its payload has been removed.
	gone bool
	// states are those of its deliveries, with the code of what ended them.
	states []string
}

// model drives the worker and says what must be there.
type model struct {
	*world
	rt     *rapid.T
	events map[string]*known
}

func (m *model) envs() []id.Environment { return slices.Sorted(maps.Keys(m.keeps)) }

func (m *model) receive() {
	rt := m.rt
	e := event{env: rapid.SampledFrom(m.envs()).Draw(rt, "environment"), received: m.clk.Now(), body: "x",
		duplicate: rapid.IntRange(0, 4).Draw(rt, "duplicate") == 0}
	if !e.duplicate {
		e.states = rapid.SliceOfN(rapid.SampledFrom([]deliveries.Status{deliveries.Pending, deliveries.Sending,
			deliveries.RetryWait, deliveries.Held, deliveries.Succeeded, deliveries.Dead, deliveries.Cancelled}), 0, 3).
			Draw(rt, "states")
		e.attempts = rapid.IntRange(0, 2).Draw(rt, "attempts")
		if rapid.Bool().Draw(rt, "window") {
			e.bodyKeyUntil = m.clk.Now().Add(rapid.SampledFrom([]time.Duration{time.Hour, 30 * day}).Draw(rt, "until"))
		}
	}
	k := &known{event: e, stored: m.add(rt, e)}
	for _, s := range e.states {
		k.states = append(k.states, string(s))
	}
	m.events[k.stored.UUID] = k
	m.clk.Advance(time.Millisecond)
}

func (m *model) due(k *known) (payload, event bool) {
	age, l := m.clk.Now().Sub(k.received), m.keeps[k.env]
	return age >= l.Payload, age >= l.Event
}

func (k *known) is(s deliveries.Status) bool { return slices.Contains(k.states, string(s)) }

// ran says what a whole round has done.
func (m *model) ran() {
	for uuid, k := range m.events {
		payload, event := m.due(k)
		if payload || k.gone {
			k.gone = true
			for i, s := range k.states {
				switch deliveries.Status(s) {
				case deliveries.Pending, deliveries.RetryWait:
					k.states[i] = "dead payload_expired"
				case deliveries.Held:
					k.states[i] = "dead held_expired"
				default:
				}
			}
		}
		if event && !k.is(deliveries.Sending) {
			delete(m.events, uuid)
		}
	}
}

// end ends what is being sent, in the store and in the model.
func (m *model) end() {
	ctx := context.Background()
	for _, statement := range []string{
		"UPDATE deliveries SET status = 'succeeded' WHERE status = 'sending'",
		"UPDATE webhook_events SET n_succeeded = n_succeeded + n_sending, n_sending = 0 WHERE n_sending > 0",
	} {
		_, err := m.DB.Write().ExecContext(ctx, statement)
		require.NoError(m.rt, err)
	}
	for _, k := range m.events {
		for i, s := range k.states {
			if s == string(deliveries.Sending) {
				k.states[i] = string(deliveries.Succeeded)
			}
		}
	}
}

// check compares the store with the model. After a round that was broken off, what is due may be there or not.
func (m *model) check(whole bool) {
	m.rt.Helper()
	want := map[string]int{}
	for _, uuid := range slices.Sorted(maps.Keys(m.events)) {
		k := m.events[uuid]
		payload, event := m.due(k)
		if !whole && (payload || event) {
			continue
		}
		e, err := m.stored.Get(context.Background(), access.Whole(k.env), uuid)
		require.NoError(m.rt, err)
		require.Equal(m.rt, !k.duplicate && (k.gone || payload), e.PayloadExpired)
		payloads, err := m.stored.Payloads(context.Background(), k.env, []events.Event{e})
		require.NoError(m.rt, err)
		require.Equal(m.rt, !k.duplicate && !k.gone && !payload, len(payloads) == 1)
		slices.Sort(k.states)
		require.Equal(m.rt, k.states, m.states(m.rt, e))
		want["webhook_events"]++
		want["deliveries"] += len(k.states)
		want["delivery_attempts"] += k.attempts
		if !k.duplicate {
			want["webhook_event_keys"]++
			if !k.gone {
				want["webhook_event_payloads"]++
			}
		}
		if k.bodyKeyUntil.After(m.clk.Now()) {
			want["webhook_event_keys"]++
		}
	}
	if !whole {
		return
	}
	// The hash that is kept with a key lives for its window, also when that is longer than its event.
	var windows int
	require.NoError(m.rt, m.DB.Read().QueryRowContext(context.Background(), `SELECT COUNT(*) FROM webhook_event_keys k
		WHERE k.expires_ms < $1
		AND NOT EXISTS (SELECT 1 FROM webhook_events e WHERE e.event_uuid = k.event_uuid)`, events.KeyForever).Scan(&windows))
	want["webhook_event_keys"] += windows
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	require.Equal(m.rt, want, m.counts(m.rt))
}

// For every order of receipts, waits, changed settings, removals on request, ended attempts, and complete or
// interrupted rounds: after a round all due data is gone, and nothing else is touched.
func TestRemovesWhatIsDueAndNothingElse(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		rapid.Check(t, func(rt *rapid.T) {
			w := newWorld(t, s)
			for _, table := range []string{"delivery_attempts", "deliveries", "webhook_event_payloads", "webhook_event_keys",
				"webhook_events", "webhook_payload_horizons", "webhook_event_log"} {
				_, err := s.DB.Write().ExecContext(t.Context(), "DELETE FROM "+table)
				require.NoError(rt, err)
			}
			m := &model{world: w, rt: rt, events: map[string]*known{}}
			m.environment(2, 4)
			m.environment(1, 8)
			round := func() {
				require.NoError(rt, w.removeExpired(t.Context()))
				m.ran()
				m.check(true)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"receive": func(*rapid.T) { m.receive() },
				"wait": func(rt *rapid.T) {
					w.clk.Advance(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Hour, 12 * time.Hour, day, 3 * day}).Draw(
						rt, "for"))
				},
				"edge": func(rt *rapid.T) {
					// To the moment when something is due, or one millisecond short of it.
					var next []time.Duration
					for _, uuid := range slices.Sorted(maps.Keys(m.events)) {
						k := m.events[uuid]
						for _, life := range []time.Duration{w.keeps[k.env].Payload, w.keeps[k.env].Event} {
							if left := k.received.Add(life).Sub(w.clk.Now()); left > time.Millisecond {
								next = append(next, left)
							}
						}
					}
					if len(next) > 0 {
						w.clk.Advance(rapid.SampledFrom(next).Draw(rt, "edge") - time.Duration(rapid.IntRange(0, 1).Draw(rt,
							"short"))*time.Millisecond)
						round()
					}
				},
				"settings": func(rt *rapid.T) {
					event := rapid.IntRange(1, 8).Draw(rt, "event days")
					w.keep(rapid.SampledFrom(m.envs()).Draw(rt, "environment"), rapid.IntRange(1, event).Draw(rt, "payload days"),
						event)
				},
				"expunge": func(rt *rapid.T) {
					for _, uuid := range slices.Sorted(maps.Keys(m.events)) {
						k := m.events[uuid]
						if k.duplicate || k.gone || len(k.states) > 0 || !rapid.Bool().Draw(rt, "expunged") {
							continue
						}
						m.expunge(k)
					}
				},
				"end":   func(*rapid.T) { m.end() },
				"round": func(*rapid.T) { round() },
				"broken off": func(rt *rapid.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					left := rapid.IntRange(0, 4).Draw(rt, "chunks")
					next := w.process(s.DB)
					next.pace.rest = func(context.Context, time.Duration) {
						if left--; left < 0 {
							cancel()
						}
					}
					next.pace.first = 4 // so that even little takes several
					if err := next.removeExpired(ctx); err != nil {
						require.ErrorIs(rt, err, context.Canceled)
					}
					m.check(false)
					round()
				},
			})
		})
	})
}

// expunge removes the payload of an event that has no deliveries.
func (m *model) expunge(k *known) {
	require.NoError(m.rt, m.DB.Tx(context.Background(), func(tx *sql.Tx) error {
		_, err := m.stored.Expunge(context.Background(), tx, &k.stored, m.clk.Now())
		return err
	}))
	k.gone = true
}
