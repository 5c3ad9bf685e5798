package deliveries

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/obs"
)

// pollInterval is how often due deliveries are claimed, and those of other processes looked for, when nothing wakes the
// claimer.
const pollInterval = 500 * time.Millisecond

// maxAsks is the maximum number of subscriptions for which one transaction claims.
const maxAsks = 64

// refusedPause is how long no delivery of a subscription is claimed after the database refused a claim for it alone.
const refusedPause = 10 * time.Second

// claimer leases due deliveries into memory: of each subscription as many as have room there, in turns between
// environments and the subscriptions of each. Deliveries that are not sent soon give way to those without room.
type claimer struct {
	store      *Store
	dispatcher *dispatcher
	backlog    *backlog
	breakers   *breakers
	clock      clock.Clock
	log        *slog.Logger
	// contents returns what the deliveries send, by event.
	contents func(ctx context.Context, list []claimed) (map[string]content, error)
	wake     jobs.Wake
	claims   *jobs.Claims
	doubts   jobs.Doubts
	lease    time.Duration
	// isUncertain reports that no lease may begin, because it might end earlier than expected.
	isUncertain func() bool
	// unsure holds the jobs that have given way and may have returned to the table or not, because the response to that
	// commit was lost. Only the claimer's loop uses it, and the stop after that.
	unsure []*job
}

// newLease returns the claim and the end of the lease for deliveries that are about to be committed as leased.
func (c *claimer) newLease(now time.Time) (claim string, until time.Time) {
	return c.claims.Next(), now.Add(c.lease)
}

// note records that deliveries of the subscriptions wait in the table, and wakes the claimer.
func (c *claimer) note(env id.Environment, due time.Time, subscriptionIDs ...string) {
	for _, sub := range subscriptionIDs {
		c.backlog.note(env, sub, due)
	}
	c.wake.Signal()
}

// found records that deliveries of the subscription were found in the table, of which the first is due then. If that
// has passed, it looks for room again, so that nothing that was missed leaves the subscription blocked for long.
func (c *claimer) found(env id.Environment, due time.Time, subscriptionID string) {
	c.backlog.note(env, subscriptionID, due)
	if !due.After(c.clock.Now()) {
		c.backlog.unblock(subscriptionID)
	}
	c.wake.Signal()
}

// finished records that the place of a delivery is free, after an outcome that left the delivery in this state.
func (c *claimer) finished(d Delivery) {
	if d.Status == Pending || d.Status == RetryWait {
		c.backlog.note(d.Environment, d.SubscriptionID, d.Due)
	}
	c.freed(d.SubscriptionID)
}

// release frees the place of a delivery that was not committed as leased.
func (c *claimer) release(env id.Environment, subscriptionID string) {
	c.dispatcher.release(env, subscriptionID, 1)
	c.freed(subscriptionID)
}

// freed looks for room for a subscription after places of it were freed.
func (c *claimer) freed(subscriptionID string) {
	c.backlog.unblock(subscriptionID)
	if c.backlog.hasReady() {
		c.wake.Signal()
	}
}

// claimDue leases due deliveries into memory until there are none or no room is left. It returns when to look again.
func (c *claimer) claimDue(ctx context.Context) time.Duration {
	// A claim that has begun is completed even when the process is stopping: if it is interrupted during its commit, or
	// cannot be released, it leaves leases behind that no process knows of.
	whole := context.WithoutCancel(ctx)
	if err := c.doubts.Resolve(func(claim string) error {
		defer c.store.follow.anyChanged() // the follower finds them, once the release is committed
		return c.store.releaseClaim(whole, claim, c.clock.Now())
	}); err != nil {
		c.log.ErrorContext(ctx, "cannot release deliveries of an uncertain commit", slog.String("error", err.Error()),
			obs.Outage("claims"))
	}
	if err := c.resolveUnsure(whole); err != nil {
		c.log.ErrorContext(ctx, "cannot return deliveries of an uncertain commit", slog.String("error", err.Error()),
			obs.Outage("claims"))
	}
	for ctx.Err() == nil && !c.isUncertain() {
		turns, without := c.takeTurns()
		if len(turns) > 0 {
			if err := c.claim(whole, turns); err != nil {
				c.log.ErrorContext(ctx, "cannot claim due deliveries", slog.String("error", err.Error()), obs.Outage("claims"))
				return pollInterval
			}
			continue
		}
		if !c.makeRoom(whole, without) {
			break
		}
	}
	if due, ok := c.backlog.nextDue(); ok {
		return min(max(due.Sub(c.clock.Now()), 0), pollInterval)
	}
	return pollInterval
}

// turn is a subscription for which a claim takes that many places.
type turn struct {
	of     *backlogged
	places int
}

// takeTurns takes places for the subscriptions whose turn it is. without holds the subscriptions, by environment, that
// found none because their environment's share is in use.
func (c *claimer) takeTurns() (turns []turn, without map[id.Environment][]string) {
	now := c.clock.Now()
	without = map[id.Environment][]string{}
	full := map[id.Environment]bool{}
	for rows, most := 0, c.store.moves.Limit(); rows < most && len(turns) < maxAsks; {
		x := c.backlog.next(now, full)
		if x == nil {
			break
		}
		if c.breakers.isOpen(x.subscriptionID) {
			c.backlog.end(x) // the follower holds what waits, and notes what it releases
			continue
		}
		n, why := c.dispatcher.reserveDue(x.env, x.subscriptionID, most-rows)
		if n > 0 {
			turns = append(turns, turn{x, n})
			rows += n
			continue
		}
		switch why {
		case roomClosed:
			c.backlog.retry(x)
			return turns, nil
		case roomShareUsed:
			c.backlog.retry(x)
			full[x.env] = true
			without[x.env] = append(without[x.env], x.subscriptionID)
		case roomPartUsed:
			c.backlog.block(x)
			without[x.env] = append(without[x.env], x.subscriptionID)
		case roomFree, roomFull:
			c.backlog.block(x)
		}
	}
	return turns, without
}

