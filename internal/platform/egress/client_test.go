package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// site serves HTTP on loopback.
func site(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	await.Close(t, s)
	return s.URL
}

// The request arrives as given, with nothing added but what HTTP needs, and the response comes back as sent.
func TestDoCarriesRequestAndResponse(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(r.Context())
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "\x1f\x8bnot unpacked")
	})
	c := newClient(t, dev(), Options{})
	header := http.Header{"X-One": {"1", "2"}}
	q := post(target(t, c, base+"/p%2Fq?x=1"), long)
	q.Header = header
	resp, err := c.Do(t.Context(), q)
	require.Nil(t, err)
	require.Equal(t, http.StatusTeapot, resp.Status)
	require.Equal(t, "\x1f\x8bnot unpacked", string(resp.Body))
	require.False(t, resp.Truncated)
	require.Equal(t, "a=b", resp.Header.Get("Set-Cookie"))

	require.Equal(t, "/p%2Fq?x=1", got.RequestURI)
	require.Equal(t, `{"a":1}`, string(body))
	require.Equal(t, http.Header{"X-One": {"1", "2"}, "User-Agent": {"sallyport"}, "Content-Length": {"7"}}, got.Header)
	require.Equal(t, http.Header{"X-One": {"1", "2"}}, header, "the caller's headers are not changed")

	q.Head, q.Body = []byte(`{"a":`), []byte("2}")
	_, err = c.Do(t.Context(), q)
	require.Nil(t, err)
	require.Equal(t, `{"a":2}`, string(body), "a body in two parts is one body")
	require.Equal(t, int64(7), got.ContentLength)

	q.Header = http.Header{"User-Agent": {"own"}}
	_, err = c.Do(t.Context(), q)
	require.Nil(t, err)
	require.Equal(t, []string{"own"}, got.Header["User-Agent"])
	require.Empty(t, got.Header["Cookie"], "no cookie is stored")
}

// A redirect is a response: following it would carry the request past every check of its target.
func TestDoFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		base := site(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				t.Error("the redirect was followed")
			}
			w.Header().Set("Location", map[bool]string{true: "http://169.254.169.254/latest/", false: "/next"}[status%2 == 0])
			w.WriteHeader(status)
		})
		c := newClient(t, dev(), Options{})
		resp, err := c.Do(t.Context(), post(target(t, c, base+"/"), long))
		require.Nil(t, err)
		require.Equal(t, status, resp.Status)
		require.NotEmpty(t, resp.Header.Get("Location"))
	}
}

// Requests that may not be sent are refused before any connection, permanently.
func TestDoRefusesBeforeConnecting(t *testing.T) {
	t.Parallel()
	c := newClient(t, Policy{AllowLoopback: true}, Options{})
	parse := func(raw string) *url.URL {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		return u
	}
	for name, r := range map[string]struct {
		request Request
		code    string
	}{
		"no URL":    {Request{Method: "POST"}, CodeRequestInvalid},
		"http":      {Request{Method: "POST", URL: parse("http://127.0.0.1:1/")}, CodeSchemeRefused},
		"no scheme": {Request{Method: "POST", URL: parse("//127.0.0.1:1/")}, CodeSchemeRefused},
		"userinfo":  {Request{Method: "POST", URL: parse("https://u:p@127.0.0.1:1/")}, CodeUserinfoRefused},
		"bad header": {Request{Method: "POST", URL: parse("https://127.0.0.1:1/"),
			Header: http.Header{"A": {"b\r\nc: d"}}}, CodeRequestInvalid},
		"bad name": {Request{Method: "POST", URL: parse("https://127.0.0.1:1/"), Header: http.Header{"A b": {"c"}}},
			CodeRequestInvalid},
		"bad method":     {Request{Method: "PO ST", URL: parse("https://127.0.0.1:1/")}, CodeRequestInvalid},
		"private target": {Request{Method: "POST", URL: parse("https://10.0.0.1/")}, CodeTargetRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.Do(t.Context(), r.request)
			require.NotNil(t, err)
			require.Equal(t, r.code, err.Code)
			require.True(t, err.Permanent)
			require.False(t, err.BytesSent)
		})
	}
}

