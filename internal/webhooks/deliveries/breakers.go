package deliveries

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/obs"
	"sallyport/internal/webhooks/subscriptions"
)

// breakers knows the breakers of all subscriptions and decides when they open and close. The database has their state;
// this is what the process knows of it, a second late at most of what others change.
//
// Whether most attempts fail, a process counts in memory, of the subscriptions that fail at all. Only where its own
// count says so it asks for the attempts of all processes, which the statistics have: if most of all attempts fail,
// then most of those of at least one process do. So a subscription without failures costs no statement, and one
// receiver that one node alone cannot reach does not open the breaker.
type breakers struct {
	store   *Store
	subs    Subscriptions
	clock   clock.Clock
	log     *slog.Logger
	metrics *breakerMetrics
	wake    jobs.Wake
	// storeCounts stores the counts of attempts that are in memory.
	storeCounts func(ctx context.Context) time.Duration

	// nextForget is when to look next for breakers of deleted subscriptions. Only run uses it.
	nextForget time.Time

	refreshing sync.Mutex
	// seen is the version of the collection at the last refresh; negative before the first.
	seen int64

	mu sync.RWMutex
	// known holds the breakers that are open, and others that have changed since the process began.
	known map[string]breaker
	// recent holds the subscriptions with failed attempts, judged those to judge, and recovered those whose probe
	// succeeded.
	recent    map[string]*failing
	judged    map[string]id.Environment
	recovered map[string]struct{}
}

// failing is what is known in memory of a subscription with failed attempts.
type failing struct {
	recentAttempts
	// last is when an attempt failed last, and successes counts the attempts in a row that have succeeded since.
	last      time.Time
	successes int
	// nextLook is when to look next whether the subscription has failed for too long.
	nextLook time.Time
}

const (
	// judgeInterval is how often subscriptions are judged of which this process alone has not enough attempts.
	judgeInterval = time.Second
	// failingInterval is how often to look whether a subscription has failed for too long.
	failingInterval = 10 * time.Minute
	// forgetInterval is how often breakers of deleted subscriptions are looked for.
	forgetInterval = time.Minute
)

func newBreakers(s *Service) *breakers {
	return &breakers{store: s.store, subs: s.subs, clock: s.clock, log: s.log, metrics: &s.metrics.breakers,
		wake: jobs.NewWake(), seen: -1, known: map[string]breaker{}, recent: map[string]*failing{},
		judged: map[string]id.Environment{}, recovered: map[string]struct{}{}}
}

// isOpen reports whether the subscription's deliveries are held because its receiver fails.
func (b *breakers) isOpen(subscriptionID string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.known[subscriptionID].opened != nil
}

// get returns what is known of a breaker.
func (b *breakers) get(subscriptionID string) breaker {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.known[subscriptionID]
}

// holding returns the matched subscriptions with those as disabled whose breaker is open.
func (b *breakers) holding(matched []subscriptions.Matched) []subscriptions.Matched {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if len(b.known) == 0 {
		return matched
	}
	out := matched
	for i := range matched {
		if !matched[i].Enabled || b.known[matched[i].ID].opened == nil {
			continue
		}
		if &out[0] == &matched[0] {
			out = append([]subscriptions.Matched(nil), matched...)
		}
		out[i].Enabled = false
	}
	return out
}

// observe counts attempts whose outcome is stored.
func (b *breakers) observe(batch []*result) {
	now := b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range batch {
		if r.sent && r.attempt.Outcome != AttemptSuperseded {
			b.count(r, now)
		}
	}
}

func (b *breakers) count(r *result, now time.Time) {
	sub, failed := r.delivery.SubscriptionID, r.attempt.Outcome == AttemptFailed
	known := b.known[sub]
	if !failed && r.probe && known.opened != nil {
		b.recovered[sub] = struct{}{}
		b.wake.Signal()
		return
	}
	f := b.recent[sub]
	if f == nil && !failed || r.attempt.StartedAt.Before(known.since) {
		return
	}
	if f == nil {
		f = &failing{nextLook: now}
		b.recent[sub] = f
	}
	f.add(now, failed)
	if !failed {
		f.successes++
		return
	}
	f.last, f.successes = now, 0
	b.judged[sub] = r.delivery.Environment
	if known.opened == nil && f.sum(now).opens() {
		b.wake.Signal()
	}
}

// run judges the subscriptions with failed attempts and closes the breakers of those that have recovered.
func (b *breakers) run(ctx context.Context) time.Duration {
	b.closeRecovered(ctx)
	b.judge(ctx)
	b.forgetGone(ctx)
	b.report()
	return judgeInterval
}

