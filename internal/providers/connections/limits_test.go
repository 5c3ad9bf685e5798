package connections_test

import (
	"database/sql"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/outbound"
)

// After a provider has limited a connection, no node sends it anything before the time that the provider named, and the
// connection shows it.
func TestProvidersLimitIsKeptByAllNodes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		one, here := w.svc, w.limits[len(w.limits)-1]
		two := w.withAPI(t).svc
		there := w.limits[len(w.limits)-1]
		require.NotSame(t, here, there)
		w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		test := func(svc *connections.Service) error {
			_, err := connections.NewTester(svc).Test(t.Context(), w.a, "acme", "acme-1")
			return err
		}
		share := func() {
			for _, l := range []*limiter.Limiter{here, there} {
				_, err := l.Module().Jobs[0].Run(t.Context())
				require.NoError(t, err)
			}
		}
		w.clock.Advance(time.Minute)
		p.set(func(p *provider) {
			p.status, p.header = http.StatusTooManyRequests, http.Header{"Retry-After": {"40"}}
		})
		require.NoError(t, test(one))
		ends := w.clock.Now().Add(40 * time.Second)
		share()
		sent := p.requests()
		w.clock.Advance(10 * time.Second)
		for _, svc := range []*connections.Service{one, two} {
			err := test(svc)
			requireCode(t, apperr.CodeRateLimited, err)
			var refused *apperr.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, 30*time.Second, refused.RetryAfter)
			c, err := svc.Get(t.Context(), w.a.View(), "acme", "acme-1")
			require.NoError(t, err)
			require.Equal(t, &limiter.State{Limited: true, Remaining: -1, ResetAt: ends}, c.RateLimit)
		}
		require.Equal(t, sent, p.requests())
		p.set(func(p *provider) { p.status, p.header = 0, nil })
		w.clock.Advance(30 * time.Second)
		require.NoError(t, test(two))
		require.Equal(t, sent+1, p.requests())
		c, err := two.Get(t.Context(), w.a.View(), "acme", "acme-1")
		require.NoError(t, err)
		require.False(t, c.RateLimit.Limited)
	})
}

// stored returns the UUIDs of connections that have only their row.
func (w *world) stored(t *testing.T, n int) []string {
	t.Helper()
	uuids := make([]string, n)
	for i := range uuids {
		uuids[i] = id.NewUUID()
		_, err := w.store.DB.Write().ExecContext(t.Context(), `INSERT INTO connections (uuid, environment_id, provider,
			provider_config_key, connection_id, path_token, status, status_reason, tags, metadata, webhook, created_ms,
			updated_ms) VALUES ($1, $2, 'acme', 'acme', $1, $1, 'active', '', '{}', '{}', '{}', 0, 0)`, uuids[i],
			string(w.a.Environment))
		require.NoError(t, err)
	}
	return uuids
}

// share lets limiters store what they have seen, and hear each other.
func share(t *testing.T, limiters ...*limiter.Limiter) {
	t.Helper()
	for _, l := range limiters {
		_, err := l.Module().Jobs[0].Run(t.Context())
		require.NoError(t, err)
	}
}

// limited is a response that wants no request for a minute.
func limited(l *limiter.Limiter, c limiter.Caller) {
	l.Observe(c, outbound.Limits{}, outbound.Response{Status: http.StatusTooManyRequests},
		outbound.Verdict{Limited: true, Wait: time.Minute})
}

// A node that sets its clock back by an hour keeps no connection waiting for that hour, nor does the process after the
// next start: the block of a minute ends after a minute. Only SQLite runs by the machine's clock.
func TestLimitsAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		start := func() *limiter.Limiter {
			budgets, err := ratelimit.New(ratelimit.Options{Clock: w.clock})
			require.NoError(t, err)
			return limiter.New(limiter.Config{DB: s.DB, Clock: clock.Counting(w.clock), Wall: w.clock, Budgets: budgets})
		}
		c := limiter.Caller{Environment: w.a.Environment, Connection: w.stored(t, 1)[0]}
		try := func(l *limiter.Limiter) error { return l.Acquire(t.Context(), c, limiter.Rules{}) }
		before := start()
		limited(before, c)
		share(t, before)
		w.clock.Set(-time.Hour)
		share(t, before)
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			return before.Module().ShiftTimes(t.Context(), tx, -time.Hour)
		}))
		after := start()
		share(t, before, after)
		for _, l := range []*limiter.Limiter{before, after} {
			requireCode(t, apperr.CodeRateLimited, try(l))
			states, err := l.Of(t.Context(), s.DB.Read(), c.Environment, []string{c.Connection})
			require.NoError(t, err)
			require.WithinDuration(t, w.clock.Now().Add(time.Minute), states[c.Connection].ResetAt, time.Millisecond)
		}
		w.clock.Advance(time.Minute)
		require.NoError(t, try(before))
		require.NoError(t, try(after))
	})
}

// Blocks of other nodes are heard however many connections get responses in the same seconds.
func TestManyLimitsAreHeard(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		here, there := w.newLimits(t), w.newLimits(t)
		uuids := w.stored(t, 1_100)
		for _, uuid := range uuids {
			limited(here, limiter.Caller{Environment: w.a.Environment, Connection: uuid})
			w.clock.Advance(time.Millisecond)
		}
		share(t, here, there)
		heard := 0
		for _, uuid := range uuids {
			if there.Acquire(t.Context(), limiter.Caller{Connection: uuid}, limiter.Rules{}) != nil {
				heard++
			}
		}
		require.Equal(t, 1_100, heard)
	})
}
