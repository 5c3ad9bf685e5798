package crash_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// counter is a receiver that accepts everything and counts the requests by delivery.
type counter struct {
	url string

	mu       sync.Mutex
	arrivals map[deliveryKey]int
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	c := &counter{arrivals: map[deliveryKey]int{}}
	srv := httptest.NewServer(c)
	await.Close(t, srv)
	c.url = srv.URL
	return c
}

// ServeHTTP implements http.Handler.
func (c *counter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // a sender that was killed says nothing more
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivals[deliveryKey{r.Header.Get("Webhook-Id"), r.Header.Get("Sallyport-Subscription-Id")}]++
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.arrivals)
}

// Acknowledged events that thousands of subscriptions match reach each of them, although the server is killed after
// each event, before all of its deliveries are stored: none is lost and none exists twice. A subscription that was
// created after the events gets nothing.
func TestKillDuringFanout(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		const matching, kills, creators = 2_000, 4, 8 // five leases lost in a row would end a delivery
		w, sink := newWorld(t, databaseURL, dir), newCounter(t)
		random := rand.New(rand.NewPCG(w.sender.seed, matching))
		s := startServer(t, dir, databaseURL)
		w.credentials(t)
		subscribe := func() {
			w.call(t, s, http.MethodPost, "/webhook-subscriptions", map[string]any{"event_types": []string{"*"},
				"forward_url": sink.url, "retry_schedule_seconds": []float64{0.1, 0.1, 0.1}}, http.StatusCreated, nil)
		}
		var all sync.WaitGroup
		for range creators {
			all.Go(func() {
				for range matching / creators {
					subscribe()
				}
			})
		}
		all.Wait()
		count := func(query string) (n int) {
			d := w.database(t)
			require.NoError(t, d.Read().QueryRowContext(t.Context(), query).Scan(&n))
			require.NoError(t, d.Close())
			return n
		}
		interrupted := 0
		for i := range kills {
			var event struct {
				EventUUID string `json:"event_uuid"`
			}
			w.call(t, s, http.MethodPost, "/webhook-events", map[string]any{"event_type": "a.b", "data": i},
				http.StatusCreated, &event)
			stored := func() int {
				var e struct {
					Status     string     `json:"status"`
					Deliveries []struct{} `json:"deliveries"`
				}
				w.call(t, s, http.MethodGet, "/webhook-events/"+event.EventUUID, nil, http.StatusOK, &e)
				if len(e.Deliveries) < matching {
					require.NotEqual(t, "forwarded", e.Status, "not all deliveries are stored")
				}
				return len(e.Deliveries)
			}
			if i == kills-1 {
				subscribe()
			}
			// The first kill comes before the worker has stored anything, or soon after, the others while it does.
			if enough := 500 + random.IntN(500); i > 0 {
				waitFor(t, "the fan-out gets on", func() bool { return stored() >= enough })
			}
			s.kill(t)
			if count(`SELECT COUNT(*) FROM delivery_fanout_parts WHERE event_uuid = '`+event.EventUUID+`'`) > 0 {
				interrupted++
			}
			s = startServer(t, dir, databaseURL)
		}
		require.GreaterOrEqual(t, interrupted, 2, "kills that came before all deliveries of their event were stored")
		waitFor(t, "every delivery has arrived", func() bool { return sink.count() >= kills*matching })
		waitFor(t, "the events are forwarded", func() bool { return w.ended(t, s, "") })
		s.terminate(t)
		require.Equal(t, kills*matching, sink.count())
		for query, want := range map[string]int{
			`SELECT COUNT(*) FROM deliveries`:                                                        kills * matching,
			`SELECT COUNT(*) FROM deliveries WHERE status <> 'succeeded'`:                            0,
			`SELECT COUNT(*) FROM delivery_fanouts`:                                                  0,
			`SELECT COUNT(*) FROM delivery_fanout_parts`:                                             0,
			`SELECT SUM(n_succeeded) FROM webhook_events`:                                            kills * matching,
			`SELECT SUM(n_pending + n_sending + n_retry_wait + n_held + n_dead) FROM webhook_events`: 0,
		} {
			require.Equal(t, want, count(query), query)
		}
	})
}
