package connections_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/limiter"
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
