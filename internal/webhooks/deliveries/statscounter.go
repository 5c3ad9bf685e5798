package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
)

// countInterval is how often the counts of attempts are stored. A crash loses the counts since then; the attempts
// themselves are on record.
const countInterval = time.Second

// counter counts recorded attempts in memory, because storing a count with each outcome would make outcomes a fifth
// more expensive.
type counter struct {
	mu      sync.Mutex
	pending tally
	runs    *failureRuns
	// storing is locked while pending moves to the database, and for reading by readers of both.
	storing sync.RWMutex
}

// add counts an attempt whose outcome is stored. It counts each attempt once.
func (c *counter) add(r *result) {
	if !r.attempted || r.counted {
		return
	}
	r.counted = true
	c.runs.add(&r.attempt, r.delivery.SubscriptionID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = tally{}
	}
	c.pending.addAttempt(r)
}

// takePending returns the counts and begins at zero.
func (c *counter) takePending() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.pending
	c.pending = nil
	return t
}

// restore adds counts that could not be stored.
func (c *counter) restore(t tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = tally{}
	}
	for k, n := range t {
		c.pending[k] += n
	}
}

// addPending adds a subscription's counts that are not stored yet to the buckets between two times.
func (c *counter) addPending(env id.Environment, subscriptionID string, from, to, length int64,
	into map[int64]histogram) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, n := range c.pending {
		if k.environment == env && k.subscriptionID == subscriptionID && k.startMillis >= from && k.startMillis < to {
			start := k.startMillis - k.startMillis%length
			if into[start] == nil {
				into[start] = histogram{}
			}
			into[start].add(k.measure, k.class, n)
		}
	}
}

// storeCounts stores the counts.
func (k *recorder) storeCounts(ctx context.Context) time.Duration {
	k.counted.storing.Lock()
	defer k.counted.storing.Unlock()
	counted := k.counted.takePending()
	for _, part := range counted.split(chunk) {
		err := k.db.Tx(ctx, func(tx *sql.Tx) error {
			_, err := k.db.ExecAll(ctx, tx, part.statement(statMinute))
			return err
		})
		if err == nil {
			continue
		}
		// Otherwise the part may be stored, and counting twice is no better than not counting.
		if !errors.Is(err, db.ErrCommitUnknown) {
			k.counted.restore(part)
		}
		if ctx.Err() == nil {
			k.log.ErrorContext(ctx, "cannot store the counts of delivery attempts", slog.String("error", err.Error()),
				obs.Outage("counts"))
		}
	}
	return countInterval
}
