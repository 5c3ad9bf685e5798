package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// get sends a GET without a body through a RoundTripper with these bounds.
func get(ctx context.Context, t *testing.T, c *Client, raw string, b Bounds) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, http.NoBody)
	require.NoError(t, err)
	return c.RoundTripper(b).RoundTrip(req)
}

// requireCode asserts that err is an *Error with this code.
func requireCode(t *testing.T, code string, err error) {
	t.Helper()
	require.NotNil(t, failureOf(t, code, err))
}

// failureOf is requireCode and returns the *Error.
func failureOf(t *testing.T, code string, err error) *Error {
	t.Helper()
	var failure *Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, code, failure.Code)
	return failure
}

// A stream of events arrives event by event, and continues beyond Timeout, which covers only its headers. Closing it
// cancels it at the peer.
func TestStreamArrivesAsSent(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	next := make(chan string)
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case event := <-next:
				if _, err := io.WriteString(w, event); err != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	})
	c := newClient(t, dev(), Options{})
	go func() { next <- "data: 1\n\n" }()
	resp, err := get(t.Context(), t, c, base, Bounds{Timeout: short, IdleTimeout: long, MaxResponseBytes: Unlimited})
	require.NoError(t, err)
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{"data: 1\n", "data: 2\n", "data: 3\n"} {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
		switch want {
		case "data: 1\n":
			next <- "data: 2\n\n"
		case "data: 2\n":
			<-time.After(2 * short) // longer than Timeout
			next <- "data: 3\n\n"
		}
	}
	require.NoError(t, resp.Body.Close())
	<-gone
	_, err = resp.Body.Read(make([]byte, 1))
	requireCode(t, CodeCanceled, err)
}

// A peer that stays silent for too long, before the headers or between two reads, ends with a timeout; one that hangs
// up with a reset, and the caller's cancellation with its own code.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	c := newClient(t, dev(), Options{})
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
	stays := func(text string) string {
		return "http://" + peer(t, func(conn net.Conn) {
			if readRequest(bufio.NewReader(conn)) {
				_, _ = io.WriteString(conn, text)
				hold(conn)
			}
		})
	}
	_, err := get(t.Context(), t, c, stays(""), //nolint:bodyclose // fails
		Bounds{Timeout: short, IdleTimeout: long})
	failure := failureOf(t, CodeTimeout, err)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, failure.Timeout())

	resp, err := get(t.Context(), t, c, stays(head), Bounds{Timeout: long, IdleTimeout: short})
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.Equal(t, "abc", string(text))
	requireCode(t, CodeTimeout, err)
	_, again := resp.Body.Read(make([]byte, 1))
	require.Equal(t, err, again, "the error stays")
	require.NoError(t, resp.Body.Close())

	breaks := "http://" + responding(t, head)
	resp, err = get(t.Context(), t, c, breaks, Bounds{IdleTimeout: long})
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	requireCode(t, CodeConnectionReset, err)
	require.NoError(t, resp.Body.Close())

	ctx, cancel := context.WithCancel(t.Context())
	resp, err = get(ctx, t, c, stays(head), Bounds{IdleTimeout: long})
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(resp.Body)
	requireCode(t, CodeCanceled, err)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, resp.Body.Close())
}

// One deadline covers the response body too, if no idle timeout replaces it: a dripping peer cannot extend it.
func TestDeadlineCoversTheBody(t *testing.T) {
	t.Parallel()
	address := peer(t, func(conn net.Conn) {
		if readRequest(bufio.NewReader(conn)) {
			drip(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
		}
	})
	resp, err := get(t.Context(), t, newClient(t, dev(), Options{}), "http://"+address, Bounds{Timeout: short})
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	requireCode(t, CodeTimeout, err)
	require.NotEmpty(t, text)
	require.NoError(t, resp.Body.Close())
}

// The size limit is exact, whether the length is announced or not, and the bytes up to it are read first.
func TestResponseSizeLimit(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("chunked") {
			_ = http.NewResponseController(w).Flush()
		}
		size := limit
		if r.URL.Query().Has("more") {
			size++
		}
		_, _ = w.Write(make([]byte, size))
	})
	c := newClient(t, dev(), Options{})
	for _, query := range []string{"?", "?chunked", "?more", "?more&chunked"} {
		resp, err := get(t.Context(), t, c, base+"/"+query, Bounds{MaxResponseBytes: limit})
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.Len(t, text, limit, query)
		if len(query) > len("?chunked") || query == "?more" {
			failure := failureOf(t, CodeResponseTooLarge, err)
			require.True(t, failure.BytesSent)
			require.False(t, failure.Permanent)
		} else {
			require.NoError(t, err, query)
		}
		require.NoError(t, resp.Body.Close())
	}
	resp, err := get(t.Context(), t, c, base+"/?more", Bounds{MaxResponseBytes: Unlimited})
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Len(t, text, limit+1)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, int64(10<<20), Bounds{}.maxResponseBytes(), "the default is no unlimited one")
}

// A response without a body needs no Close to end its exchange, and a HEAD's announced length is no body.
func TestResponsesWithoutBody(t *testing.T) {
	t.Parallel()
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("Content-Length", "1000000000")
		}
	})
	c := newClient(t, dev(), Options{MaxConnsPerHost: 1}) // an exchange that does not end would block the next
	for path, method := range map[string]string{"/204": http.MethodGet, "/304": http.MethodGet, "/": http.MethodHead} {
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), method, base+path, http.NoBody)
			require.NoError(t, err)
			rt := c.RoundTripper(Bounds{Timeout: long, MaxResponseBytes: 10})
			resp, err := rt.RoundTrip(req) //nolint:bodyclose // the point of this test
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Empty(t, text)
			require.Same(t, req, resp.Request)
		}
	}
}

// A peer that breaks the connection after its headers yields a coded error that names neither it nor the request.
func TestResetAfterHeaders(t *testing.T) {
	t.Parallel()
	address := peer(t, func(conn net.Conn) {
		if readRequest(bufio.NewReader(conn)) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
			if tcp, ok := peerConn(conn).Conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
		}
	})
	resp, err := get(t.Context(), t, newClient(t, dev(), Options{}), "http://"+address+"/secret-path?token=hunter2",
		Bounds{})
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	requireCode(t, CodeConnectionReset, err)
	for _, secret := range []string{"127.0.0.1", "secret-path", "hunter2", "tcp", "http:"} {
		require.NotContains(t, err.Error(), secret)
	}
	require.NoError(t, errors.Unwrap(err), "nothing of the library is wrapped")
	require.NoError(t, resp.Body.Close())
}
