package e2e_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// as starts another node of the role on the world's database, with a data folder of its own.
func (w *world) as(r role.Role) *world {
	w.t.Helper()
	n := newWorld(w.t, w.databaseURL, w.dir)
	n.cfg, n.clk, n.ahead, n.shared = w.cfg, w.clk, w.ahead, w.shared
	n.cfg.Role, n.cfg.Data = r, w.t.TempDir()
	n.start()
	return n
}

// onPostgres runs fn with a server of the role on PostgreSQL.
func onPostgres(t *testing.T, r role.Role, fn func(w *world)) {
	t.Helper()
	w := newWorld(t, testkit.NewPostgres(t), t.TempDir())
	w.cfg.Role = r
	w.cfg.AdminListen = "127.0.0.1:0"
	w.start()
	fn(w)
}

// leased returns how many deliveries were ever leased or attempted.
func (w *world) leased() (n int) {
	w.t.Helper()
	require.NoError(w.t, w.database().Read().QueryRowContext(w.t.Context(),
		"SELECT COUNT(*) FROM deliveries WHERE status <> 'pending' OR claim_id <> '' OR attempt_count > 0").Scan(&n))
	return n
}

// A node of the role api stores deliveries and sends none, however much time passes, and says that they wait. They
// reach a worker by hints: no time passes here in which the worker could poll. A worker also does what changes of
// subscriptions leave to do, and bulk replays.
func TestNodesThatServeAndNodesThatWork(t *testing.T) {
	t.Parallel()
	onPostgres(t, role.API, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(sink.url)
		w.connectGitHub("acme")
		first := w.fresh("acme", github(`{"action":"opened","n":1}`))
		for range 40 { // polls of a worker
			w.clk.Advance(500 * time.Millisecond)
			w.catchUp()
		}
		w.ticking("the warning", func() bool { return strings.Contains(w.health(), "warning: no node of the role worker") })
		require.Contains(w.t, w.health(), "ready\n", "what it accepts is safe")
		require.Zero(w.t, w.leased())
		require.Zero(w.t, sink.count())

		worker := w.as(role.Worker)
		require.Equal(w.t, first, sink.wait(w.t, 1)[0].header.Get("Webhook-Id"), "what had waited")
		second := w.fresh("acme", github(`{"action":"opened","n":2}`))
		require.Equal(w.t, second, sink.wait(w.t, 2)[1].header.Get("Webhook-Id"))
		await.Condition(w.t, "the outcomes", func() bool { return len(w.events("&status=forwarded")) == 2 })
		w.call(w.dev(), http.MethodPost, "/webhook-events/"+first+"/replay", object{"force": true}).want(w,
			http.StatusAccepted)
		require.Equal(w.t, first, sink.wait(w.t, 3)[2].header.Get("Webhook-Id"))
		w.ticking("the end of the warning", func() bool { return w.health() == "ready\n" })

		w.patchSubscription(sub.ID, object{"enabled": false})
		for range 6 { // the worker looks for changes each second
			w.clk.Advance(500 * time.Millisecond)
			worker.catchUp()
			worker.catchUp()
		}
		held := w.fresh("acme", github(`{"action":"opened","n":3}`))
		require.Equal(w.t, "held", w.event(held).delivery(w, sub.ID).Status)
		w.patchSubscription(sub.ID, object{"enabled": true})
		w.ticking("the release", func() bool { return sink.count() == 4 })
		await.Condition(w.t, "the outcome", func() bool { return len(w.events("&status=forwarded")) == 3 })
		late := newReceiver(w.t, status(http.StatusOK))
		job := w.startReplay(w.dev(), object{"filter": object{"all": true}, "to_subscription_id": w.subscribe(late.url).ID})
		w.ticking("the bulk replay", func() bool { return w.replayJob(w.dev(), job.ID).Status == "completed" })
		require.Len(w.t, late.all(), 3)
		worker.stop()

		waits := w.fresh("acme", github(`{"action":"opened","n":4}`))
		require.Equal(w.t, "pending", w.event(waits).delivery(w, sub.ID).Status)
		all := w.as(role.All)
		sink.wait(w.t, 5)
		all.fresh("acme", github(`{"action":"opened","n":5}`))
		sink.wait(w.t, 6)
		w.fresh("acme", github(`{"action":"opened","n":6}`))
		sink.wait(w.t, 7)
		all.stop()
	})
}

// A worker serves health, and says of everything else that it is no node for it. It accepts no webhook, and shows
// neither document nor viewer.
func TestWorkersServeHealthOnly(t *testing.T) {
	t.Parallel()
	onPostgres(t, role.API, func(w *world) {
		w.connectGitHub("acme")
		worker := w.as(role.Worker)
		for _, path := range []string{"/healthz", "/readyz"} {
			require.Equal(w.t, http.StatusOK, worker.fetch(path).status, path)
		}
		require.Contains(w.t, worker.health(), "ready\n")
		refused := worker.post("acme", github(issueOpened))
		require.Equal(w.t, http.StatusServiceUnavailable, refused.status)
		require.NotEmpty(w.t, refused.header.Get("Retry-After"), "the provider resends it")
		for _, path := range []string{"/", "/docs", "/openapi.json", "/.well-known/jwks.json", prefix + "/webhook-events",
			prefix + "/webhook/acme", prefix + "/no-such-route"} {
			a := worker.fetch(path)
			require.Equal(w.t, http.StatusServiceUnavailable, a.status, path)
			e := a.envelope(worker).Error
			require.Equal(w.t, apperr.CodeUnavailable, e.Code)
			require.Contains(w.t, e.Message, "role worker")
		}
		require.Empty(w.t, w.events(""))
		worker.stop()
	})
}

// fetch asks a path without credentials.
func (w *world) fetch(path string) response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.base+path, http.NoBody)
	require.NoError(w.t, err)
	resp, err := w.http.Do(r)
	require.NoError(w.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Body.Close())
	return response{method: r.Method, path: path, status: resp.StatusCode, header: resp.Header, body: body}
}

// health is what the admin listener says about the node.
func (w *world) health() string {
	w.t.Helper()
	c := *w
	c.base = "http://" + w.app.AdminAddr()
	return string(c.fetch("/health").body)
}
