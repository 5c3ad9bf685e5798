package connections_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/probes"
)

const hour = time.Hour

// startChecks starts the periodic tests of a node, and enrols the connections that there are.
func (w *world) startChecks(t *testing.T, node string) {
	t.Helper()
	m := connections.NewChecks(connections.ChecksConfig{Service: w.svc, Interval: hour, Node: node,
		Logger: slog.New(slog.DiscardHandler)}).Extend(module.Module{})
	require.Len(t, m.Services, 1)
	_, err := m.Jobs[0].Run(t.Context())
	require.NoError(t, err)
	require.NoError(t, m.Services[0].Start(t.Context()))
	t.Cleanup(func() {
		await.Return(t, "the end of the checks", func() { require.NoError(t, m.Services[0].Stop(t.Context())) })
	})
}

// all returns the connections of the first environment by their ids.
func (w *world) all(t *testing.T) map[string]connections.Connection {
	t.Helper()
	rows, err := w.svc.List(t.Context(), w.a.View(), connections.Filter{}, page.Request{Limit: 50})
	require.NoError(t, err)
	out := map[string]connections.Connection{}
	for _, c := range rows {
		out[c.ConnectionID] = c
	}
	return out
}

// pass lets the time pass until the condition holds for all connections whose names it is given. It waits for tests in
// progress, as time does.
func (w *world) pass(t *testing.T, what string, holds func(c *connections.Connection) bool, names ...string) {
	t.Helper()
	await.Condition(t, what, func() bool {
		step := time.Minute
		if count(t, w, `SELECT count(*) FROM connection_checks WHERE due_ms <= $1 OR claim <> ''`,
			clock.Millis(w.clock.Now())) > 0 {
			step = 5 * time.Second // at which the queue looks again
		}
		w.clock.Advance(step)
		all := w.all(t)
		for _, name := range names {
			if c := all[name]; !holds(&c) {
				return false
			}
		}
		return true
	})
}

// Two nodes together test each connection once an interval.
func TestEachConnectionIsCheckedOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s).withAPI(t)
		var providers []*provider
		for i := range 3 {
			p := newProvider(t)
			providers = append(providers, p)
			for j := range 4 {
				w.create(t, w.a, acmeConnection(fmt.Sprintf("acme-%d-%d", i, j), p.URL, bearer("good-token")))
			}
		}
		w.startChecks(t, "one")
		w.startChecks(t, "two")
		for round := range 3 {
			w.clock.Advance(hour + 10*time.Minute)
			begun := w.clock.Now()
			await.Condition(t, "all tests of a round", func() bool {
				if count(t, w, `SELECT count(*) FROM connection_checks WHERE claim <> ''`) > 0 {
					return false
				}
				for _, c := range w.all(t) {
					if c.Health.CheckedAt.Before(begun) {
						w.clock.Advance(5 * time.Second) // at which a node looks again that has looked before the hour was over
						return false
					}
				}
				return true
			})
			for _, p := range providers {
				require.Equal(t, 4*(round+2), p.requests(), "the first ones are those of creating")
			}
		}
	})
}

// Nothing that a provider does wrong to many connections at the same time takes their credentials from them: neither
// that it is away, nor that it refuses all of them. Two refusals of one connection do, and it recovers by itself.
func TestChecksDecideAboutOneConnection(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, many, one := newWorld(t, s).withAPI(t), newProvider(t), newProvider(t)
		var names []string
		for i := range 8 {
			names = append(names, fmt.Sprintf("acme-%d", i))
			w.create(t, w.a, acmeConnection(names[i], many.URL, bearer("good-token")))
		}
		w.create(t, w.a, acmeConnection("single", one.URL, bearer("good-token")))
		w.startChecks(t, "one")

		checkedAfter := func(then time.Time) func(c *connections.Connection) bool {
			return func(c *connections.Connection) bool { return c.Health.CheckedAt.After(then) }
		}
		many.set(func(p *provider) { p.status = http.StatusServiceUnavailable })
		w.pass(t, "an outage to show", func(c *connections.Connection) bool {
			return c.Health.Status == probes.Degraded
		}, names...)
		many.set(func(p *provider) { p.status, p.token = 0, "another" })
		for range 3 {
			w.pass(t, "tests that are refused", checkedAfter(w.clock.Now()), names...)
		}
		for _, c := range w.all(t) {
			require.Equal(t, connections.Active, c.Status, c.ConnectionID)
		}
		many.set(func(p *provider) { p.token = "good-token" })
		w.pass(t, "the end of the outage", func(c *connections.Connection) bool {
			return c.Health.Status == probes.Healthy
		}, names...)

		one.set(func(p *provider) { p.token = "another" })
		w.pass(t, "two refusals", func(c *connections.Connection) bool {
			return c.StatusReason == connections.ReasonCredentialsRefused
		}, "single")
		one.set(func(p *provider) { p.token = "good-token" })
		w.pass(t, "the recovery", func(c *connections.Connection) bool { return c.Status == connections.Active }, "single")

		_, err := w.svc.SetStatus(t.Context(), w.a, "acme", "single", connections.Disabled)
		require.NoError(t, err)
		before := one.requests()
		for range 2 {
			w.pass(t, "tests of the others", checkedAfter(w.clock.Now().Add(hour)), names...)
		}
		require.Equal(t, before, one.requests(), "a disabled connection is not tested")
	})
}
