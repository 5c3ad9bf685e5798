package jobs

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

// uncertainWait is how long the queue waits while its clock is uncertain, which lasts a second if the database
// responds.
const uncertainWait = time.Second

// claimDue claims until nothing is due or no place is free, and returns when to look again. While the clock is
// uncertain it claims nothing: the time of the database may be later than the clock's, so that a lease would end too
// early.
func (q *Queue) claimDue(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		if clock.IsUncertain(q.cfg.Clock) {
			return min(uncertainWait, q.cfg.Poll)
		}
		list, wait, err := q.claim(ctx)
		if err != nil {
			q.cfg.Logger.ErrorContext(ctx, "cannot claim due jobs", slog.String("error", err.Error()), obs.Outage("jobs"))
			return q.cfg.Poll
		}
		if len(list) == 0 {
			return wait
		}
	}
	return q.cfg.Poll
}

// claimTimeout bounds a claim. It is longer than the limit of a transaction.
const claimTimeout = 15 * time.Second

// claim claims due jobs for the free places, starts them and returns them. Where there are none, wait is when to look
// again. While the clock is uncertain it claims nothing: the database's time may be later than the clock's, so that the
// leases would end too early.
func (q *Queue) claim(ctx context.Context) (list []*Job, wait time.Duration, err error) {
	if clock.IsUncertain(q.cfg.Clock) {
		return nil, min(uncertainWait, q.cfg.Poll), nil
	}
	// A claim that has begun is completed even when the process is stopping: if it is interrupted during its commit, it
	// can leave leases behind that no process knows of. A database that hangs must not keep the process from stopping.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	now := q.cfg.Clock.Now()
	if err := q.doubts.Resolve(func(claimID string) error { return q.disown(whole, claimID) }); err != nil {
		return nil, 0, err
	}
	free, wait := q.places(now)
	if wait > 0 {
		return nil, wait, nil
	}
	turns, wait, err := q.turns(whole, now, max(free, 1))
	if err != nil || len(turns) == 0 {
		return nil, wait, err
	}
	if free == 0 {
		q.askToYield(now)
		return nil, q.cfg.Poll, nil
	}
	from := clock.MomentOf(q.cfg.Clock)
	claimID, until := q.claims.Next(), q.cfg.Clock.Now().Add(q.cfg.Lease)
	err = q.cfg.DB.Tx(whole, func(tx *sql.Tx) error {
		list = list[:0]
		for _, turn := range turns {
			query := q.cfg.Table.claim(claimID, turn.key, now, until, turn.places, q.cfg.DB.SkipLocked())
			rows, err := tx.QueryContext(whole, query.String(), query.args...)
			if err != nil {
				return err
			}
			if err := db.Each(rows, func(r *sql.Rows) error {
				j, err := scanJob(r)
				list = append(list, j)
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		q.doubts.Add(claimID, err)
		return nil, 0, fmt.Errorf("claim jobs: %w", err)
	}
	q.serve(turns[len(turns)-1].key)
	for _, j := range list {
		j.q, j.claim, j.leased, j.since = q, claimID, from, now
		q.start(j) //nolint:contextcheck // a handler outlives the claim
	}
	return list, q.cfg.Poll, nil
}

// disown releases the jobs leased under a claim that no process knows of. A table without claims leaves them to the end
// of their leases.
func (q *Queue) disown(ctx context.Context, claimID string) error {
	if q.cfg.Table.Claim == "" {
		return nil
	}
	return q.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		return exec(ctx, tx, q.cfg.Table.disown(claimID, q.cfg.Clock.Now()), "release jobs of an uncertain claim")
	})
}

// serve records the key that was served last.
func (q *Queue) serve(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.after = &key
}

// places returns how many jobs may be claimed, and for how long none may.
func (q *Queue) places(now time.Time) (free int, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	free = q.cfg.Concurrency - len(q.held)
	switch {
	case q.draining:
		return 0, q.cfg.Poll
	case q.rest.After(now):
		return 0, q.rest.Sub(now)
	case free <= 0 && q.cfg.Turn == 0:
		return 0, q.cfg.Poll
	default:
		return max(free, 0), 0
	}
}

// start runs a claimed job on a goroutine of its own.
func (q *Queue) start(j *Job) {
	ctx, cancel := context.WithCancelCause(db.WithOwner(q.handling.ctx, j.Key))
	j.cancel = cancel
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held[j] = struct{}{}
	q.running[j.Key]++
	if q.draining {
		j.askToYield()
		cancel(errStopped)
	}
	go func() {
		defer close(j.ended)
		defer cancel(nil)
		e := q.run(ctx, j)
		q.leave(j)
		if q.cfg.Observe != nil {
			q.cfg.Observe(e)
		}
	}()
}

// leave frees the place of a job.
func (q *Queue) leave(j *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.held, j)
	if q.running[j.Key]--; q.running[j.Key] == 0 {
		delete(q.running, j.Key)
	}
	q.wake.Signal()
}

// askToYield asks the job that has held its place for the longest time to yield it, if it has had its turn.
func (q *Queue) askToYield(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var oldest *Job
	for j := range q.held {
		if !j.yields && now.Sub(j.since) >= q.cfg.Turn && (oldest == nil || j.since.Before(oldest.since)) {
			oldest = j
		}
	}
	if oldest != nil {
		oldest.askToYield()
	}
}

// A lease lasts for four heartbeats, each of which may take half of the time to the next. A handler's context ends when
// the next heartbeat could come too late, which leaves the handler a quarter of the lease to return.
const (
	heartbeatsPerLease = 4
	heartbeatTimeout   = 2 * heartbeatsPerLease
)

// keepLeases renews the leases of the running jobs.
func (q *Queue) keepLeases(ctx context.Context) time.Duration {
	if err := q.Renew(ctx); err != nil && ctx.Err() == nil {
		q.cfg.Logger.ErrorContext(ctx, "cannot renew leases", slog.String("error", err.Error()), obs.Outage("jobs"))
	}
	if clock.IsUncertain(q.cfg.Clock) {
		return min(uncertainWait, q.cfg.Lease/heartbeatsPerLease)
	}
	return q.cfg.Lease / heartbeatsPerLease
}

// renew extends the leases of some jobs.
func (q *Queue) renew(ctx context.Context, list []*Job) error {
	// A database that hangs must not keep the loop from ending the contexts of handlers whose lease expires.
	bounded, cancel := context.WithTimeout(ctx, q.cfg.Lease/heartbeatTimeout)
	defer cancel()
	from, until := clock.MomentOf(q.cfg.Clock), q.cfg.Clock.Now().Add(q.cfg.Lease)
	kept := map[string]bool{}
	err := q.cfg.DB.Tx(bounded, func(tx *sql.Tx) error {
		clear(kept)
		query := q.cfg.Table.renew(list, until)
		rows, err := tx.QueryContext(bounded, query.String(), query.args...)
		if err != nil {
			return err
		}
		return db.Each(rows, func(r *sql.Rows) error {
			var jobID, token string
			err := r.Scan(&jobID, &token)
			kept[jobID+" "+token] = true
			return err
		})
	})
	if err != nil {
		q.dropExpiring(list)
		return fmt.Errorf("renew leases: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range list {
		if kept[fmt.Sprint(j.ID, " ", q.cfg.Table.token(j))] {
			j.leased = from
		} else {
			j.cancel(ErrLost)
		}
	}
	return nil
}

// dropExpiring ends the contexts of handlers whose leases could end before they are renewed.
func (q *Queue) dropExpiring(list []*Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range list {
		if j.leaseLeft() < q.cfg.Lease/heartbeatsPerLease+q.cfg.Lease/heartbeatTimeout {
			j.cancel(ErrLost)
		}
	}
}
