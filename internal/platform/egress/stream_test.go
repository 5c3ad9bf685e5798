package egress

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// An answer that never ends is read as it comes, for longer than the request's time-out, which bounds its beginning
// alone; closing it ends it at the peer.
func TestOpenReadsAsItComes(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	more := make(chan string)
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		for {
			if _, err := io.WriteString(w, <-more); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-r.Context().Done():
				close(gone)
				return
			case more <- "":
			}
		}
	})
	c := newClient(t, dev(), Options{})
	go func() { more <- "first\n" }()
	s, err := c.Open(t.Context(), Request{Method: http.MethodGet, URL: target(t, c, base), Timeout: long}, long)
	require.Nil(t, err)
	require.Equal(t, http.StatusAccepted, s.Status)
	lines := bufio.NewReader(s.Body)
	line, rerr := lines.ReadString('\n')
	require.NoError(t, rerr)
	require.Equal(t, "first\n", line)
	require.NoError(t, s.Body.Close())
	<-gone
}

// A peer that is silent for too long, at the beginning or between two reads, is given up, and so is one that hangs up.
func TestOpenGivesUp(t *testing.T) {
	t.Parallel()
	c := newClient(t, dev(), Options{})
	open := func(ctx context.Context, address string, timeout, quiet bool) (Stream, *Error) {
		q := Request{Method: http.MethodGet, URL: target(t, c, "http://"+address), Timeout: long}
		if timeout {
			q.Timeout = short
		}
		if quiet {
			return c.Open(ctx, q, short)
		}
		return c.Open(ctx, q, long)
	}
	hang := peer(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	_, err := open(t.Context(), hang, true, false)
	require.NotNil(t, err)
	require.Equal(t, CodeTimeout, err.Code)

	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
	silent := peer(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, head)
		_, _ = io.Copy(io.Discard, conn)
	})
	s, err := open(t.Context(), silent, false, true)
	require.Nil(t, err)
	text, rerr := io.ReadAll(s.Body)
	require.Equal(t, "abc", string(text))
	var failure *Error
	require.ErrorAs(t, rerr, &failure)
	require.Equal(t, CodeTimeout, failure.Code)
	require.NoError(t, s.Body.Close())

	breaks := peer(t, func(conn net.Conn) {
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_, _ = io.WriteString(conn, head)
	})
	s, err = open(t.Context(), breaks, false, false)
	require.Nil(t, err)
	_, rerr = io.ReadAll(s.Body)
	require.ErrorAs(t, rerr, &failure)
	require.Equal(t, CodeConnectionReset, failure.Code)
	require.NoError(t, s.Body.Close())

	ctx, cancel := context.WithCancel(t.Context())
	s, err = open(ctx, silent, false, false)
	require.Nil(t, err)
	cancel()
	_, rerr = io.ReadAll(s.Body)
	require.ErrorAs(t, rerr, &failure)
	require.Equal(t, CodeCanceled, failure.Code)
	require.NoError(t, s.Body.Close())
}

// The policy of addresses holds for streams as for everything else.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	base := site(t, func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	u := target(t, newClient(t, dev(), Options{}), base)
	_, err := newClient(t, Policy{AllowHTTP: true}, Options{}).Open(t.Context(), Request{Method: http.MethodGet, URL: u},
		long)
	require.NotNil(t, err)
	require.Equal(t, CodeTargetRefused, err.Code)
	_, err = newClient(t, Policy{}, Options{}).Open(t.Context(), Request{Method: http.MethodGet}, long)
	require.Equal(t, CodeRequestInvalid, err.Code)
}
