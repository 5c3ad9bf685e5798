package jobs

import (
	"context"
	"database/sql"

	"sallyport/internal/platform/clock"
)

// The methods below are the steps that a started queue takes by itself: for tests, which drive a queue by hand, and for
// commands that need no server.

// RunDue does every job that is due, and returns when all have ended. When ctx ends, so do the contexts of the jobs.
func (q *Queue) RunDue(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		for _, j := range q.holding() {
			j.cancel(errStopped)
		}
	})()
	for ctx.Err() == nil {
		list, _, err := q.claim(ctx)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, j := range list {
			<-j.ended
		}
	}
	return nil
}

// Claim claims as many due jobs as there are places, starts them, and returns how many there were.
func (q *Queue) Claim(ctx context.Context) (int, error) {
	list, _, err := q.claim(ctx)
	return len(list), err
}

// renewChunk is how many leases one statement renews.
const renewChunk = 64

// Renew extends the leases of the running jobs, and ends the context of those whose lease is lost.
func (q *Queue) Renew(ctx context.Context) error {
	list := q.holding()
	if clock.IsUncertain(q.cfg.Clock) {
		q.dropExpiring(list)
		return nil
	}
	var failed error
	for len(list) > 0 {
		n := min(len(list), renewChunk)
		if err := q.renew(ctx, list[:n]); err != nil {
			failed = err
		}
		list = list[n:]
	}
	return failed
}

// Recover ends the leases of earlier processes of this node, which are known to be gone.
func (q *Queue) Recover(ctx context.Context) error {
	if q.cfg.Table.Claim == "" {
		return nil
	}
	return q.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		return exec(ctx, tx, q.cfg.Table.recover(q.claims.NodePrefix(), q.cfg.Clock.Now()), "recover jobs")
	})
}
