package idempotency

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// storeTimeout bounds what is done for a run after its request, whose client may have left.
const storeTimeout = 10 * time.Second

// Run is one request that is being carried out under a key. One of Finish and Release ends it.
type Run struct {
	store       *Store
	id          string
	env         id.Environment
	claim       string
	fingerprint []byte
	over        atomic.Bool
}

// Context returns the context under which the request is carried out. A transaction of db.Tx commits under it only
// while the run holds its key, and notes in the same commit that the request took effect: whatever happens to the
// process afterwards, a repeat knows, and whoever is taken for dead too early can no longer commit.
func (r *Run) Context(ctx context.Context) context.Context {
	return db.WithCheck(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if r.over.Load() {
			return nil // what goes on after the answer is no part of the request
		}
		held, err := r.store.markEffected(ctx, tx, r)
		if err == nil && !held {
			err = errLost
		}
		return err
	})
}

// Finish stores the answer. Of one whose body exceeds MaxAnswerBytes it only stores that there was one.
func (r *Run) Finish(ctx context.Context, a Answer) error {
	ctx, cancel := r.end(ctx)
	defer cancel()
	if len(a.Body) > MaxAnswerBytes {
		return r.store.finish(ctx, r, nil)
	}
	return r.store.finish(ctx, r, &a)
}

// Release frees the key of a request that was refused, and so has done nothing.
func (r *Run) Release(ctx context.Context) error {
	ctx, cancel := r.end(ctx)
	defer cancel()
	return r.store.release(ctx, r)
}

// Fail frees the key of a request that failed before it took effect. One that had, or may have, keeps its key, and a
// repeat is told that its outcome is not known.
func (r *Run) Fail(ctx context.Context) error {
	ctx, cancel := r.end(ctx)
	defer cancel()
	return r.store.fail(ctx, r)
}

func (r *Run) end(ctx context.Context) (context.Context, context.CancelFunc) {
	r.over.Store(true)
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}
