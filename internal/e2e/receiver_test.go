package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"sallyport/internal/platform/testkit/await"
)

// received is one request that a receiver got.
type received struct {
	method, path string
	header       http.Header
	body         []byte
	// length is the announced Content-Length.
	length int64
}

// receiver stands in for a subscriber's endpoint.
type receiver struct {
	url string

	mu   sync.Mutex
	got  []received
	gate chan struct{}
}

// reply responds to the n-th request, counted from 1, after its body was read.
type reply func(w http.ResponseWriter, n int)

// status responds to every request with one status.
func status(code int) reply { return func(w http.ResponseWriter, _ int) { w.WriteHeader(code) } }

// statuses responds with one status after another, and the last one from then on.
func statuses(codes ...int) reply {
	return func(w http.ResponseWriter, n int) { w.WriteHeader(codes[min(n, len(codes))-1]) }
}

// newReceiver starts a receiver. It ends with the test.
func newReceiver(t *testing.T, respond reply) *receiver {
	t.Helper()
	r := &receiver{gate: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender broke off; what came counts for nothing
		}
		r.mu.Lock()
		r.got = append(r.got, received{req.Method, req.URL.RequestURI(), req.Header.Clone(), body, req.ContentLength})
		n := len(r.got)
		r.mu.Unlock()
		respond(w, n)
	}))
	r.url = server.URL + "/hook"
	await.Close(t, server)
	t.Cleanup(r.open)
	return r
}

// newHanging starts a receiver that responds only once it is opened, and then with the status.
func newHanging(t *testing.T, code int) *receiver {
	t.Helper()
	var r *receiver
	ready := make(chan struct{})
	r = newReceiver(t, func(w http.ResponseWriter, _ int) {
		<-ready
		<-r.gate
		w.WriteHeader(code)
	})
	close(ready)
	return r
}

// open lets a hanging receiver respond.
func (r *receiver) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.gate:
	default:
		close(r.gate)
	}
}

// all returns what came so far.
func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *receiver) count() int { return len(r.all()) }

// wait returns what came once it is n requests. The clock stands still meanwhile.
func (r *receiver) wait(t *testing.T, n int) []received {
	t.Helper()
	await.Condition(t, "requests at the receiver", func() bool { return r.count() >= n })
	return r.all()
}
