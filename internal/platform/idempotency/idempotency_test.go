package idempotency_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/idempotency"
	"sallyport/internal/platform/secretbox"
)

// A request that is sent again gets the first response, on every process, for a day and no longer.
func TestResponseIsReturnedAgain(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		run := w.begin(request())
		require.NoError(t, w.create(run.Context(w.t.Context())))
		require.NoError(w.t, run.Finish(w.t.Context(), created()))
		w.clk.Advance(idempotency.Lifetime - 1)
		for _, s := range []*idempotency.Store{w.store, w.other} {
			again, response, err := s.Begin(w.t.Context(), request())
			require.NoError(w.t, err)
			require.Nil(w.t, again)
			require.Equal(w.t, created(), *response)
		}
		w.clk.Advance(1)
		require.NoError(w.t, w.begin(request()).Release(w.t.Context()))
	})
}

// A key belongs to one principal in one environment, and to one method and path: no one gets another's response.
func TestKeysDoNotMeet(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		require.NoError(w.t, w.begin(request()).Finish(w.t.Context(), created()))
		for _, change := range []func(r *idempotency.Request){
			func(r *idempotency.Request) { r.Principal.Environment = "env_2" },
			func(r *idempotency.Request) { r.Principal.ID = "key_2" },
			func(r *idempotency.Request) { r.Principal.Kind = access.KindUser },
			func(r *idempotency.Request) { r.Method = "PUT" },
			func(r *idempotency.Request) { r.Path = "/api/v1/things/1" },
			func(r *idempotency.Request) { r.Key = "key-2" },
			func(r *idempotency.Request) { r.Path, r.Key = r.Path+"k", "ey-1" }, // the parts do not run together
		} {
			r := request()
			change(&r)
			require.NoError(w.t, w.begin(r).Release(w.t.Context()))
		}
	})
}

// A key that comes with another request is refused, while the first is in progress and afterwards.
func TestAnotherRequestIsAMismatch(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		body, query := request(), request()
		body.Body, query.Query = []byte(`{"n":2}`), "a=c"
		run := w.begin(request())
		for _, r := range []idempotency.Request{body, query} {
			w.refused(w.other, r, apperr.CodeIdempotencyMismatch)
		}
		w.refused(w.other, request(), apperr.CodeIdempotencyInProgress)
		require.NoError(w.t, run.Finish(w.t.Context(), created()))
		for _, r := range []idempotency.Request{body, query} {
			w.refused(w.other, r, apperr.CodeIdempotencyMismatch)
		}
	})
}

// A refusal did nothing: its key is free immediately, also for a corrected request.
func TestRefusalFreesTheKey(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		require.NoError(w.t, w.begin(request()).Release(w.t.Context()))
		require.NoError(w.t, w.begin(request()).Fail(w.t.Context()))
		mended := request()
		mended.Body = []byte(`{}`)
		require.NoError(w.t, w.begin(mended).Release(w.t.Context()))
		require.Zero(w.t, w.count("idempotency_keys"))
	})
}

// A process that dies before it has committed anything leaves a key that frees itself.
func TestDeadProcessFreesTheKey(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		dead := w.begin(request())
		w.clk.Advance(idempotency.Lease - 1)
		w.refused(w.other, request(), apperr.CodeIdempotencyInProgress)
		w.clk.Advance(1)
		run := w.begin(request())
		// It was taken for dead too early, and its claim is over: its work is undone.
		require.Error(w.t, w.create(dead.Context(w.t.Context())))
		require.Zero(w.t, w.count("things"))
		require.Error(w.t, dead.Finish(w.t.Context(), created()))
		require.NoError(w.t, dead.Release(w.t.Context()))
		require.NoError(w.t, w.create(run.Context(w.t.Context())))
		require.NoError(w.t, run.Finish(w.t.Context(), created()))
		require.Equal(w.t, 1, w.count("things"))
		_, response, err := w.other.Begin(w.t.Context(), request())
		require.NoError(w.t, err)
		require.Equal(w.t, created(), *response)
	})
}