// The address is judged when the connection is made: a name that has moved to a private address since it was checked
// leads nowhere.
func TestDoRefusesRebinding(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	address := peer(t, func(net.Conn) { reached.Store(true) })
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	var rebound atomic.Bool
	c := newClient(t, Policy{AllowHTTP: true}, Options{Resolver: resolver(func(string) []netip.Addr {
		if rebound.Load() {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return []netip.Addr{netip.MustParseAddr("8.8.8.8")}
	})})
	raw := "http://rebind.test:" + port + "/"
	require.Nil(t, c.CheckTarget(t.Context(), raw))
	rebound.Store(true)
	_, derr := c.Do(t.Context(), post(target(t, c, raw), long))
	require.NotNil(t, derr)
	require.Equal(t, CodeTargetRefused, derr.Code)
	require.True(t, derr.Permanent)
	require.False(t, derr.BytesSent)
	require.False(t, reached.Load())
}

// Names are looked up through the given resolver, and one without an address has its own code.
func TestDoResolves(t *testing.T) {
	t.Parallel()
	base := site(t, func(http.ResponseWriter, *http.Request) {})
	c := newClient(t, dev(), Options{Resolver: resolver(func(n string) []netip.Addr {
		if n == "here.test." {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return nil
	})})
	_, port, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
	resp, err := c.Do(t.Context(), post(target(t, c, "http://here.test:"+port+"/"), long))
	require.Nil(t, err)
	require.Positive(t, resp.Timings.DNS)
	require.Positive(t, resp.Timings.Connect)
	_, err = c.Do(t.Context(), post(target(t, c, "http://gone.test:"+port+"/"), long))
	require.NotNil(t, err)
	require.Equal(t, CodeDNSFailed, err.Code)
	require.False(t, err.BytesSent)
}

// A connection is used again, also after a response that was cut short within reason, and the phases that did not
// happen then are zero.
func TestDoReusesConnections(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	await.Close(t, s)
	c := newClient(t, dev(), Options{})
	u := target(t, c, s.URL)
	for i := range 5 {
		resp, err := c.Do(t.Context(), post(u, long))
		require.Nil(t, err)
		require.True(t, resp.Truncated)
		require.Len(t, resp.Body, 1024)
		require.Equal(t, i > 0, resp.Timings.Connect == 0)
		require.Positive(t, resp.Timings.FirstByte)
		require.GreaterOrEqual(t, resp.Timings.Total, resp.Timings.FirstByte)
	}
	require.Equal(t, int64(1), conns.Load())
}

// The part of a body that is returned is exact at every size around the limit, with and without an announced length.
func TestDoTruncates(t *testing.T) {
	t.Parallel()
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
		if r.URL.Query().Has("chunked") {
			http.NewResponseController(w).Flush() //nolint:errcheck // the effect is what is asked for
		}
		_, _ = io.WriteString(w, strings.Repeat("x", n))
	})
	c := newClient(t, dev(), Options{})
	for _, limit := range []int64{0, 1, 512, 513, 100_000} {
		for _, n := range []int64{0, 1, limit - 1, limit, limit + 1, limit + 200_000} {
			for _, mode := range []string{"", "&chunked"} {
				if n < 0 {
					continue
				}
				q := post(target(t, c, fmt.Sprintf("%s/?n=%d%s", base, n, mode)), long)
				q.MaxResponseBytes = limit
				resp, err := c.Do(t.Context(), q)
				require.Nil(t, err)
				require.Len(t, resp.Body, int(min(n, limit)))
				require.Equal(t, n > limit, resp.Truncated, "%d of %d", limit, n)
			}
		}
	}
}

