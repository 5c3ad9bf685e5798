package crash_test

import (
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// deliveryKey names a delivery.
type deliveryKey struct{ event, subscription string }

// attemptKey names one attempt of a delivery: resending it uses the same number again, because a number is used up when
// its outcome is recorded.
type attemptKey struct {
	deliveryKey
	number int64
}

// arrival is a request that reached the receiver.
type arrival struct {
	attemptKey
	// status is the status of the response; 0 when the sender was gone first.
	status int
}

// sink is the receiver of everything. Mostly it responds immediately; some deliveries are slow, some fail the first
// time, and a few fail always.
type sink struct {
	url  string
	addr string
	seed uint64

	mu       sync.Mutex
	arrivals []arrival
	active   int
	open     int           // connections
	gate     chan struct{} // lets one response out for each value, and all of them when closed
}

func newSink(t *testing.T, seed uint64) *sink {
	t.Helper()
	s := &sink{seed: seed, gate: make(chan struct{})}
	close(s.gate)
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ConnState = s.connState
	srv.Start()
	await.Close(t, srv)
	s.url, s.addr = srv.URL, srv.Listener.Addr().String()
	return s
}

func (s *sink) connState(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.open++
	case http.StateClosed:
		s.open--
	case http.StateActive, http.StateIdle, http.StateHijacked:
	}
}

// ServeHTTP implements http.Handler.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The body must be read before the server can see that the client has left.
	_, _ = io.Copy(io.Discard, r.Body)
	number, err := strconv.ParseInt(r.Header.Get("Sallyport-Attempt"), 10, 64)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a := attemptKey{deliveryKey{r.Header.Get("Webhook-Id"), r.Header.Get("Sallyport-Subscription-Id")}, number}
	i, gate := s.arrived(a)
	defer s.left()
	select {
	case <-gate:
	case <-r.Context().Done():
		return
	}
	wait, status := s.plan(a)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return
	}
	s.respond(i, status)
	w.WriteHeader(status)
}

// plan says how the receiver treats an attempt; it is the same for the same seed.
func (s *sink) plan(a attemptKey) (wait time.Duration, status int) {
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendUint(nil, s.seed, 10))
	_, _ = h.Write([]byte(a.event + a.subscription))
	sum := h.Sum64()
	switch share := sum % 100; {
	case share < 2:
		return 0, http.StatusInternalServerError
	case share < 12 && a.number == 1:
		return 0, http.StatusInternalServerError
	case share < 22:
		return time.Duration(sum/100%40) * time.Millisecond, http.StatusOK
	default:
		return 0, http.StatusOK
	}
}

func (s *sink) arrived(a attemptKey) (index int, gate <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals = append(s.arrivals, arrival{attemptKey: a})
	s.active++
	return len(s.arrivals) - 1, s.gate
}

func (s *sink) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
}

// respond records the response before it goes out, so that no one can know of it earlier than this list.
func (s *sink) respond(i, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals[i].status = status
}

// hold keeps back every response until admit or release.
func (s *sink) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = make(chan struct{})
}

// admit lets out the responses to n requests that are waiting.
func (s *sink) admit(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	for range n {
		select {
		case gate <- struct{}{}:
		case <-t.Context().Done():
			return
		}
	}
}

// release lets out all responses from now on.
func (s *sink) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.gate)
}

// count returns how many requests have arrived, and how many wait for a response.
func (s *sink) count() (arrived, active int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrivals), s.active
}

// since returns the arrivals from the index on.
func (s *sink) since(from int) []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.arrivals[from:]...)
}

// quiesce returns when the sink has read and recorded everything that a server sent before it ended.
func (s *sink) quiesce(t *testing.T) {
	t.Helper()
	// Connections are accepted in order: when this one has been, those that the server made have been too.
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", s.addr)
	require.NoError(t, err)
	_, err = conn.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, conn)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	waitFor(t, "the receiver's connections end with their server", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.open == 0 && s.active == 0
	})
}
