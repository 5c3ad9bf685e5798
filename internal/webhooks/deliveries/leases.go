package deliveries

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/obs"
)

const (
	// renewRetry is when leases are renewed again after the database could not be reached.
	renewRetry = time.Second
	// maxLeaseMargin is how much later than the end of an attempt its lease must end.
	maxLeaseMargin = 5 * time.Second
)

// leases keeps the leases of the deliveries in memory.
//
// A lease begins or is renewed by a statement with its end by the database's clock. The moment before the statement is
// kept in memory, so the lease does not end earlier than its length after that. No attempt starts that could last
// longer: the delivery waits until its lease is renewed. A renewal returns the leases that are still there; the
// deliveries of the others belong to other workers and are dropped.
type leases struct {
	store      *Store
	dispatcher *dispatcher
	claimer    *claimer
	clock      clock.Clock
	log        *slog.Logger
	metrics    *metrics
	length     time.Duration
	contact    contact
}

// permits reports whether an attempt that lasts for at most d may start: the job's lease must last longer than that.
func (l *leases) permits(j *job, d time.Duration) bool {
	now := clock.MomentOf(l.clock)
	l.dispatcher.mu.Lock()
	defer l.dispatcher.mu.Unlock()
	return !j.lost && j.leased.AtMost(now)+d+l.margin() <= l.length
}

// postpone lets a job wait until its lease is renewed, once the worker that has started it returns. It returns false if
// the lease was lost.
func (l *leases) postpone(j *job) bool {
	l.dispatcher.mu.Lock()
	defer l.dispatcher.mu.Unlock()
	j.lapsed = !j.lost
	return j.lapsed
}

func (l *leases) margin() time.Duration { return min(maxLeaseMargin, l.length/8) }

// keep renews the leases of the deliveries in memory, and recovers those that other processes have lost. It returns
// when to do so again.
func (l *leases) keep(ctx context.Context) time.Duration {
	interval := l.length / 4
	if l.claimer.isUncertain() {
		return min(renewRetry, interval)
	}
	now := clock.MomentOf(l.clock)
	err := l.store.db.Ping(ctx) // there may be nothing to renew
	if err == nil {
		err = l.renew(ctx, interval)
	}
	if err == nil && l.contact.has(now, interval) {
		err = l.recover(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			l.log.ErrorContext(ctx, "cannot renew or recover leases", slog.String("error", err.Error()), obs.Outage("leases"))
		}
		l.contact = contact{}
		return min(renewRetry, interval)
	}
	return interval
}

// renew renews the leases in memory that began that long ago, and drops the deliveries whose leases were lost.
func (l *leases) renew(ctx context.Context, age time.Duration) error {
	list, lapsed := l.dispatcher.toRenew(age)
	if lapsed > 0 {
		l.log.WarnContext(ctx, "deliveries wait because their leases may have ended; the leases are renewed first",
			slog.Int("count", lapsed))
	}
	dropped, interrupted := 0, 0
	defer func() {
		if dropped+interrupted > 0 {
			l.log.WarnContext(ctx, "leases were lost to other processes, which send the deliveries",
				slog.Int("waiting", dropped), slog.Int("interrupted", interrupted))
			l.metrics.leasesLost.WithLabelValues("waiting").Add(float64(dropped))
			l.metrics.leasesLost.WithLabelValues("sending").Add(float64(interrupted))
		}
	}()
	for len(list) > 0 {
		n := min(len(list), chunk)
		from := clock.MomentOf(l.clock)
		kept, err := l.store.renew(ctx, list[:n], l.clock.Now().Add(l.length))
		if err != nil {
			return err
		}
		var renewed, lost []Delivery
		for _, d := range list[:n] {
			if kept[d.Key] {
				renewed = append(renewed, d)
			} else {
				lost = append(lost, d)
			}
		}
		l.dispatcher.renewed(renewed, from)
		gone, count := l.dispatcher.dropLost(lost)
		for i := range gone {
			l.claimer.freed(gone[i].SubscriptionID)
		}
		dropped, interrupted = dropped+len(gone), interrupted+count
		list = list[n:]
	}
	return nil
}

// recover releases deliveries whose leases other processes have lost.
func (l *leases) recover(ctx context.Context) error {
	for {
		n, more, err := l.store.recover(ctx, l.clock.Now(), "", l.dispatcher.holds)
		if err != nil {
			return err
		}
		if n > 0 {
			l.log.WarnContext(ctx, "recovered deliveries whose lease had expired", slog.Int("count", n))
			l.store.follow.anyChanged() // finds what waits now
		}
		if !more || n == 0 {
			return nil
		}
	}
}

// contact is since when the database has been there. Leases that ended while it was not, or while this process stood
// still, may belong to workers that could not renew them either: they have some time to store their outcomes and to
// renew before others take their deliveries over.
type contact struct{ since, last clock.Moment }

// has records that the database was there, and reports whether it has been for that long.
func (c *contact) has(now clock.Moment, length time.Duration) bool {
	if c.last.IsZero() || c.last.AtMost(now) > 2*length {
		c.since = now
	}
	c.last = now
	return c.since.Elapsed(now) >= length
}

// shiftTimes moves the due times and leases of deliveries and of fan-outs, and the times for which breakers wait, after
// the machine's clock was set by so much.
func (s *Service) shiftTimes(ctx context.Context, tx *sql.Tx, by time.Duration) error {
	if _, err := tx.ExecContext(ctx, "UPDATE deliveries AS d SET due_ms = due_ms + $1 WHERE "+whereDue,
		by.Milliseconds()); err != nil {
		return fmt.Errorf("shift the due times of deliveries: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE deliveries AS d SET due_ms = due_ms + $1 WHERE "+whereOpen+
		" AND d.status = 'held'", by.Milliseconds()); err != nil {
		return fmt.Errorf("shift the due times of held deliveries: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE delivery_breakers SET probe_ms = probe_ms + $1,
		release_ms = release_ms + $1, failing_ms = failing_ms + $1,
		since_ms = CASE WHEN since_ms > 0 THEN since_ms + $1 ELSE since_ms END`, by.Milliseconds()); err != nil {
		return fmt.Errorf("shift the times of breakers: %w", err)
	}
	if err := db.Bump(ctx, tx, breakersChanged, ""); err != nil {
		return err
	}
	return s.fanouts.queue.ShiftTimes(ctx, tx, by)
}
