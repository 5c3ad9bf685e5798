package connections_test

import (
	"context"
	"database/sql"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/probes"
)

// Two tests in a row in which the credentials are refused make a connection need them again; the next test that
// succeeds ends that. An outage of the provider does neither.
func TestHealthDecidesAboutCredentials(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		test := func(status int, token string) connections.Connection {
			p.set(func(p *provider) { p.status, p.token = status, token })
			w.clock.Advance(10 * time.Second)
			tested, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
			require.NoError(t, err)
			require.False(t, tested.Cached)
			got, err := w.svc.Get(t.Context(), w.a.View(), "acme", "acme-1")
			require.NoError(t, err)
			require.Equal(t, got, tested.Connection)
			return got
		}
		c := test(0, "another")
		require.Equal(t, probes.Unhealthy, c.Health.Status)
		require.Equal(t, connections.Active, c.Status, "a provider can be wrong once")
		c = test(http.StatusInternalServerError, "another")
		require.Equal(t, probes.Degraded, c.Health.Status)
		require.Equal(t, connections.Active, c.Status)
		c = test(0, "another")
		require.Equal(t, connections.NeedsReauth, c.Status)
		require.Equal(t, connections.ReasonCredentialsRefused, c.StatusReason)
		c = test(http.StatusServiceUnavailable, "another")
		require.Equal(t, connections.NeedsReauth, c.Status)
		c = test(0, "good-token")
		require.Equal(t, connections.Active, c.Status)
		require.Empty(t, c.StatusReason)
		require.Zero(t, c.Health.Refusals)

		requests := p.requests()
		again, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
		require.NoError(t, err)
		require.True(t, again.Cached)
		require.Equal(t, c, again.Connection)
		require.Equal(t, requests, p.requests())

		// A refresh since then is a reason to ask again.
		_, err = s.DB.Write().ExecContext(t.Context(), `UPDATE connection_credentials SET refreshed_ms = $1
			WHERE environment_id = $2`, w.clock.Now().Add(time.Second).UnixMilli(), string(w.a.Environment))
		require.NoError(t, err)
		again, err = connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
		require.NoError(t, err)
		require.False(t, again.Cached)
	})
}

// The state of the credentials survives that a user disables the connection, and a disabled one is not tested.
func TestDisabledConnectionsKeepTheirState(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		set := func(status connections.Status) connections.Connection {
			c, err := w.svc.SetStatus(t.Context(), w.a, "acme", "acme-1", status)
			require.NoError(t, err)
			return c
		}
		require.Equal(t, connections.Disabled, set(connections.Disabled).Status)
		w.clock.Advance(time.Minute)
		_, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		elsewhere := "http://127.0.0.1:1"
		c, err := w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
			ConnectionConfig: patch.To(map[string]*string{"base_url": &elsewhere})})
		require.NoError(t, err)
		require.Equal(t, connections.Disabled, c.Status)
		c = set(connections.Active)
		require.Equal(t, connections.NeedsReauth, c.Status)
		require.Equal(t, connections.ReasonHostChanged, c.StatusReason)
		require.Equal(t, c, set(connections.Active), "it is enabled already")
	})
}

// Concurrent tests of a connection make one request.
func TestConcurrentTests(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		w.clock.Advance(time.Minute)
		tester := connections.NewTester(w.svc)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, err := tester.Test(t.Context(), w.a, "acme", "acme-1")
				require.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, 2, p.requests())
	})
}

// A connection that changes while it is tested, as one whose tokens are renewed does, is tested again, so that the
// outcome is about what it has now. One that never stops changing gets an error that says so.
func TestConnectionThatChangesWhileItIsTested(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		var changes int
		changed := func(limit int) func() {
			changes = 0
			return func() {
				if changes == limit {
					return
				}
				changes++
				value := strconv.Itoa(changes) + " of " + strconv.Itoa(limit)
				_, err := w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
					Tags: patch.To(map[string]*string{"change": &value})})
				require.NoError(t, err)
			}
		}
		p.set(func(p *provider) { p.before = changed(2) })
		w.clock.Advance(time.Minute)
		tested, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
		require.NoError(t, err)
		require.False(t, tested.Cached)
		require.Equal(t, probes.Healthy, tested.Connection.Health.Status)
		require.Equal(t, "2 of 2", tested.Connection.Tags["change"])

		p.set(func(p *provider) { p.before = changed(100) })
		w.clock.Advance(time.Minute)
		_, err = connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.ErrorContains(t, err, "changed while it was tested")
		require.Equal(t, 3, changes)
	})
}

// Each change of what credentials can be used for is published with the change, and one of credentials alone as nothing
// else.
func TestCredentialEvents(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s), newProvider(t)
		var kinds []connections.ChangeKind
		w.hooks = []connections.ChangeHook{func(_ context.Context, _ *sql.Tx, c *connections.Connection,
			kind connections.ChangeKind) error {
			kinds = append(kinds, kind)
			if kind == connections.Connected || kind == connections.Reconnected {
				require.Equal(t, probes.Healthy, c.Health.Status, "the outcome of the test that came before")
			}
			return nil
		}}
		w.withAPI(t)
		expect := func(want ...connections.ChangeKind) {
			require.Equal(t, want, kinds)
			kinds = nil
		}
		test := func() {
			w.clock.Advance(time.Minute)
			_, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
			require.NoError(t, err)
		}
		w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		expect(connections.Created, connections.Connected)
		test()
		require.Empty(t, kinds)
		p.set(func(p *provider) { p.token = "another" })
		test()
		expect(connections.HealthChanged)
		test()
		expect(connections.LostCredentials)
		p.set(func(p *provider) { p.token = "good-token" })
		test()
		expect(connections.HealthChanged, connections.Recovered)
		_, err := w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
			Credentials: patch.To(connections.Credentials{Values: bearer("good-token")})})
		require.NoError(t, err)
		expect(connections.Reconnected)
		plan := "team"
		_, err = w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
			Tags:        patch.To(map[string]*string{"plan": &plan}),
			Credentials: patch.To(connections.Credentials{Values: bearer("good-token")})})
		require.NoError(t, err)
		expect(connections.Updated, connections.Reconnected)
	})
}
