//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// nodeVariable holds the configuration of a node in the environment of its process.
const nodeVariable = "SALLYPORT_TEST_NODE"

// nodeConfig configures a node: a server whose leases are short enough for a test to wait for their end.
type nodeConfig struct {
	Data, KeysetFile, DatabaseURL string
	Role                          role.Role
}

const (
	// nodeLease is the lease of nodes.
	nodeLease = 6 * time.Second
	// nodeTimeout is the timeout of the subscriptions. The receiver takes receiverTime for each request.
	nodeTimeout, receiverTime = time.Second, 200 * time.Millisecond
	// nodeEvents is how many events a test sends: more than the node can send before the test begins to disturb it.
	nodeEvents = 200
)

// TestNode is no test: it serves in the processes that startNode starts.
func TestNode(t *testing.T) { //nolint:paralleltest // the only one in its process
	text := os.Getenv(nodeVariable)
	if text == "" {
		t.Skip("it serves in the processes of other tests")
	}
	var n nodeConfig
	require.NoError(t, json.Unmarshal([]byte(text), &n))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the process that started this one
		cancel()
	}()
	cfg := config.Default()
	cfg.Dev, cfg.EgressAllowHTTP, cfg.Listen, cfg.PublicURL = true, true, "127.0.0.1:0", "http://127.0.0.1:0"
	cfg.Data, cfg.KeysetFile, cfg.DatabaseURL = n.Data, n.KeysetFile, secretbox.Secret(n.DatabaseURL)
	cfg.RateLimitKeyPerSecond, cfg.Role = 0, n.Role
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	a, err := app.New(ctx, app.Options{Config: cfg, Logger: log, Clock: clock.System(), Version: "test", Lease: nodeLease})
	require.NoError(t, err)
	require.NoError(t, a.Start(ctx))
	log.InfoContext(ctx, "serving", slog.String("listen", a.Addr()))
	<-ctx.Done()
	stop, end := context.WithTimeout(context.WithoutCancel(ctx), await.Limit)
	defer end()
	require.NoError(t, a.Stop(stop))
}

// node is one of several servers over one database.
type node struct {
	*server
	input io.Closer
}

// startNode starts a node with a data folder of its own and the world's keyset.
func (w *world) startNode(t *testing.T, data, databaseURL string) *node {
	t.Helper()
	return w.startNodeAs(t, role.All, data, databaseURL)
}

// startNodeAs is startNode for a role.
func (w *world) startNodeAs(t *testing.T, r role.Role, data, databaseURL string) *node {
	t.Helper()
	text, err := json.Marshal(nodeConfig{data, filepath.Join(w.dir, "keyset.json"), databaseURL, r})
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestNode$")
	cmd.Env = []string{nodeVariable + "=" + string(text)}
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	return &node{launch(t, cmd), input}
}

// end stops the node in order.
func (n *node) end(t *testing.T) {
	t.Helper()
	require.NoError(t, n.input.Close())
	waitFor(t, "the node ends", n.ended)
}

// signal sends a signal to the node's process.
func (n *node) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, n.cmd.Process.Signal(s))
}

// slowReceiver takes its time for each request, and records which arrive.
type slowReceiver struct {
	url string

	mu       sync.Mutex
	arrivals []deliveryKey
}

func newSlowReceiver(t *testing.T) *slowReceiver {
	t.Helper()
	r := &slowReceiver{}
	srv := httptest.NewServer(r)
	await.Close(t, srv)
	r.url = srv.URL
	return r
}

// ServeHTTP implements http.Handler.
func (r *slowReceiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	_, _ = io.Copy(io.Discard, q.Body)
	r.mu.Lock()
	r.arrivals = append(r.arrivals, deliveryKey{q.Header.Get("Webhook-Id"), q.Header.Get("Sallyport-Subscription-Id")})
	r.mu.Unlock()
	<-time.After(receiverTime)
}

// count returns how many requests arrived, and how many of them duplicate another.
func (r *slowReceiver) count() (all, duplicates int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[deliveryKey]bool{}
	for _, k := range r.arrivals {
		if seen[k] {
			duplicates++
		}
		seen[k] = true
	}
	return len(r.arrivals), duplicates
}

