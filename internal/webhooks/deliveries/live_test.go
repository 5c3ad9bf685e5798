package deliveries

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// live is a world whose service sends.
func live(t *testing.T, store testkit.Store, perSubscription, perHost int) *world {
	t.Helper()
	w := newWorld(t, store)
	client := egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{})
	t.Cleanup(client.Close)
	w.Service = newService(store.DB, w.subs, w.clock, client, 16, perSubscription, perHost)
	return w
}

// begin starts the service and returns what stops it, at the latest when the test ends.
func (w *world) begin(t *testing.T, sink *gated) (stop func()) {
	t.Helper()
	require.NoError(t, w.start(t.Context()))
	stop = sync.OnceFunc(func() {
		sink.open()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), await.Limit)
		defer cancel()
		w.stop(ctx)
	})
	t.Cleanup(stop)
	return stop
}

// to makes a subscription to a URL.
func (w *world) to(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	sub := w.subscription()
	w.subs.byID[sub] = &subscriptions.Target{ID: sub, Environment: w.env, Enabled: true, URL: u, SigningKey: []byte("k"),
		Timeout: await.Limit}
	return sub
}

// due stores an event with a payload and a delivery that waits for a worker.
func (w *world) due(t *testing.T, subscription string) Key {
	t.Helper()
	e, d := w.event(Delivery{Status: Pending, Due: testTime()}, subscription)
	e.Payload = &events.Payload{Headers: "{}", Body: []byte("{}"), Encoding: events.JSON}
	w.insert(t, []events.NewEvent{e}, []Delivery{d})
	return d.Key
}

// gated is a receiver that responds to its first request only when it is opened, and counts.
type gated struct {
	*httptest.Server
	gate chan struct{}
	// open lets the first request finish.
	open func()
	// arrived counts the requests, active those in progress, crowd the most of them at the same time.
	arrived, active, crowd atomic.Int64
}

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{gate: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.gate) })
	g.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := g.active.Add(1)
		defer g.active.Add(-1)
		for most := g.crowd.Load(); now > most && !g.crowd.CompareAndSwap(most, now); most = g.crowd.Load() {
		}
		first := g.arrived.Add(1) == 1
		_, _ = io.Copy(io.Discard, r.Body)
		if first {
			<-g.gate
		}
	}))
	await.Close(t, g.Server)
	t.Cleanup(g.open)
	return g
}

// Draining starts no further attempt and lets those in progress end. The stop that follows releases waiting deliveries
// unchanged, for the next node to claim.
func TestDrain(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w, sink := live(t, store, 1, 9), newGated(t)
		sub := w.to(t, sink.URL)
		keys := []Key{w.due(t, sub), w.due(t, sub), w.due(t, sub)}
		stop := w.begin(t, sink)
		await.Condition(t, "the first request, and all deliveries in the dispatcher", func() bool {
			return sink.arrived.Load() == 1 && len(w.dispatcher.all()) == len(keys)
		})

		w.drain()
		sink.open()
		ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
		defer cancel()
		require.NoError(t, w.dispatcher.wait(ctx), "no worker has anything left to do")
		require.EqualValues(t, 1, sink.arrived.Load())
		require.False(t, w.dispatcher.reserve(w.env, sub, false))
		stop()

		states := map[Status]int{}
		for _, k := range keys {
			d := w.read(t, k)
			states[d.Status]++
			require.Empty(t, d.ClaimID)
			require.Zero(t, d.LeasesLost, "given back, not lost")
			if d.Status == Pending {
				require.Equal(t, testTime(), d.Due)
				require.Zero(t, d.AttemptCount)
			}
		}
		require.Equal(t, map[Status]int{Succeeded: 1, Pending: 2}, states)
	})
}

// The limit per host counts by the host and not by how a subscription writes it.
func TestOneHostHoweverWritten(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w, sink := live(t, store, 9, 1), newGated(t)
		_, port, _ := strings.Cut(strings.TrimPrefix(sink.URL, "http://"), ":")
		var keys []Key
		for _, host := range []string{"localhost", "LocalHost", "LOCALHOST"} {
			keys = append(keys, w.due(t, w.to(t, "http://"+host+":"+port)))
		}
		stop := w.begin(t, sink)
		hosts := func() (known int, busy map[string]load) {
			w.dispatcher.mu.Lock()
			defer w.dispatcher.mu.Unlock()
			for _, q := range w.dispatcher.queues {
				if q.host != "" {
					known++
				}
			}
			busy = map[string]load{}
			for name, h := range w.dispatcher.hosts {
				busy[name] = h.load
			}
			return known, busy
		}
		await.Condition(t, "the hosts of all deliveries", func() bool {
			known, _ := hosts()
			return known == len(keys)
		})
		_, busy := hosts()
		require.Equal(t, map[string]load{"localhost:" + port: {all: 1}}, busy)
		sink.open()
		await.Condition(t, "an empty dispatcher", func() bool { return len(w.dispatcher.all()) == 0 })
		stop()
		for _, k := range keys {
			require.Equal(t, Succeeded, w.read(t, k).Status)
		}
		require.EqualValues(t, 1, sink.crowd.Load())
	})
}
