package deliveries

import (
	"context"
	"log/slog"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/obs"
)

// The deliveries to a receiver that fails are held slowly. Claims pass over them as soon as the breaker is open, so
// nothing waits for that, and most outages are over before each delivery was written twice, to be held and released.
const (
	// slowRows is how many deliveries a transaction holds while a breaker has been open for less than slowFor, and
	// slowShare the part of the follower's time for that, one in so many. After that it is lookShare.
	slowRows  = 32
	slowFor   = time.Minute
	slowShare = 100
)

// holdSlowly holds some deliveries of the next subscription in turn whose receiver fails, unless it is too early.
func (f *follower) holdSlowly(ctx context.Context) {
	began := clock.MomentOf(f.clock)
	if f.slowTurns.left(began) > 0 {
		return
	}
	t := f.slow.next()
	if t == nil {
		return
	}
	share, err := f.holdTurn(db.WithOwner(ctx, string(t.Environment)), t)
	if err != nil && ctx.Err() == nil {
		f.log.ErrorContext(ctx, "cannot hold open deliveries to a receiver that fails",
			slog.String("subscription_id", t.ID), slog.String("error", err.Error()), obs.Outage("follower"))
	}
	end := clock.MomentOf(f.clock)
	f.slowTurns = pause{end, min(began.Elapsed(end)*time.Duration(share-1), longestTurnPause)}
	if err != nil {
		f.slowTurns.length = max(f.slowTurns.length, pollInterval)
	}
}

// holdTurn takes a turn of a subscription whose receiver fails, and ends its turns if nothing is left to hold or it
// must change in another way, which the next look finds. It returns the part of the time that the turn may take.
func (f *follower) holdTurn(ctx context.Context, t *followTask) (share int, err error) {
	now := f.clock.Now()
	what, err := f.whatFollows(ctx, &t.openSubscription, now)
	if err != nil || t.Due == nil || what != slowHoldFollows && what != probeFollows {
		f.slow.done(t)
		f.store.follow.changed(t.ID)
		return 1, err
	}
	share, limit := lookShare, f.store.moves.Limit()
	if opened := f.breakers.get(t.ID).opened; opened != nil && now.Sub(*opened) < slowFor {
		share, limit = slowShare, min(limit, slowRows)
	}
	n, err := f.holdSome(ctx, t, limit, now)
	if err != nil || n < limit {
		f.slow.done(t)
	}
	return share, err
}
