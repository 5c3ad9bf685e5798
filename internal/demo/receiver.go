package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"sallyport/internal/platform/clock"
)

// maxArrivals is more than the story sends; what arrives beyond them is refused.
const maxArrivals = 8

// arrival is a request that the receiver got.
type arrival struct {
	at     time.Time
	header http.Header
	body   []byte
}

// receiver stands for an application at its URL: it accepts every request and responds with 204.
type receiver struct {
	url    string
	got    chan arrival
	server *http.Server
	ended  chan struct{}
}

func newReceiver(ctx context.Context, clk clock.Clock) (*receiver, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the receiver of the demo: %w", err)
	}
	r := &receiver{url: "http://" + l.Addr().String() + "/hook", got: make(chan arrival, maxArrivals),
		ended: make(chan struct{})}
	r.server = &http.Server{ReadTimeout: stopTimeout, WriteTimeout: stopTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, 1<<20))
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			select {
			case r.got <- arrival{at: clk.Now(), header: q.Header.Clone(), body: body}:
				w.WriteHeader(http.StatusNoContent)
			default:
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})}
	go func() {
		_ = r.server.Serve(l) // ends with close
		close(r.ended)
	}()
	return r, nil
}

// next returns what arrives next.
func (r *receiver) next(ctx context.Context) (arrival, error) {
	select {
	case a := <-r.got:
		return a, nil
	case <-ctx.Done():
		return arrival{}, errors.New("nothing arrived at the receiver in time")
	}
}

func (r *receiver) close() {
	_ = r.server.Close() // any remaining requests of the demo end here
	<-r.ended
}