// claim leases deliveries for the turns and passes them to the dispatcher. If the database refuses that, a row of one
// subscription can be the reason: then it claims for each alone, and suspends those for which that fails.
func (c *claimer) claim(ctx context.Context, turns []turn) error {
	asks := make([]ask, len(turns))
	for i, t := range turns {
		asks[i] = ask{t.of.subscriptionID, t.places}
	}
	from, now := clock.MomentOf(c.clock), c.clock.Now()
	claimID, until := c.newLease(now)
	list, err := c.store.claim(ctx, claimID, now, until, asks)
	switch {
	case err == nil:
	case errors.Is(err, errStale):
		c.abandon(turns)
		return nil // the next round reads again
	case db.IsUnavailable(err):
		c.abandon(turns)
		c.doubts.Add(claimID, err)
		return err
	case len(turns) > 1:
		for i := range turns {
			if err := c.claim(ctx, turns[i:i+1]); err != nil {
				c.abandon(turns[i+1:])
				return err
			}
		}
		return nil
	default:
		refused := turns[0]
		c.log.ErrorContext(ctx, "the database refused to claim due deliveries of a subscription",
			slog.String("subscription_id", refused.of.subscriptionID), slog.String("error", err.Error()),
			obs.Outage("claims"))
		c.dispatcher.release(refused.of.env, refused.of.subscriptionID, refused.places)
		c.backlog.suspend(refused.of, now.Add(refusedPause))
		return nil
	}
	contents, err := c.contents(ctx, list)
	if err != nil {
		c.log.WarnContext(ctx, "cannot read claimed deliveries together; each is read before it is sent",
			slog.String("error", err.Error()), obs.Outage("claims"))
	}
	for _, t := range turns {
		n := 0
		for n < len(list) && list[n].SubscriptionID == t.of.subscriptionID {
			c.dispatcher.enqueue(&job{delivery: list[n].Delivery, due: list[n].due, leased: from,
				content: contents[list[n].EventUUID]})
			n++
		}
		list = list[n:]
		if n == t.places {
			c.backlog.retry(t.of)
			continue
		}
		c.dispatcher.release(t.of.env, t.of.subscriptionID, t.places-n)
		c.backlog.end(t.of)
	}
	return nil
}

// abandon ends turns without a claim; the next round takes them again.
func (c *claimer) abandon(turns []turn) {
	for _, t := range turns {
		c.dispatcher.release(t.of.env, t.of.subscriptionID, t.places)
		c.backlog.retry(t.of)
	}
}

// makeRoom returns deliveries that will not be sent soon to the table, for subscriptions without room. It reports
// whether it returned any.
func (c *claimer) makeRoom(ctx context.Context, without map[id.Environment][]string) (made bool) {
	for env, subs := range without {
		back := c.dispatcher.giveWay(env, chunk)
		if len(back) == 0 {
			continue
		}
		rest, err := c.giveBack(ctx, back)
		for _, sub := range subs {
			c.backlog.unblock(sub) // also after an error: the next round looks again
		}
		if err != nil {
			c.log.ErrorContext(ctx, "cannot return deliveries to make room for others", slog.String("error", err.Error()),
				obs.Outage("claims"))
			if errors.Is(err, db.ErrCommitUnknown) {
				c.unsure = append(c.unsure, rest...) // they must not be sent, and keep their places until that is known
				return false
			}
			for _, j := range slices.Backward(rest) { // the last that came was taken first
				c.dispatcher.enqueue(j)
			}
			return false
		}
		made = true
	}
	return made
}

// giveBack returns deliveries of jobs to the table with their original due times and frees their places. It returns
// the jobs for which it could not.
func (c *claimer) giveBack(ctx context.Context, back []*job) (rest []*job, err error) {
	due := make(map[Key]time.Time, len(back))
	list := make([]Delivery, len(back))
	for i, j := range back {
		list[i], due[j.delivery.Key] = j.delivery, j.due
	}
	done, err := c.store.changeEach(ctx, list, c.clock.Now(), func(d Delivery) Delivery { return d.returned(due[d.Key]) })
	for _, j := range back[:done] {
		c.dispatcher.done(j.delivery)
		c.backlog.note(j.delivery.Environment, j.delivery.SubscriptionID, j.due)
	}
	return back[done:], err
}

// resolveUnsure returns deliveries to the table of which it is not known whether they have returned. Those that have
// are skipped, because they are not leased under the same claim any more.
func (c *claimer) resolveUnsure(ctx context.Context) (err error) {
	if len(c.unsure) == 0 {
		return nil
	}
	c.unsure, err = c.giveBack(ctx, c.unsure)
	if err != nil && !db.IsUnavailable(err) {
		for _, j := range c.unsure {
			c.dispatcher.done(j.delivery) // their leases expire
		}
		c.unsure = nil
	}
	return err
}
