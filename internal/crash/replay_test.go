package crash_test

import (
	"fmt"
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

// refuser is a receiver that refuses everything until it is back, and counts the replays that it takes by event.
type refuser struct {
	url string

	mu      sync.Mutex
	back    bool
	refused int
	replays map[string]int
	taken   int
}

func newRefuser(t *testing.T) *refuser {
	t.Helper()
	o := &refuser{replays: map[string]int{}}
	srv := httptest.NewServer(o)
	await.Close(t, srv)
	o.url = srv.URL
	return o
}

// ServeHTTP implements http.Handler.
func (o *refuser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // a sender that was killed says nothing more
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.back {
		o.refused++
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if r.Header.Get("Sallyport-Replay") == "true" {
		o.replays[r.Header.Get("Webhook-Id")]++
		o.taken++
	}
}

func (o *refuser) count() (refused, taken int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused, o.taken
}

// A bulk replay continues after any number of kills: it starts every delivery once, leaves none out, counts its
// deliveries, and sends twice at most what was in flight.
func TestKillDuringBulkReplay(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		const events, rate, kills = 200, 100, 8
		w, sink := newWorld(t, databaseURL, dir), newRefuser(t)
		random := rand.New(rand.NewPCG(w.sender.seed, events))
		s := startServer(t, dir, databaseURL)
		w.credentials(t)
		// So few for each subscription that no breaker opens.
		const each = 8
		for n := range events {
			eventType := fmt.Sprint("a.b", n/each)
			if n%each == 0 {
				w.call(t, s, http.MethodPost, "/webhook-subscriptions", map[string]any{"event_types": []string{eventType},
					"forward_url": sink.url, "retry_schedule_seconds": []float64{}}, http.StatusCreated, nil)
			}
			w.call(t, s, http.MethodPost, "/webhook-events", map[string]any{"event_type": eventType,
				"data": map[string]any{"n": n}}, http.StatusCreated, nil)
		}
		waitFor(t, "every delivery is dead", func() bool {
			refused, _ := sink.count()
			return refused == events && w.ended(t, s, "")
		})
		sink.mu.Lock()
		sink.back = true
		sink.mu.Unlock()
		type job struct {
			ID, Status string
			Counts     struct{ Matched, Replayed, Succeeded, Failed, Other, Skipped int }
		}
		var r job
		w.call(t, s, http.MethodPost, "/webhook-replays", map[string]any{"filter": map[string]any{"all": true},
			"rate_per_second": rate}, http.StatusAccepted, &r)
		for range kills {
			_, taken := sink.count()
			enough := min(taken+1+random.IntN(events/kills), events-1)
			waitFor(t, "the replay gets on", func() bool {
				_, taken := sink.count()
				return taken >= enough
			})
			s.kill(t)
			s = startServer(t, dir, databaseURL)
		}
		waitFor(t, "the replay ends", func() bool {
			w.call(t, s, http.MethodGet, "/webhook-replays/"+r.ID, nil, http.StatusOK, &r)
			return r.Status == "completed"
		})
		c := r.Counts
		require.Equal(t, []int{events, events, 0}, []int{c.Matched, c.Replayed, c.Skipped})
		require.Equal(t, events, c.Succeeded+c.Failed+c.Other)
		s.terminate(t)
		d := w.database(t)
		var wrong int
		require.NoError(t, d.Read().QueryRowContext(t.Context(),
			`SELECT COUNT(*) FROM deliveries WHERE generation <> 2 OR status <> 'succeeded'`).Scan(&wrong))
		require.NoError(t, d.Close())
		require.Zero(t, wrong, "each delivery was started once, and arrived")
		require.Len(t, sink.replays, events)
		require.LessOrEqual(t, sink.taken, events+kills*inFlight)
		t.Logf("%d replays arrived, %d of them repeated", sink.taken, sink.taken-events)
	})
}
