package crash_test

import (
	"bytes"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// A server that loses PostgreSQL refuses what it cannot store and stops sending what it could not record. When
// PostgreSQL is back it continues by itself, has lost nothing, and sends nothing twice: the outcomes waited in its
// memory.
func TestLostPostgres(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	for name, cut := range map[string]func(t *testing.T, p *proxy){
		"at any moment": func(_ *testing.T, p *proxy) { p.setCut(true) },
		// Deliveries whose lease was committed are then leased to a process that does not know of them.
		"before the response to a commit": func(t *testing.T, p *proxy) { t.Helper(); p.cutAtCommit(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testkit.NewPostgres(t), t.TempDir())
			p, through := newProxy(t, w.databaseURL)
			s := startServer(t, w.dir, through)
			w.populate(t, s)
			w.outage(t, s, outage{
				begin: func() { cut(t, p) },
				end:   func() { p.setCut(false) },
				during: func() {
					w.requireUnready(t, s)
					// A delivery that cannot be read may exist all the same.
					w.requireRefusal(t, s, 2)
				},
			})
		})
	}
}

// outage is a store that goes away and comes back.
type outage struct {
	begin, end func()
	// remnant says that a small write may still find room where a larger one has failed.
	remnant bool
	// during checks what is particular to it while it lasts.
	during func()
}

// quiet is how long nothing must arrive for the receiver to count as no longer served. The server looks after a store
// that is down several times in that span.
const quiet = time.Second

// outage takes a server under load through an outage and checks it against what outages must not do.
func (w *world) outage(t *testing.T, s *server, o outage) {
	t.Helper()
	stop := w.sender.start(t, s.base)
	w.backlog(t)

	o.begin()
	w.sender.enter(down)
	waitFor(t, "deliveries are refused", w.sender.refused)
	arrived := func() int { n, _ := w.sink.count(); return n }
	// The outcomes of attempts in progress show the server that it can record nothing. The places that they free until
	// then are taken again, and those that are freed later are not.
	w.sink.admit(t, inFlight)
	stopped := waitSteady(t, "dispatch stops", quiet, arrived)
	w.sink.release()
	o.during()
	require.Equal(t, stopped, waitSteady(t, "dispatch stays stopped", quiet, arrived))
	require.Positive(t, w.sender.acknowledged()*receivers-stopped, "nothing was left to be sent, so nothing was held back")
	w.sender.enter(recovering)
	for _, a := range w.sender.exchangesIn(down) {
		if o.remnant && a.status == http.StatusOK {
			continue // it is looked for among the stored events like every other
		}
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		requireRetryAfter(t, a.retryAfter)
	}

	o.end()
	enough := w.sender.acknowledged() + 50
	waitFor(t, "deliveries are taken again", func() bool { return w.sender.acknowledged() >= enough })
	waitFor(t, "the server is ready again", func() bool { return s.status(t, w.http, "/readyz") == http.StatusOK })
	stop()
	w.drain(t, s)
	require.False(t, s.ended(), "nobody restarted the server")
	s.terminate(t)
	w.ledger.close(t, false)
	w.ledger.checkEnded(t)
	w.sender.check(t)
}

// backlog holds the receiver back until the server has as many attempts in progress as it may, and more than that in
// memory.
func (w *world) backlog(t *testing.T) {
	t.Helper()
	waitFor(t, "traffic flows", func() bool { return w.sender.acknowledged() >= 50 })
	w.sink.hold()
	enough := w.sender.acknowledged() + 300
	waitFor(t, "a backlog gathers", func() bool {
		_, active := w.sink.count()
		return active == inFlight && w.sender.acknowledged() >= enough
	})
}

// requireUnready requires that a load balancer sees that the server stores nothing, while the process itself is well.
func (w *world) requireUnready(t *testing.T, s *server) {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, s.status(t, w.http, "/readyz"))
	require.Equal(t, http.StatusOK, s.status(t, w.http, "/healthz"))
}

// requireRefusal requires that the server asks the sender to retry a delivery of the given size to a connection that it
// has not read before.
func (w *world) requireRefusal(t *testing.T, s *server, size int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/api/v1/webhook/"+w.idle,
		bytes.NewReader(make([]byte, size)))
	require.NoError(t, err)
	r.Header.Set("X-Hub-Signature-256", "sha256=00")
	resp, err := w.http.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	requireRetryAfter(t, resp.Header.Get("Retry-After"))
}

func requireRetryAfter(t *testing.T, value string) {
	t.Helper()
	seconds, err := strconv.Atoi(value)
	require.NoError(t, err, "Retry-After")
	require.Positive(t, seconds)
}
