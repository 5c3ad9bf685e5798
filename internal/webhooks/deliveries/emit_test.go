package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// Each death of a delivery emits an event. Its success emits one if and only if it has died since the last one,
// regardless of how many attempts and replays lie between.
func TestEventsOfADelivery(t *testing.T) {
	t.Parallel()
	now, waits := testTime(), []time.Duration{time.Second}
	half := 0.5
	fails := outcome{At: now, Failure: &Failure{Code: "x"}}
	d := Delivery{Status: Sending, Generation: 1}
	var told []Status
	to := func(next Delivery) {
		if m := (move{from: d, to: next}); m.isEmitted() {
			told = append(told, next.Status)
		}
		// The stored outcome counts.
		text, err := encodeFailure(next.LastFailure, "")
		require.NoError(t, err)
		next.LastFailure, _, err = DecodeFailure(text)
		require.NoError(t, err)
		d = next
	}
	try := func(o outcome) {
		to(d.claimed("c", now))
		to(d.attempted(o, waits, half))
	}
	try(fails)
	try(fails)
	require.Equal(t, []Status{Dead}, told)
	to(d.replayed(now, true))
	try(fails)
	try(outcome{At: now})
	require.Equal(t, []Status{Dead, Succeeded}, told, "it had died, whatever failed since")
	to(d.replayed(now, true))
	try(fails)
	try(outcome{At: now})
	require.Len(t, told, 2, "it has not died since its success")
	to(d.replayed(now, true))
	try(fails)
	try(fails)
	to(d.replayed(now, false))
	to(d.returned(now))
	try(outcome{At: now})
	require.Equal(t, []Status{Dead, Succeeded, Dead, Succeeded}, told)

	lost := Delivery{Status: Sending, LeasesLost: maxLeasesLost - 1}
	require.True(t, (&move{from: lost, to: lost.leaseLost(now)}).isEmitted())
	require.False(t, (&move{from: lost, to: lost.cancelled(now)}).isEmitted())
}

// countingEmitter counts the deliveries that it gets, and fails on request.
type countingEmitter struct {
	told []Delivery
	// calls are the numbers of deliveries that it got at a time.
	calls []int
	fail  error
}

func (a *countingEmitter) Deliveries(_ context.Context, _ db.Querier, ended []Delivery) ([]db.Statement, error) {
	a.told = append(a.told, ended...)
	a.calls = append(a.calls, len(ended))
	return nil, a.fail
}

// An outcome is stored although no event could be emitted, unless the store itself cannot be reached.
func TestOutcomesOutliveFailedEvents(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		for fault, stored := range map[error]bool{nil: true, errors.New("no"): true, db.ErrCommitUnknown: false} {
			w := newWorld(t, store)
			a := &countingEmitter{fail: fault}
			w.store.emitters = []Emitter{a}
			e, claimed := w.event(Delivery{Status: Sending, ClaimID: "c", Due: testTime()}, w.subscription())
			w.insert(t, []events.NewEvent{e}, []Delivery{claimed})
			dead := claimed.attempted(outcome{At: testTime(), Permanent: true, Failure: &Failure{Code: "x"}}, nil, 0)
			err := w.db.Tx(t.Context(), func(tx *sql.Tx) error {
				return w.store.apply(t.Context(), tx, []move{{from: claimed, to: dead}}, clock.Millis(testTime()))
			})
			require.Equal(t, stored, err == nil, "%v", err)
			require.Equal(t, stored, w.read(t, claimed.Key).Status == Dead)
			require.Len(t, a.told, 1)
		}
	})
}

// No transaction emits more, or stores more, than it can take, and no result is left out or stored twice.
func TestPartsOfABatch(t *testing.T) {
	t.Parallel()
	var batch []*result
	for i := range 3*maxEmitted + 7 {
		r := &result{delivery: Delivery{Status: Sending}, next: Delivery{Status: Dead}}
		batch = append(batch, r)
		if i%3 == 0 {
			batch = append(batch, &result{delivery: Delivery{Status: Sending}, next: Delivery{Status: Succeeded}})
		}
	}
	var all []*result
	for rest := batch; len(rest) > 0; {
		part := rest[:firstPart(rest, maxEmitted+20)]
		rest = rest[len(part):]
		n := 0
		for _, r := range part {
			if r.next.Status == Dead {
				n++
			}
		}
		require.LessOrEqual(t, n, maxEmitted)
		require.True(t, n == maxEmitted || len(rest) == 0, "parts are no smaller than they must be")
		all = append(all, part...)
	}
	require.Equal(t, batch, all)
	require.Equal(t, 5, firstPart(batch[:5], 6))
	require.Equal(t, 5, firstPart(batch, 5))
}

// A batch whose transaction would take long is stored in several, so that outcomes do not keep the writer from
// requests.
func TestOutcomesAreStoredInChunks(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		if store.DB.Engine() == db.Postgres {
			t.Skip("outcomes do not keep others from writing")
		}
		a := &countingEmitter{}
		w.store.emitters = []Emitter{a}
		w.store.outcomes.Observe(1, time.Second)
		var batch []*result
		for range 2*leastOutcomes + 5 {
			e, claimed := w.event(Delivery{Status: Sending, ClaimID: "c", Due: testTime()}, w.subscription())
			w.insert(t, []events.NewEvent{e}, []Delivery{claimed})
			batch = append(batch, deadResult(claimed))
		}
		w.recorder.recordBatch(batch)
		require.Len(t, a.told, len(batch))
		require.Equal(t, leastOutcomes, a.calls[0])
		require.Greater(t, len(a.calls), 1)
	})
}