// Between the commit and the storing of the response a process may die, or fail: the effect never happens again, and
// the response to the duplicate says so instead.
func TestLostResponseIsNotReplayed(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		killed := w.begin(request())
		require.NoError(w.t, w.create(killed.Context(w.t.Context())))
		w.refused(w.other, request(), apperr.CodeIdempotencyInProgress)
		w.clk.Advance(idempotency.Lease)
		w.refused(w.other, request(), apperr.CodeIdempotencyOutcomeUnknown)

		r := request()
		r.Key = "failed"
		failed := w.begin(r)
		require.NoError(w.t, w.create(failed.Context(w.t.Context())))
		require.NoError(w.t, failed.Fail(w.t.Context()))
		w.refused(w.store, r, apperr.CodeIdempotencyOutcomeUnknown)

		r.Key = "large"
		large := created()
		large.Body = bytes.Repeat([]byte("x"), idempotency.MaxResponseBytes+1)
		require.NoError(w.t, w.begin(r).Finish(w.t.Context(), large))
		w.refused(w.store, r, apperr.CodeIdempotencyOutcomeUnknown)
		require.Equal(w.t, 2, w.count("things"))
	})
}

// A transaction that fails leaves no trace of having taken effect, and one after the response has none either.
func TestOnlyCommitsCount(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		run := w.begin(request())
		require.Error(w.t, w.db.Tx(run.Context(w.t.Context()), w.failing))
		require.NoError(w.t, run.Fail(w.t.Context()))
		run = w.begin(request())
		require.NoError(w.t, run.Release(w.t.Context()))
		require.NoError(w.t, w.create(run.Context(w.t.Context())))
		require.Zero(w.t, w.count("idempotency_keys"))
	})
}

// Of many equal requests at the same time, on two processes, one is carried out. The others learn that it is in
// progress, or get its response.
func TestSimultaneousRequestsAreOne(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const requests = 40
		var all sync.WaitGroup
		var ran, waited, replayed atomic.Int64
		for i := range requests {
			s := []*idempotency.Store{w.store, w.other}[i%2]
			all.Go(func() {
				run, response, err := s.Begin(w.t.Context(), request())
				switch {
				case run != nil:
					ran.Add(1)
					if err := errors.Join(w.create(run.Context(w.t.Context())), run.Finish(w.t.Context(), created())); err != nil {
						w.t.Error(err)
					}
				case response != nil:
					replayed.Add(1)
				case apperr.Is(err, apperr.CodeIdempotencyInProgress):
					waited.Add(1)
				default:
					w.t.Error(err)
				}
			})
		}
		all.Wait()
		require.EqualValues(w.t, 1, ran.Load())
		require.EqualValues(w.t, requests, ran.Load()+waited.Load()+replayed.Load())
		require.Equal(w.t, 1, w.count("things"))
	})
}

// Neither key, request nor response can be read from the table, and a rotation of the keyset takes the responses along.
func TestResponsesAreSealed(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		run := w.begin(request())
		require.NoError(w.t, run.Finish(w.t.Context(), created()))
		var rowID string
		var stored []byte
		require.NoError(w.t, w.db.Read().QueryRowContext(w.t.Context(), "SELECT id, record FROM idempotency_keys").Scan(
			&rowID, &stored))
		require.NotContains(w.t, rowID, "key-1")
		require.NotContains(w.t, string(stored), "shown once")

		_, err := secretbox.Rotate(w.keyset)
		require.NoError(w.t, err)
		box := w.box()
		n, err := secretbox.Reseal(w.t.Context(), w.db, box, idempotency.SealedColumns(), nil)
		require.NoError(w.t, err)
		require.Equal(w.t, 1, n.Changed)
		store := idempotency.New(idempotency.Config{DB: w.db, Box: box, Clock: w.clk})
		_, response, err := store.Begin(w.t.Context(), request())
		require.NoError(w.t, err)
		require.Equal(w.t, created(), *response)
	})
}

// Old keys go, in batches, and no other.
func TestOldKeysGo(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
			INSERT INTO idempotency_keys (id, environment_id, claim_id, state, record, lease_ms, expires_ms)
			SELECT 'old' || i, '', '', 'done', $1, 0, $2 FROM n`, []byte{1}, w.clk.Now().UnixMilli())
		require.NoError(w.t, w.begin(request()).Finish(w.t.Context(), created()))
		require.NoError(w.t, w.store.Expire(w.t.Context(), w.clk.Now()))
		require.Equal(w.t, 1, w.count("idempotency_keys"))
	})
}

// Only keys are taken that every client, proxy and log can carry.
func TestValidKey(t *testing.T) {
	t.Parallel()
	long := make([]byte, idempotency.MaxKeyLength+1)
	for i := range long {
		long[i] = byte(' ' + rand.IntN('~'-' '+1))
	}
	for key, want := range map[string]bool{"": false, "a": true, " ~": true, `"quoted"`: true, "\x1f": false,
		"\x7f": false, "é": false, string(long): false, string(long[1:]): true} {
		require.Equal(t, want, idempotency.ValidKey(key), "%q", key)
	}
}
