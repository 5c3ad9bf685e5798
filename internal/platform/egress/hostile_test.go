package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// drip writes text, then a byte at a time for as long as the other side listens.
func drip(c net.Conn, text string) {
	for _, err := io.WriteString(c, text); err == nil; _, err = io.WriteString(c, "x") {
		<-time.After(time.Millisecond)
	}
}

// A peer's misbehaviour ends in its own code within the deadline, and the error says nothing of where the request went.
func TestHostilePeers(t *testing.T) {
	t.Parallel()
	afterRequest := func(f func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) {
			if readRequest(bufio.NewReader(c)) {
				f(c)
			}
		}
	}
	writing := func(text string) func(net.Conn) {
		return afterRequest(func(c net.Conn) { _, _ = io.WriteString(c, text) })
	}
	reset := func(c net.Conn) {
		if tcp, ok := peerConn(c).Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // close with RST
		}
	}
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct {
		peer    func(net.Conn)
		timeout time.Duration
		code    string
		status  int // of the broken response, if there was one
		body    string
	}{
		"accepts and says nothing": {hold, short, CodeTimeout, 0, ""},
		"drips the status line":    {afterRequest(func(c net.Conn) { drip(c, "HTTP/1.1 200 ") }), short, CodeTimeout, 0, ""},
		"stops in the status line": {afterRequest(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 20")
			hold(c)
		}), short, CodeTimeout, 0, ""},
		"has a status line over 64 KiB": {writing("HTTP/1.1 200 " + strings.Repeat("a", 70<<10) + "\r\n\r\n"), long,
			CodeResponseInvalid, 0, ""},
		"drips headers": {afterRequest(func(c net.Conn) { drip(c, ok+"X-A: ") }), short, CodeTimeout, 0, ""},
		"drips the body": {afterRequest(func(c net.Conn) {
			drip(c, ok+"Content-Length: 1000\r\n\r\n")
		}), short, CodeTimeout, 200, "?"},
		"stops inside the body": {afterRequest(func(c net.Conn) {
			_, _ = io.WriteString(c, ok+"Content-Length: 9\r\n\r\nabc")
			hold(c)
		}), short, CodeTimeout, 200, "abc"},
		"hangs up after the request":  {afterRequest(func(net.Conn) {}), long, CodeConnectionReset, 0, ""},
		"resets after the request":    {afterRequest(reset), long, CodeConnectionReset, 0, ""},
		"hangs up in the status line": {writing("HTTP/1.1 20"), long, CodeResponseInvalid, 0, ""},
		"hangs up in the headers":     {writing(ok + "X-A: b"), long, CodeConnectionReset, 0, ""},
		"hangs up in the body":        {writing(ok + "Content-Length: 9\r\n\r\nabc"), long, CodeConnectionReset, 200, "abc"},
		"resets in the body": {afterRequest(func(c net.Conn) {
			_, _ = io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
			reset(c)
		}), long, CodeConnectionReset, 200, "?"},
		"speaks another protocol": {writing("SSH-2.0-OpenSSH_9.9\r\n"), long, CodeResponseInvalid, 0, ""},
		"speaks TLS":              {writing("\x15\x03\x01\x00\x02\x02\x46"), long, CodeResponseInvalid, 0, ""},
		"has no status":           {writing("HTTP/1.1 OK\r\n\r\n"), long, CodeResponseInvalid, 0, ""},
		"has an invalid header":   {writing(ok + "X A\x00: b\r\n\r\n"), long, CodeResponseInvalid, 0, ""},
		"has two lengths": {writing(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), long,
			CodeResponseInvalid, 0, ""},
		"has a negative length": {writing(ok + "Content-Length: -1\r\n\r\n"), long, CodeResponseInvalid, 0, ""},
		"has headers over 64 KiB": {writing(ok + "X-A: " + strings.Repeat("a", 70<<10) + "\r\n\r\n"), long,
			CodeResponseInvalid, 0, ""},
		"has many headers": {writing(ok + strings.Repeat("X-A: "+strings.Repeat("a", 100)+"\r\n", 700) + "\r\n"),
			long, CodeResponseInvalid, 0, ""},
		"has a malformed chunk": {writing(ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), long, CodeResponseInvalid,
			200, ""},
		"switches protocols": {writing("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " +
			"x\r\n\r\n"), long, CodeResponseInvalid, 101, ""},
		"sends early hints for ever": {afterRequest(func(c net.Conn) { dripHints(c) }), long, CodeResponseInvalid, 0, ""},
		"continues and says no more": {afterRequest(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
			hold(c)
		}), short, CodeTimeout, 0, ""},
		"never reads a large request": {func(c net.Conn) { <-peerConn(c).closed }, short, CodeTimeout, 0, ""},
	} {
		for path, follow := range paths() {
			t.Run(name+", "+path, func(t *testing.T) {
				t.Parallel()
				address := peer(t, c.peer)
				client := newClient(t, dev(), Options{})
				q := post(target(t, client, "http://"+address+"/secret-path?token=hunter2"), c.timeout)
				if name == "never reads a large request" {
					q.Body = make([]byte, 16<<20)
				}
				resp, err := client.Do(follow(t.Context()), q)
				require.NotNil(t, err)
				require.Equal(t, c.code, err.Code)
				if strings.Contains(name, "over 64 KiB") || strings.Contains(name, "many headers") {
					require.Contains(t, err.Message, "headers of the target's response are larger than 64 KiB")
				}
				require.False(t, err.Permanent)
				require.True(t, err.BytesSent)
				require.Equal(t, c.status, resp.Status)
				if c.body != "?" {
					require.Equal(t, c.body, string(resp.Body))
				}
				for _, secret := range []string{"127.0.0.1", "secret-path", "hunter2", "tcp", "http:"} {
					require.NotContains(t, err.Error(), secret)
				}
			})
		}
	}
}