// leaseWorld is a node with events in its memory, for a receiver that takes its time.
func leaseWorld(t *testing.T, through func(databaseURL string) string) (w *world, first *node, r *slowReceiver) {
	t.Helper()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	w = newWorld(t, testkit.NewPostgres(t), t.TempDir())
	r = newSlowReceiver(t)
	first = w.startNode(t, w.dir, through(w.databaseURL))
	w.credentials(t)
	w.sender.segment = w.connect(t, first.server, "busy")
	for range receivers {
		w.call(t, first.server, http.MethodPost, "/webhook-subscriptions", map[string]any{"event_types": []string{"*"},
			"forward_url": r.url, "timeout_ms": nodeTimeout.Milliseconds()}, http.StatusCreated, nil)
	}
	stop := w.sender.start(t, first.base)
	waitFor(t, "the events are acknowledged", func() bool { return w.sender.acknowledged() >= nodeEvents })
	stop()
	return w, first, r
}

// delivered waits until every event arrived at each subscription and the node says so. Attempts that time out on a busy
// machine may open a breaker, and a delivery that it holds does not keep the status of its event from being forwarded.
func (w *world) delivered(t *testing.T, by *node, r *slowReceiver) {
	t.Helper()
	w.drain(t, by.server)
	waitFor(t, "every delivery arrives", func() bool {
		all, duplicates := r.count()
		return all-duplicates >= receivers*w.sender.acknowledged()
	})
	w.drain(t, by.server)
	var others []struct{}
	w.call(t, by.server, http.MethodGet, "/webhook-events?duplicate=false&status=dead_letter&limit=1", nil, http.StatusOK,
		&others)
	require.Empty(t, others)
}

// requireQuiet requires that nothing arrives any more.
func (r *slowReceiver) requireQuiet(t *testing.T, before int) {
	t.Helper()
	require.Equal(t, before, waitSteady(t, "nothing arrives", nodeLease/2, func() int { n, _ := r.count(); return n }),
		"an attempt began after another node had recorded the success")
}

// A node that stood still for longer than its leases sends nothing that another node has sent meanwhile. Duplicates are
// bounded by what was in flight: as many attempts in progress as there may be, and as many that had just ended and were
// not recorded yet.
func TestNodeThatStoodStill(t *testing.T) {
	t.Parallel()
	w, paused, r := leaseWorld(t, func(url string) string { return url })
	paused.signal(t, syscall.SIGSTOP)
	other := w.startNode(t, t.TempDir(), w.databaseURL)
	w.delivered(t, other, r)
	before, _ := r.count()
	paused.signal(t, syscall.SIGCONT)
	waitFor(t, "the node works again", func() bool { return paused.status(t, w.http, "/readyz") == http.StatusOK })
	r.requireQuiet(t, before)
	_, duplicates := r.count()
	require.LessOrEqual(t, duplicates, 2*inFlight)
	paused.end(t)
	other.end(t)
}

// A node that is cut off from the database for longer than its leases stops sending, and sends nothing that another
// node has sent meanwhile.
func TestNodeThatWasCutOff(t *testing.T) {
	t.Parallel()
	var p *proxy
	w, cut, r := leaseWorld(t, func(url string) (through string) {
		p, through = newProxy(t, url)
		return through
	})
	other := w.startNode(t, t.TempDir(), w.databaseURL)
	p.setCut(true)
	w.delivered(t, other, r)
	before, _ := r.count()
	p.setCut(false)
	waitFor(t, "the node works again", func() bool { return cut.status(t, w.http, "/readyz") == http.StatusOK })
	r.requireQuiet(t, before)
	_, duplicates := r.count()
	require.LessOrEqual(t, duplicates, 2*inFlight, "what was in flight, and what began before the node noticed")
	cut.end(t)
	other.end(t)
}

// When the database comes back after all nodes were cut off for longer than their leases, what they have sent is stored
// first, and what they hold stays theirs: nothing is sent twice.
func TestDatabaseAwayForLongerThanLeases(t *testing.T) {
	t.Parallel()
	var p *proxy
	var through string
	w, first, r := leaseWorld(t, func(url string) string {
		p, through = newProxy(t, url)
		return through
	})
	other := w.startNode(t, t.TempDir(), through)
	p.setCut(true)
	waitSteady(t, "dispatch stops for longer than a lease", 3*nodeLease/2, func() int { n, _ := r.count(); return n })
	p.setCut(false)
	w.delivered(t, first, r)
	all, duplicates := r.count()
	r.requireQuiet(t, all)
	require.Zero(t, duplicates)
	first.end(t)
	other.end(t)
}
