package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/obs"
)

// followInterval is the shortest time between two releases of held deliveries of a subscription.
const followInterval = time.Second

// follower makes open deliveries follow their subscriptions: held while disabled or while the breaker is open,
// cancelled when deleted, released at a ramp when enabled and the breaker is closed. It compares both sides instead of
// keeping a list, so a crash cannot lose anything.
type follower struct {
	store   *Store
	subs    Subscriptions
	clock   clock.Clock
	log     *slog.Logger
	claimer *claimer
	// breakers says whose deliveries are held because their receivers fail.
	breakers *breakers
	release  releases
	work     *followWork
	// slow holds the subscriptions whose deliveries are held because their receivers fail, one turn after each pause.
	slow      *followWork
	slowTurns pause
	// whole is the pause after a look at all subscriptions, soonest that until one that is asked for, named that after a
	// look at what has changed, and changes that after a round of changes.
	whole, soonest, named, changes pause
}

// lookShare is the part of its time that the follower may spend looking, one in so many, however many subscriptions
// have open deliveries, and however often it is woken: at all subscriptions, and at those that have changed.
const lookShare = 10

// longestLookPause and longestTurnPause are the longest pauses after a look and between two turns. The time that a look
// or a turn took says nothing about its work if the process stood still meanwhile.
const (
	longestLookPause = time.Minute
	longestTurnPause = 5 * time.Second
)

// followRows is how many rows a round changes at most, of all environments; a transaction counts as leastFollowed at
// least. Then it looks again what there is, so that many changes keep no one's probes and holds waiting.
const followRows, leastFollowed = 10 * chunk, 20

// run looks at the subscriptions with open deliveries, or at those that have changed, as their pauses allow, and
// changes deliveries in turns. It shows the claimer the subscriptions with deliveries that wait to be sent, and returns
// when to run again.
func (f *follower) run(ctx context.Context) time.Duration {
	now := clock.MomentOf(f.clock)
	if f.whole.left(now) == 0 || f.store.follow.takeAny(false) && f.soonest.left(now) == 0 {
		f.store.follow.takeAny(true)
		rest, err := f.look(ctx, now, f.lookAtAll)
		f.soonest, f.whole = rest, pause{rest.began, max(pollInterval, rest.length)}
		if err != nil {
			f.soonest = f.whole
		}
	} else if f.store.follow.hasNamed() && f.named.left(now) == 0 {
		var err error
		changed := f.store.follow.take()
		if f.named, err = f.look(ctx, now, func(ctx context.Context) error { return f.lookAt(ctx, changed) }); err != nil {
			f.named.length = pollInterval
			f.store.follow.changed(changed...)
		}
	}
	now = clock.MomentOf(f.clock)
	if f.changes.left(now) == 0 {
		f.change(ctx)
		end := clock.MomentOf(f.clock)
		f.changes = pause{end, min(now.Elapsed(end), longestTurnPause)} // half of the time is left to others
	}
	f.holdSlowly(ctx)
	now = clock.MomentOf(f.clock)
	wait := f.whole.left(now)
	if f.store.follow.takeAny(false) {
		wait = min(wait, f.soonest.left(now))
	}
	if f.store.follow.hasNamed() {
		wait = min(wait, f.named.left(now))
	}
	if f.work.ring.Len() > 0 {
		wait = min(wait, f.changes.left(now))
	}
	if f.slow.ring.Len() > 0 {
		wait = min(wait, f.slowTurns.left(now))
	}
	return wait
}

// look runs fn, logs its error, and returns the pause that must follow.
func (f *follower) look(ctx context.Context, began clock.Moment, fn func(context.Context) error) (pause, error) {
	err := fn(ctx)
	if err != nil && ctx.Err() == nil {
		f.log.ErrorContext(ctx, "cannot compare open deliveries with their subscriptions",
			slog.String("error", err.Error()), obs.Outage("follower"))
	}
	end := clock.MomentOf(f.clock) // also if the clock was set meanwhile
	return pause{end, min((lookShare-1)*began.Elapsed(end), longestLookPause)}, err
}

// lookAtAll looks at every subscription with open deliveries.
func (f *follower) lookAtAll(ctx context.Context) error {
	for after := ""; ctx.Err() == nil; {
		open, err := f.store.withOpen(ctx, after)
		if err != nil {
			return err
		}
		f.examineAll(ctx, open)
		if len(open) < openPage {
			return nil
		}
		after = open[len(open)-1].ID
	}
	return nil
}

// lookAt looks at the subscriptions named.
func (f *follower) lookAt(ctx context.Context, subscriptionIDs []string) error {
	for some := range slices.Chunk(subscriptionIDs, openPage) {
		open, err := openOf(ctx, f.store.db, some)
		if err != nil {
			return err
		}
		f.examineAll(ctx, open)
	}
	return nil
}

func (f *follower) examineAll(ctx context.Context, open []openSubscription) {
	now := f.clock.Now()
	for _, o := range open {
		if err := f.examine(ctx, o, now); err != nil && ctx.Err() == nil {
			f.log.ErrorContext(ctx, "cannot find out what open deliveries of a subscription wait for",
				slog.String("subscription_id", o.ID), slog.String("error", err.Error()), obs.Outage("follower"))
		}
	}
}

