//go:build unix

package crash_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/role"
	"sallyport/internal/platform/testkit"
)

// unsent is for how long nothing arrives where nothing is sent: several polls of a worker.
const unsent = 2 * time.Second

// A node that only serves acknowledges events and sends none. A node that only works sends them, and accepts no
// webhook. When it is killed, another one sends what waits and, when the leases have ended, what was in flight, and the
// node that serves shows that all was forwarded.
func TestRoles(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	w, r := newWorld(t, testkit.NewPostgres(t), t.TempDir()), newSlowReceiver(t)
	arrived := func() int { n, _ := r.count(); return n }
	api := w.startNodeAs(t, role.API, w.dir, w.databaseURL)
	w.credentials(t)
	w.sender.segment = w.connect(t, api.server, "busy")
	for range receivers {
		w.call(t, api.server, http.MethodPost, "/webhook-subscriptions", map[string]any{"event_types": []string{"*"},
			"forward_url": r.url, "timeout_ms": nodeTimeout.Milliseconds()}, http.StatusCreated, nil)
	}
	send := func() {
		enough := w.sender.acknowledged() + 50
		stop := w.sender.start(t, api.base)
		waitFor(t, "the events are acknowledged", func() bool { return w.sender.acknowledged() >= enough })
		stop()
	}
	send()
	require.Zero(t, waitSteady(t, "nothing arrives", unsent, arrived))

	first := w.startNodeAs(t, role.Worker, t.TempDir(), w.databaseURL)
	require.Equal(t, http.StatusOK, first.status(t, w.http, "/readyz"))
	require.Equal(t, http.StatusServiceUnavailable, first.status(t, w.http, "/api/v1/webhook-events"))
	require.False(t, w.sender.post(t.Context(), first.base, "00000000-0000-4000-8000-ffffffffffff"))
	w.delivered(t, api, r)
	before, duplicates := r.count()
	require.Zero(t, duplicates)

	send()
	waitFor(t, "the worker sends them", func() bool { return arrived() > before })
	first.kill(t)
	require.Equal(t, http.StatusOK, api.status(t, w.http, "/readyz"), "what it accepts is safe")
	second := w.startNodeAs(t, role.Worker, t.TempDir(), w.databaseURL)
	w.delivered(t, api, r)
	all, duplicates := r.count()
	require.Equal(t, receivers*len(w.sender.events), all-duplicates, "every acknowledged event, to every subscription")
	require.LessOrEqual(t, duplicates, 2*inFlight)
	second.end(t)
	api.end(t)
}