// HTTP/2 is spoken to https targets that offer it, under the roots given.
func TestDoSpeaksHTTP2(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Proto", r.Proto)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	await.Close(t, s)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := newClient(t, dev(), Options{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	u := target(t, c, s.URL)
	first, err := c.Do(t.Context(), post(u, long))
	require.Nil(t, err)
	require.Equal(t, "HTTP/2.0", first.Header.Get("X-Proto"))
	require.Positive(t, first.Timings.TLS)
	second, err := c.Do(t.Context(), post(u, long))
	require.Nil(t, err)
	require.Zero(t, second.Timings.TLS)

	_, err = newClient(t, dev(), Options{}).Do(t.Context(), post(u, long))
	require.NotNil(t, err)
	require.Equal(t, CodeTLSFailed, err.Code)
	require.False(t, err.BytesSent)
}

// The header and body of an ordinary webhook leave in one write.
func TestDoSendsInOneWrite(t *testing.T) {
	t.Parallel()
	c := newClient(t, dev(), Options{})
	var conn *countedConn
	dial := c.transport.DialContext
	c.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed, err := dial(ctx, network, addr)
		conn, _ = dialed.(*countedConn)
		return dialed, err
	}
	_, err := c.Do(t.Context(), post(target(t, c, site(t, func(http.ResponseWriter, *http.Request) {})), long))
	require.Nil(t, err)
	require.Equal(t, int64(1), conn.writes.Load())
}

// An idle connection that ends before a byte of the next request was sent is replaced in the same exchange: the
// receiver still sees that request once.
func TestDoReplacesDeadIdleConnection(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	conns := make(chan net.Conn, 8)
	address := peer(t, func(conn net.Conn) {
		conns <- conn
		for r := bufio.NewReader(conn); readRequest(r); {
			requests.Add(1)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	c := newClient(t, dev(), Options{})
	dialed := make(chan *watched, 8)
	dial := c.transport.DialContext
	c.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		w := &watched{Conn: conn, closed: make(chan struct{})}
		dialed <- w
		return &countedConn{Conn: w}, nil
	}
	u := target(t, c, "http://"+address+"/")
	_, err := c.Do(t.Context(), post(u, long))
	require.Nil(t, err)

	// The peer hangs up after the idle connection was chosen and before the request is written to it.
	idle, side := <-dialed, <-conns
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if info.Reused {
			_ = side.Close()
			<-idle.closed
		}
	}})
	resp, err := c.Do(ctx, post(u, long))
	require.Nil(t, err)
	require.Equal(t, "ok", string(resp.Body))
	require.Zero(t, resp.Timings.DNS)
	require.Positive(t, resp.Timings.Connect)
	require.Equal(t, int64(2), requests.Load())
}

// A request that may have arrived is never sent again, not even a GET, which net/http would resend silently.
func TestDoNeverSendsTwice(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		for _, body := range [][]byte{nil, []byte("x")} {
			t.Run(fmt.Sprintf("%s %d", method, len(body)), func(t *testing.T) {
				t.Parallel()
				var requests atomic.Int64
				address := peer(t, func(conn net.Conn) {
					r := bufio.NewReader(conn)
					for first := true; readRequest(r); first = false {
						requests.Add(1)
						if !first {
							return // read and hung up on
						}
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
				})
				c := newClient(t, dev(), Options{})
				q := post(target(t, c, "http://"+address+"/"), long)
				q.Method, q.Body = method, body
				q.Header = http.Header{"Idempotency-Key": {"k"}}
				_, err := c.Do(t.Context(), q)
				require.Nil(t, err)
				_, err = c.Do(t.Context(), q)
				require.NotNil(t, err)
				require.Equal(t, CodeConnectionReset, err.Code)
				require.True(t, err.BytesSent)
				require.Equal(t, int64(2), requests.Load())
			})
		}
	}
}
