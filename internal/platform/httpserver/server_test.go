package httpserver_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/httpserver"
)

func newServer(addr string, log io.Writer, handle http.HandlerFunc) *httpserver.Server {
	return httpserver.New(httpserver.Config{Name: "public", Address: addr, Handler: handle,
		Logger: slog.New(slog.NewTextHandler(log, nil))})
}

// A listener that was never served is closed all the same, and its port is free for another.
func TestShutdownBeforeServe(t *testing.T) {
	t.Parallel()
	s := newServer("127.0.0.1:0", io.Discard, nil)
	require.Empty(t, s.Addr())
	require.NoError(t, s.Shutdown(t.Context()), "before Listen there is nothing to do")
	require.NoError(t, s.Listen(t.Context()))
	require.NoError(t, s.Shutdown(t.Context()))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", s.Addr())
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// A request in progress ends before Shutdown does, and is cut off when the time for that is over.
func TestShutdownWaitsForRequests(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	arrived := make(chan struct{})
	s := newServer("127.0.0.1:0", &log, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	require.NoError(t, s.Listen(t.Context()))
	s.Serve(t.Context())
	got := make(chan error, 1)
	get := func() {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr(), http.NoBody)
		if err == nil {
			var resp *http.Response
			if resp, err = http.DefaultTransport.RoundTrip(request); err == nil {
				err = resp.Body.Close()
			}
		}
		got <- err
	}
	go get()
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	select {
	case err := <-stopped:
		require.Fail(t, "a request is in progress", err)
	default:
	}
	cancel()
	require.NoError(t, <-stopped)
	require.Error(t, <-got)
	require.Empty(t, log.String(), "a listener that is shut down has not failed")
}

// An address that is taken is named with the listener.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	s := newServer("127.0.0.1:0", io.Discard, nil)
	require.NoError(t, s.Listen(t.Context()))
	require.ErrorContains(t, newServer(s.Addr(), io.Discard, nil).Listen(t.Context()), "cannot listen on ")
	require.NoError(t, s.Shutdown(t.Context()))
}

// A server without an address does nothing.
func TestOff(t *testing.T) {
	t.Parallel()
	s := newServer("", io.Discard, nil)
	require.NoError(t, s.Listen(t.Context()))
	s.Serve(t.Context())
	require.Empty(t, s.Addr())
	require.NoError(t, s.Shutdown(t.Context()))
}
