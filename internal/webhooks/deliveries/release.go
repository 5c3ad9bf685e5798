package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
)

// errReleased is the error of a release that another process has made.
var errReleased = errors.New("another process releases deliveries of the subscription")

// releaseSome releases up to limit held deliveries of the subscription in one transaction, if the ramp allows it. It
// returns how many, and whether more may be released now.
func (f *follower) releaseSome(ctx context.Context, t *followTask, limit int,
	now time.Time) (released int, more bool, err error) {
	rate := 0
	if t.releasing == 0 {
		if rate = f.release.allowed(t.ID, now); rate == 0 {
			return 0, false, nil
		}
	}
	allowed := t.releasing
	err = f.store.db.Tx(ctx, func(tx *sql.Tx) error {
		released = 0
		if rate > 0 {
			since, err := f.store.breakers.takeRelease(ctx, tx, t.Environment, t.ID, now)
			if err != nil {
				return err
			}
			since = min(since, f.release.lasted(t.ID, now)+followInterval)
			allowed = int(int64(rate) * since.Milliseconds() / followInterval.Milliseconds())
		}
		list, err := f.store.ofSubscription(ctx, tx, t.ID, min(limit, allowed), Held)
		if err != nil {
			return err
		}
		released = len(list)
		moves := make([]move, released)
		for i, d := range list {
			moves[i] = move{from: d, to: d.returned(now)}
		}
		return f.store.apply(ctx, tx, moves, clock.Millis(now))
	})
	switch {
	case errors.Is(err, errReleased) || errors.Is(err, errStale): // the next round looks again
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	if released > 0 {
		f.claimer.note(t.Environment, now, t.ID)
	}
	if released < min(limit, allowed) {
		f.release.forget(t.ID)
		return released, false, nil
	}
	t.releasing = allowed - released
	return released, t.releasing > 0, nil
}

// Ramp of a release: a receiver that comes back does not get all held deliveries at the same time.
const (
	releaseStart  = 50
	releaseMax    = 10 * chunk
	releaseDouble = 10 * time.Second
	// releaseLate is how much of a delay is made up for: a release counts the time since the last one, up to this.
	releaseLate = 10 * time.Second
)

// releases records which subscriptions are being released, since when, and when last.
type releases struct {
	mu    sync.Mutex
	since map[string]time.Time
	last  map[string]time.Time
}

// allowed returns how many deliveries of the subscription may be released now: releaseStart per second at first,
// doubled every releaseDouble up to releaseMax.
func (r *releases) allowed(subscriptionID string, now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since == nil {
		r.since, r.last = map[string]time.Time{}, map[string]time.Time{}
	}
	if _, ok := r.since[subscriptionID]; !ok {
		r.since[subscriptionID] = now
	}
	// A last release that is longer ahead was before the clock was set back.
	if last, ok := r.last[subscriptionID]; ok && now.Sub(last).Abs() < followInterval {
		return 0
	}
	for sub, last := range r.last {
		if now.Sub(last) > time.Minute {
			delete(r.last, sub)
		}
	}
	r.last[subscriptionID] = now
	rate := releaseStart
	for t := now.Sub(r.since[subscriptionID]); t >= releaseDouble && rate < releaseMax; t -= releaseDouble {
		rate *= 2
	}
	return min(rate, releaseMax)
}

// lasted returns for how long the subscription has been released.
func (r *releases) lasted(subscriptionID string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.since[subscriptionID])
}

// forget ends a release.
func (r *releases) forget(subscriptionID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, subscriptionID)
	// last stays for one interval, so that a subscription switched off and on cannot outrun the ramp.
}