// paths returns the two ways of an exchange: the direct one, and that through net/http.
func paths() map[string]func(context.Context) context.Context {
	return map[string]func(context.Context) context.Context{
		"directly": func(ctx context.Context) context.Context { return ctx }, "over net/http": overNetHTTP}
}

// dripHints sends informational responses without end.
func dripHints(c net.Conn) {
	for {
		if _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"); err != nil {
			return
		}
	}
}

// Odd responses that are still HTTP are accepted.
func TestOddButValidResponses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw    string
		status int
		body   string
	}{
		"HTTP/1.0":         {"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, "until the end"},
		"no reason phrase": {"HTTP/1.1 204\r\n\r\n", 204, ""},
		"early hints first": {"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", 200,
			"a"},
		"status out of the registry": {"HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n", 799, ""},
		"no length, closed":          {"HTTP/1.1 200 OK\r\n\r\nabc", 200, "abc"},
	} {
		for path, follow := range paths() {
			t.Run(name+", "+path, func(t *testing.T) {
				t.Parallel()
				client := newClient(t, dev(), Options{})
				u := target(t, client, "http://"+responding(t, c.raw)+"/")
				resp, err := client.Do(follow(t.Context()), post(u, long))
				require.Nil(t, err)
				require.Equal(t, c.status, resp.Status)
				require.Equal(t, c.body, string(resp.Body))
			})
		}
	}
}

// An endless body costs only the part that is returned: the response counts, the connection is closed.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	address := peer(t, func(c net.Conn) {
		defer close(ended)
		if !readRequest(bufio.NewReader(c)) {
			return
		}
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		for chunk := strings.Repeat("x", 1<<16); err == nil; {
			_, err = io.WriteString(c, chunk)
		}
	})
	client := newClient(t, dev(), Options{})
	resp, err := client.Do(t.Context(), post(target(t, client, "http://"+address+"/"), long))
	require.Nil(t, err)
	require.True(t, resp.Truncated)
	require.Len(t, resp.Body, 1024)
	<-ended
}

