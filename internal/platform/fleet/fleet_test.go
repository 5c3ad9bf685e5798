package fleet_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/fleet"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// node is one process of a database.
type node struct {
	*fleet.Fleet
	t   *testing.T
	log bytes.Buffer
	m   module.Module
}

func newNode(t *testing.T, d *db.DB, clk clock.Clock, name string, r role.Role) *node {
	t.Helper()
	n := &node{t: t}
	n.Fleet = fleet.New(fleet.Config{DB: d, Clock: clk, Logger: slog.New(slog.NewTextHandler(&n.log, nil)), Node: name,
		Role: r})
	n.m = n.Module()
	return n
}

// look makes the node register and count the others.
func (n *node) look() {
	n.t.Helper()
	_, err := n.m.Jobs[0].Run(n.t.Context())
	require.NoError(n.t, err)
}

// sees requires that the node's gauge shows so many nodes of the roles all, api and worker.
func (n *node) sees(all, api, worker float64) {
	n.t.Helper()
	n.look()
	seen := []float64{}
	for _, of := range []string{"all", "api", "worker"} {
		seen = append(seen, testkit.Metric(n.t, n.m.Metrics, "sallyport_nodes", "role", of))
	}
	require.Equal(n.t, []float64{all, api, worker}, seen)
}

// Each node counts those of each role that registered within 20 seconds. A node that stops no longer counts, and
// neither does one that vanished.
func TestNodesAreCounted(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		clk := clock.NewManual(time.Now())
		if s.DB.Engine() == db.SQLite {
			newNode(t, s.DB, clk, "sole", role.All).sees(1, 0, 0)
			return
		}
		api, worker := newNode(t, s.DB, clk, "a", role.API), newNode(t, s.DB, clk, "w", role.Worker)
		gone := newNode(t, s.DB, clk, "gone", role.All)
		worker.look()
		gone.look()
		api.sees(1, 1, 1)
		clk.Advance(15 * time.Second)
		worker.look()
		clk.Advance(5 * time.Second)
		api.sees(0, 1, 1)
		require.NoError(t, worker.m.Jobs[0].Last(t.Context()))
		api.sees(0, 1, 0)
	})
}

// A node that sends nothing says so, in its log and to operators, from when it sees no node that does until one is
// there.
func TestWithoutWorkers(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() == db.SQLite {
			n := newNode(t, s.DB, clock.NewManual(time.Now()), "sole", role.All)
			n.look()
			require.Empty(t, n.Warnings())
			return
		}
		clk := clock.NewManual(time.Now())
		api := newNode(t, s.DB, clk, "a", role.API)
		api.look()
		api.look()
		require.Len(t, api.Warnings(), 1)
		require.Contains(t, api.Warnings()[0], "deliveries wait")
		require.Equal(t, 1, bytes.Count(api.log.Bytes(), []byte("deliveries wait until one starts")), "a line for the change")
		for name, r := range map[string]role.Role{"w": role.Worker, "x": role.All} {
			other := newNode(t, s.DB, clk, name, r)
			other.look()
			require.Empty(t, other.Warnings())
			api.look()
			require.Empty(t, api.Warnings(), "%s sends", r)
			require.NoError(t, other.m.Jobs[0].Last(t.Context()))
			api.look()
			require.Len(t, api.Warnings(), 1)
		}
		require.Equal(t, 2, bytes.Count(api.log.Bytes(), []byte("a node that sends deliveries is there again")))
	})
}

// start runs the services of the node that its role has, until the test ends.
func (n *node) start(r role.Role) {
	n.t.Helper()
	for _, s := range n.m.Services {
		if !r.Does(s.Part) {
			continue
		}
		require.NoError(n.t, s.Start(n.t.Context()))
		n.t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(n.t.Context()), await.Limit)
			defer cancel()
			require.NoError(n.t, s.Stop(ctx))
		})
	}
}

// heard is what a node hears of a topic.
func (n *node) heard(topic string) <-chan []string {
	heard := make(chan []string, 1000)
	n.Hints().On(topic, func(keys []string) { heard <- keys })
	return heard
}

// Every worker hears the hints of a node that sends nothing, and no one else does: also many keys at a time, which
// travel in several notifications, and more than are worth naming. A worker that begins to listen hears first that it
// may have missed some.
func TestHints(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() == db.SQLite {
			n := newNode(t, s.DB, clock.System(), "sole", role.All)
			require.Empty(t, n.m.Services)
			require.False(t, n.Hints().Elsewhere())
			n.Hints().Give("letters", "a")
			return
		}
		api := newNode(t, s.DB, clock.System(), "a", role.API)
		letters := map[string]<-chan []string{}
		for name, r := range map[string]role.Role{"w": role.Worker, "all": role.All} {
			other := newNode(t, s.DB, clock.System(), name, r)
			letters[name] = other.heard("letters")
			other.Hints().Give("letters", "mine") // it is a worker itself
			other.start(r)
			require.Empty(t, await.Value(t, "the beginning", letters[name]))
		}
		own := api.heard("letters")
		api.start(role.API)
		require.True(t, api.Hints().Elsewhere())
		api.Hints().Give("numbers", "1") // of a topic that no one knows
		api.Hints().Give("letters", "b", "a")
		for _, heard := range letters {
			require.Equal(t, []string{"a", "b"}, await.Value(t, "the letters", heard))
		}
		long := make([]string, 600)
		for i := range long {
			long[i] = string(bytes.Repeat([]byte{byte('a' + i%26)}, 40)) + time.Duration(i).String()
		}
		api.Hints().Give("letters", long...)
		for _, heard := range letters {
			var all []string
			for len(all) < len(long) {
				all = append(all, await.Value(t, "a part of many letters", heard)...)
			}
			require.ElementsMatch(t, long, all)
		}
		for i := range 10 {
			keys := make([]string, 400)
			for j := range keys {
				keys[j] = time.Duration(400*i + j).String()
			}
			api.Hints().Give("letters", keys...)
		}
		api.Hints().Give("letters")
		for _, heard := range letters {
			for len(await.Value(t, "any letter", heard)) > 0 {
				continue
			}
		}
		require.Empty(t, own)
	})
}

// A process without other nodes has no hints, and needs none.
func TestNoHints(t *testing.T) {
	t.Parallel()
	var h *fleet.Hints
	h.On("letters", func([]string) {})
	h.Give("letters", "a")
	require.False(t, h.Elsewhere())
}

// A worker whose connection is cut listens again, and learns that it may have missed hints.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() == db.SQLite {
			return
		}
		worker := newNode(t, s.DB, clock.System(), "w", role.Worker)
		heard := worker.heard("letters")
		worker.start(role.Worker)
		require.Empty(t, await.Value(t, "the beginning", heard))
		_, err := s.DB.Schema().ExecContext(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
		require.NoError(t, err)
		require.Empty(t, await.Value(t, "another beginning", heard))
		api := newNode(t, s.DB, clock.System(), "a", role.API)
		api.start(role.API)
		api.Hints().Give("letters", "a")
		require.Equal(t, []string{"a"}, await.Value(t, "a letter", heard))
	})
}