// forgetGone removes the breakers that opened while their subscriptions were being deleted.
func (b *breakers) forgetGone(ctx context.Context) {
	now := b.clock.Now()
	if now.Before(b.nextForget) {
		return
	}
	b.nextForget = now.Add(forgetInterval)
	b.mu.RLock()
	var open []breaker
	for _, known := range b.known {
		if known.opened != nil {
			open = append(open, known)
		}
	}
	b.mu.RUnlock()
	for _, known := range open {
		target, err := b.subs.Target(ctx, known.environment, known.subscriptionID)
		if gone := apperr.Is(err, apperr.CodeNotFound) || err == nil && target.Deleted; !gone {
			continue
		}
		if err := b.store.db.Tx(ctx, func(tx *sql.Tx) error {
			return b.store.breakers.forget(ctx, tx, known.subscriptionID)
		}); err != nil {
			b.log.WarnContext(ctx, "cannot remove the breaker of a deleted subscription",
				slog.String("subscription_id", known.subscriptionID), slog.String("error", err.Error()), obs.Outage("breaker"))
		}
		b.refreshNow(ctx, known.subscriptionID)
	}
}

func (b *breakers) closeRecovered(ctx context.Context) {
	b.mu.Lock()
	recovered := b.recovered
	b.recovered = map[string]struct{}{}
	b.mu.Unlock()
	for sub := range recovered {
		known := b.get(sub)
		if known.opened == nil {
			continue
		}
		now := clock.FromMillis(clock.Millis(b.clock.Now()))
		closed, err := b.store.breakers.close(ctx, sub, *known.opened, now)
		if err != nil {
			b.log.ErrorContext(ctx, "cannot close the breaker of a subscription", slog.String("subscription_id", sub),
				slog.String("error", err.Error()), obs.Outage("breaker"))
			b.mu.Lock()
			b.recovered[sub] = struct{}{}
			b.mu.Unlock()
			continue
		}
		if closed {
			b.metrics.closed.Inc()
			b.log.InfoContext(ctx, "the receiver of a subscription responds again; its deliveries are released",
				slog.String("subscription_id", sub), slog.String("environment_id", string(known.environment)))
		}
		b.refreshNow(ctx, sub)
		b.store.follow.changed(sub)
	}
}

// judge opens the breakers of subscriptions whose receivers fail, and disables those that have failed for too long.
func (b *breakers) judge(ctx context.Context) {
	now := b.clock.Now()
	b.mu.Lock()
	judged := b.judged
	b.judged = map[string]id.Environment{}
	own := map[string]attemptCounts{}
	var late []string
	for sub := range judged {
		f := b.recent[sub]
		if f == nil {
			continue
		}
		if t := f.sum(now); b.known[sub].opened == nil && t.mostFail() && f.successes < recoveredAfter {
			own[sub] = t
		}
		if !f.nextLook.After(now) {
			late = append(late, sub)
			f.nextLook = now.Add(failingInterval)
		}
	}
	for sub, f := range b.recent {
		if now.Sub(f.last) > 2*breakerWindow {
			delete(b.recent, sub)
		}
	}
	b.mu.Unlock()
	if len(own) == 0 && len(late) == 0 {
		return
	}
	b.storeCounts(ctx)
	for sub, t := range own {
		if err := b.judgeOne(ctx, sub, judged[sub], t, now); err != nil && ctx.Err() == nil {
			b.log.ErrorContext(ctx, "cannot judge whether a receiver fails", slog.String("subscription_id", sub),
				slog.String("error", err.Error()), obs.Outage("breaker"))
		}
	}
	for _, sub := range late {
		if err := b.disableIfFailing(ctx, sub, judged[sub], now); err != nil && ctx.Err() == nil {
			b.log.ErrorContext(ctx, "cannot find out for how long a receiver has failed",
				slog.String("subscription_id", sub), slog.String("error", err.Error()), obs.Outage("breaker"))
		}
	}
}

// judgeOne opens the breaker of the subscription if most attempts of all processes fail. own are those of this process.
// The statistics can miss some: the minute in which counting began again is not among them.
func (b *breakers) judgeOne(ctx context.Context, sub string, env id.Environment, own attemptCounts,
	now time.Time) error {
	known := b.get(sub)
	all, err := b.store.breakers.attemptsSince(ctx, sub, countedFrom(now, known.since))
	if err != nil {
		return err
	}
	if all.all < own.all {
		all = own
	}
	if !all.opens() {
		return nil
	}
	target, err := b.subs.Target(ctx, env, sub)
	switch {
	case apperr.Is(err, apperr.CodeNotFound) || err == nil && (target.Deleted || !target.Enabled):
		return nil
	case err != nil:
		return err
	}
	failing, err := b.failingSince(ctx, sub, known, now)
	if err != nil {
		return err
	}
	opened := clock.FromMillis(clock.Millis(now))
	next := breaker{subscriptionID: sub, environment: env, opened: &opened, probe: opened.Add(probeInterval),
		failing: failing, since: known.since}
	if next.since.IsZero() {
		next.since = clock.FromMillis(0)
	}
	did, err := b.store.breakers.open(ctx, next)
	if err != nil {
		return err
	}
	if did {
		b.metrics.opened.Inc()
		b.log.WarnContext(ctx, "the receiver of a subscription fails; its deliveries are held and one at a time probes it",
			slog.String("subscription_id", sub), slog.String("environment_id", string(env)),
			slog.Int64("attempts", all.all), slog.Int64("failed", all.failed))
	}
	b.refreshNow(ctx, sub)
	b.store.follow.changed(sub)
	return nil
}