// A body announced as huge reserves nothing until it comes.
func TestAnnouncedHugeBody(t *testing.T) {
	t.Parallel()
	client := newClient(t, dev(), Options{})
	q := post(target(t, client, "http://"+responding(t, "HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000\r\n\r\nabc")+
		"/"), long)
	q.MaxResponseBytes = 1 << 50 // would not fit
	resp, err := client.Do(t.Context(), q)
	require.NotNil(t, err)
	require.Equal(t, CodeConnectionReset, err.Code)
	require.Equal(t, "abc", string(resp.Body))
}

// Nothing of a request leaves before TLS is established.
func TestHostileTLS(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	await.Close(t, plain)
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	old.StartTLS()
	await.Close(t, old)
	for name, c := range map[string]struct {
		address string
		timeout time.Duration
		code    string
	}{
		"slow handshake":    {peer(t, hold), short, CodeTimeout},
		"dripped handshake": {peer(t, func(c net.Conn) { drip(c, "\x16\x03\x03\x40\x00") }), short, CodeTimeout},
		"hangs up":          {peer(t, func(net.Conn) {}), long, CodeTLSFailed},
		"speaks HTTP":       {strings.TrimPrefix(plain.URL, "http://"), long, CodeTLSFailed},
		"an old version":    {strings.TrimPrefix(old.URL, "https://"), long, CodeTLSFailed},
		"responds with garbage": {peer(t, func(c net.Conn) {
			_, _ = io.WriteString(c, "garbage, not TLS")
			hold(c)
		}), long, CodeTLSFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, dev(), Options{})
			_, err := client.Do(t.Context(), post(target(t, client, "https://"+c.address+"/"), c.timeout))
			require.NotNil(t, err)
			require.Equal(t, c.code, err.Code)
			require.False(t, err.BytesSent)
			require.False(t, err.Permanent)
		})
	}
}

// A peer that hangs up without reading is a reset, whether the request was written before it was noticed or not.
func TestPeerThatHangsUpImmediately(t *testing.T) {
	t.Parallel()
	client := newClient(t, dev(), Options{})
	_, err := client.Do(t.Context(), post(target(t, client, "http://"+peer(t, func(net.Conn) {})+"/"), long))
	require.NotNil(t, err)
	require.Equal(t, CodeConnectionReset, err.Code)
}

// A port where nothing listens is distinguished from a peer that went away.
func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, lerr := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, lerr)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	client := newClient(t, dev(), Options{})
	_, err := client.Do(t.Context(), post(target(t, client, "http://"+address+"/"), long))
	require.NotNil(t, err)
	require.Equal(t, CodeConnectionRefused, err.Code)
	require.False(t, err.BytesSent)
}

// The receiver is not to blame when the caller cancels: a cancelled context has its own code. A context's earlier
// deadline is a deadline.
func TestCallersContext(t *testing.T) {
	t.Parallel()
	client := newClient(t, dev(), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	address := peer(t, func(c net.Conn) {
		if readRequest(bufio.NewReader(c)) {
			cancel()
			hold(c)
		}
	})
	_, err := client.Do(ctx, post(target(t, client, "http://"+address+"/"), long))
	require.NotNil(t, err)
	require.Equal(t, CodeCanceled, err.Code)
	require.True(t, err.BytesSent)

	deadline, cancelDeadline := context.WithTimeout(t.Context(), short)
	defer cancelDeadline()
	_, err = client.Do(deadline, post(target(t, client, "http://"+peer(t, hold)+"/"), long))
	require.NotNil(t, err)
	require.Equal(t, CodeTimeout, err.Code)

	_, err = client.Do(ctx, post(target(t, client, "http://"+address+"/"), long))
	require.NotNil(t, err)
	require.Equal(t, CodeCanceled, err.Code)
	require.False(t, err.BytesSent)
}