// examine shows the claimer what waits, and gives the subscription its turns if deliveries must change.
func (f *follower) examine(ctx context.Context, o openSubscription, now time.Time) error {
	what, err := f.whatFollows(ctx, &o, now)
	if err != nil {
		return err
	}
	if o.Due != nil && (what == nothingFollows || what == releaseFollows) {
		f.claimer.found(o.Environment, *o.Due, o.ID)
	}
	switch what {
	case nothingFollows:
	case slowHoldFollows:
		f.slow.add(o)
	case probeFollows:
		f.work.add(o)
		if o.Due != nil {
			f.slow.add(o) // a probe that has no room in memory does not keep others from being held
		}
	default:
		f.work.add(o)
	}
	return nil
}

// follows says how deliveries of a subscription must change.
type follows int

const (
	nothingFollows follows = iota
	cancelFollows
	holdFollows
	slowHoldFollows
	probeFollows
	releaseFollows
)

// whatFollows returns how the open deliveries of the subscription must change now.
func (f *follower) whatFollows(ctx context.Context, o *openSubscription, now time.Time) (follows, error) {
	target, err := f.subs.Target(ctx, o.Environment, o.ID)
	switch {
	case apperr.Is(err, apperr.CodeNotFound) || err == nil && target.Deleted:
		return cancelFollows, nil
	case err != nil:
		return nothingFollows, err
	}
	failing := f.breakers.isOpen(o.ID)
	if target.Enabled && !failing {
		if o.HeldDue != nil {
			return releaseFollows, nil
		}
		return nothingFollows, nil
	}
	f.release.forget(o.ID)
	switch {
	case o.Due != nil && !target.Enabled:
		return holdFollows, nil
	case o.HeldDue != nil && target.Enabled && f.probes(o, now):
		return probeFollows, nil
	case o.Due != nil:
		return slowHoldFollows, nil
	default:
		return nothingFollows, nil
	}
}

// change changes deliveries in turns, a transaction each, until none are left that must change now or the round has
// changed followRows.
func (f *follower) change(ctx context.Context) {
	for rows := 0; rows < followRows && ctx.Err() == nil; {
		t := f.work.next()
		if t == nil {
			return
		}
		n, more, err := f.changeOne(db.WithOwner(ctx, string(t.Environment)), t)
		if err != nil && ctx.Err() == nil {
			f.log.ErrorContext(ctx, "cannot change open deliveries after a change of their subscription",
				slog.String("subscription_id", t.ID), slog.String("error", err.Error()), obs.Outage("follower"))
		}
		if err != nil || !more {
			f.work.done(t)
		}
		rows += max(n, leastFollowed)
	}
}

// changeOne takes a turn of the subscription. It returns how many deliveries it has changed, and whether there is more
// to do.
func (f *follower) changeOne(ctx context.Context, t *followTask) (n int, more bool, err error) {
	now := f.clock.Now()
	what, err := f.whatFollows(ctx, &t.openSubscription, now)
	if err != nil {
		return 0, false, err
	}
	limit := f.store.moves.Limit()
	switch what {
	case slowHoldFollows:
		f.slow.add(t.openSubscription)
		return 0, false, nil
	case cancelFollows:
		n, err = f.changeSome(ctx, t.ID, limit, now, func(d Delivery) Delivery { return d.cancelled(now) },
			Pending, RetryWait, Held)
		return n, n == limit, err
	case holdFollows:
		n, err = f.holdSome(ctx, t, limit, now)
		return n, err == nil, err
	case probeFollows:
		return 1, false, f.probe(ctx, t.openSubscription, now)
	case releaseFollows:
		return f.releaseSome(ctx, t, limit, now)
	case nothingFollows:
	}
	return 0, false, nil
}

// holdSome holds up to limit deliveries of the subscription, and notes in t what there is afterwards.
func (f *follower) holdSome(ctx context.Context, t *followTask, limit int, now time.Time) (n int, err error) {
	n, err = f.changeSome(ctx, t.ID, limit, now, Delivery.held, Pending, RetryWait)
	if err != nil {
		return n, err
	}
	if n > 0 && (t.HeldDue == nil || t.Due.Before(*t.HeldDue)) {
		t.HeldDue = t.Due
	}
	if n < limit {
		t.Due = nil
	}
	return n, nil
}

// changeSome changes up to limit deliveries of the subscription in these states, and returns how many.
func (f *follower) changeSome(ctx context.Context, subscriptionID string, limit int, now time.Time,
	to func(Delivery) Delivery, states ...Status) (int, error) {
	n := 0
	err := f.store.db.Tx(ctx, func(tx *sql.Tx) error {
		list, err := f.store.ofSubscription(ctx, tx, subscriptionID, limit, states...)
		if err != nil {
			return err
		}
		n = len(list)
		moves := make([]move, n)
		for i, d := range list {
			moves[i] = move{from: d, to: to(d)}
		}
		return f.store.apply(ctx, tx, moves, clock.Millis(now))
	})
	if errors.Is(err, errStale) {
		return 0, nil // they have changed since; the next round looks again
	}
	return n, err
}