// failingSince returns since when every attempt has failed, as far as is known; now if none has.
func (b *breakers) failingSince(ctx context.Context, sub string, known breaker, now time.Time) (time.Time, error) {
	from := now.Add(-failingFor - 2*time.Hour)
	if known.since.After(from) {
		from = known.since
	}
	first, err := b.store.breakers.failingSince(ctx, sub, from)
	if err != nil || first == nil {
		return now, err
	}
	return *first, nil
}

// disableIfFailing disables the subscription if every attempt has failed for failingFor, at least one on each day of
// it.
func (b *breakers) disableIfFailing(ctx context.Context, sub string, env id.Environment, now time.Time) error {
	known := b.get(sub)
	since := known.failing
	if known.opened != nil {
		succeeded, err := b.store.breakers.hasSucceeded(ctx, sub, since)
		if err != nil {
			return err
		}
		if succeeded { // an attempt that was in progress when the breaker opened
			err := b.store.breakers.stillFailing(ctx, sub, now)
			b.refreshNow(ctx, sub)
			return err
		}
	} else {
		var err error
		if since, err = b.failingSince(ctx, sub, known, now); err != nil {
			return err
		}
	}
	if now.Sub(since) < failingFor {
		return nil
	}
	// Two failures with nothing between them say little, nor does a clock that has jumped ahead.
	if days, err := b.store.breakers.failedDays(ctx, sub, now); err != nil || days < failingDays {
		return err
	}
	if err := b.subs.Disable(ctx, env, sub, disabledFailing); err != nil && !apperr.Is(err, apperr.CodeNotFound) {
		return err
	}
	b.metrics.disabled.Inc()
	b.log.WarnContext(ctx, "disabled a subscription whose receiver has failed for five days",
		slog.String("subscription_id", sub), slog.String("environment_id", string(env)))
	return nil
}

// refresh learns what other processes have changed. If that is not known, it reads all breakers that matter.
func (b *breakers) refresh(ctx context.Context) error {
	b.refreshing.Lock()
	defer b.refreshing.Unlock()
	changes, err := b.store.db.Changes(ctx, breakersChanged, b.seen)
	if err != nil {
		return err
	}
	if changes.Known && len(changes.Keys) == 0 {
		return nil
	}
	var list []breaker
	if changes.Known {
		list, err = b.store.breakers.of(ctx, changes.Keys)
	} else {
		list, err = b.store.breakers.all(ctx, b.clock.Now().Add(-failingFor))
	}
	if err != nil {
		return err
	}
	b.learn(list, changes.Keys...)
	b.seen = changes.Version
	if changes.Known {
		b.store.follow.changed(changes.Keys...)
	} else {
		b.store.follow.anyChanged()
	}
	return nil
}

// refreshNow reads the breaker of one subscription again. If that fails, refresh learns of it later.
func (b *breakers) refreshNow(ctx context.Context, subscriptionID string) {
	b.refreshing.Lock()
	defer b.refreshing.Unlock()
	list, err := b.store.breakers.of(ctx, []string{subscriptionID})
	if err != nil {
		b.log.WarnContext(ctx, "cannot read a breaker", slog.String("subscription_id", subscriptionID),
			slog.String("error", err.Error()), obs.Outage("breaker"))
		return
	}
	b.learn(list, subscriptionID)
}

// learn takes over the breakers as they were read: those named by keys, or all.
func (b *breakers) learn(list []breaker, keys ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(keys) == 0 {
		for sub := range b.known {
			keys = append(keys, sub)
		}
	}
	before := make(map[string]breaker, len(keys))
	for _, sub := range keys {
		before[sub] = b.known[sub]
		delete(b.known, sub)
	}
	for _, next := range list {
		if next.since.After(before[next.subscriptionID].since) {
			// Attempts before that do not count. Those from now on do, also before the first that fails, because the
			// statistics do not decide until the next minute.
			b.recent[next.subscriptionID] = &failing{last: b.clock.Now()}
		}
		b.known[next.subscriptionID] = next
	}
}

// report sets the gauge.
func (b *breakers) report() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	open := 0
	for _, known := range b.known {
		if known.opened != nil {
			open++
		}
	}
	b.metrics.open.Set(float64(open))
}
