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
)

// countInterval is how often the tries that were counted are stored. A crash loses what was counted since; the tries
// themselves are on record.
const countInterval = time.Second

// counter counts recorded tries in memory: storing a count with each outcome would cost a fifth of what the outcome
// does.
type counter struct {
	mu      sync.Mutex
	pending tally
	// storing is held while pending moves to the store, and for reading by who reads both.
	storing sync.RWMutex
}

// try counts a try whose outcome is stored, once however often that is told.
func (c *counter) try(r *result) {
	if !r.tried || r.counted {
		return
	}
	r.counted = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = tally{}
	}
	c.pending.try(r)
}

// take returns what was counted and forgets it.
func (c *counter) take() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.pending
	c.pending = nil
	return t
}

// giveBack counts again what could not be stored.
func (c *counter) giveBack(t tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = tally{}
	}
	for k, n := range t {
		c.pending[k] += n
	}
}

// of adds what was counted of a subscription, but not stored, to the buckets between two times.
func (c *counter) of(env id.Environment, subscriptionID string, from, to, length int64, into map[int64]histogram) {
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

// storeCounts stores what was counted.
func (s *Service) storeCounts(ctx context.Context) time.Duration {
	s.counted.storing.Lock()
	defer s.counted.storing.Unlock()
	counted := s.counted.take()
	for _, part := range counted.split(chunk) {
		err := s.db.Tx(ctx, func(tx *sql.Tx) error {
			_, err := s.db.ExecAll(ctx, tx, part.statement(statMinute))
			return err
		})
		if err == nil {
			continue
		}
		// otherwise it may be stored, and counting twice is no better than not at all
		if !errors.Is(err, db.ErrCommitUnknown) {
			s.counted.giveBack(part)
		}
		if ctx.Err() == nil {
			s.log.ErrorContext(ctx, "counts of delivery attempts could not be stored", slog.String("error", err.Error()))
		}
	}
	return countInterval
}
