package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sallyport/internal/platform/clock"
)

// errNoProbe is the error of a probe that is not sent, because another process has sent it or nothing is due.
var errNoProbe = errors.New("there is no probe to send")

// probe sends the held delivery of the subscription that has been due for longest, if a probe of its receiver is due.
// Only one process sends it. A delivery that waits for a retry does not probe before its time, so the breaker never
// makes a delivery use up its schedule faster.
func (f *follower) probe(ctx context.Context, o openSubscription, now time.Time) error {
	if !f.probes(&o, now) || f.claimer.isUncertain() || !f.claimer.dispatcher.reserve(o.Environment, o.ID, false) {
		return nil
	}
	whole := context.WithoutCancel(ctx) // as the claimer's claims
	from := clock.MomentOf(f.clock)
	claimID, until := f.claimer.newLease(f.clock.Now())
	var probe Delivery
	err := f.store.db.Tx(whole, func(tx *sql.Tx) error {
		taken, err := f.store.breakers.takeProbe(whole, tx, o.ID, now)
		if err != nil {
			return err
		}
		if !taken {
			return errNoProbe
		}
		list, err := f.store.ofSubscription(whole, tx, o.ID, 1, Held)
		if err != nil {
			return err
		}
		if len(list) == 0 || list[0].Due.After(now) {
			return errNoProbe
		}
		probe = list[0]
		return f.store.apply(whole, tx, []move{{from: probe, to: probe.claimed(claimID, until)}}, clock.Millis(now))
	})
	if err != nil {
		f.claimer.doubts.Add(claimID, err)
		f.claimer.release(o.Environment, o.ID)
		f.breakers.refreshNow(whole, o.ID)
		if errors.Is(err, errNoProbe) || errors.Is(err, errStale) {
			return nil
		}
		return err
	}
	f.breakers.refreshNow(whole, o.ID)
	f.claimer.dispatcher.enqueue(&job{delivery: probe.claimed(claimID, until), due: probe.Due, leased: from,
		probe: true})
	return nil
}

// probes reports whether a probe of the subscription's receiver is due, as far as is known.
func (f *follower) probes(o *openSubscription, now time.Time) bool {
	return o.HeldDue != nil && !o.HeldDue.After(now) && !f.breakers.get(o.ID).probe.After(now)
}
