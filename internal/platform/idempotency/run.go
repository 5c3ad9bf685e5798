package idempotency

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// storeTimeout limits the statements of a run after its request, whose client may be gone.
const storeTimeout = 10 * time.Second

// Run is a request that is being executed with a key. Finish, Release or Fail ends it.
type Run struct {
	store       *Store
	id          string
	env         id.Environment
	claim       string
	fingerprint []byte
	rights      *rights
	over        atomic.Bool
}

// Context returns the context in which the request is executed. In it a transaction of db.Tx commits only while the run
// holds its key, and the same commit records that the request took effect. So a retry learns of the effect if the
// process crashes, and a request that was considered abandoned too early cannot commit.
func (r *Run) Context(ctx context.Context) context.Context {
	return db.WithCheck(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if r.over.Load() {
			return nil // work after the response is not part of the request
		}
		held, err := r.store.markEffected(ctx, tx, r)
		if err == nil && !held {
			err = errLost
		}
		return err
	})
}

// Finish stores the response. If its body exceeds MaxResponseBytes, Finish only stores that there was a response.
func (r *Run) Finish(ctx context.Context, response Response) error {
	ctx, cancel := r.end(ctx)
	defer cancel()
	if len(response.Body) > MaxResponseBytes {
		return r.store.finish(ctx, r, nil)
	}
	return r.store.finish(ctx, r, &response)
}

// Release frees the key of a request that was rejected without taking effect.
func (r *Run) Release(ctx context.Context) error {
	ctx, cancel := r.end(ctx)
	defer cancel()
	return r.store.release(ctx, r)
}

// Fail frees the key of a failed request that did not take effect. A request that took effect keeps its key, and a
// retry gets idempotency_outcome_unknown.
func (r *Run) Fail(ctx context.Context) error {
	ctx, cancel := r.end(ctx)
	defer cancel()
	return r.store.fail(ctx, r)
}

func (r *Run) end(ctx context.Context) (context.Context, context.CancelFunc) {
	r.over.Store(true)
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}
