package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// secure serves HTTP/2 over TLS on loopback and returns its address with a client that trusts it.
func secure(t *testing.T, h http.HandlerFunc) (base string, c *Client) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	await.Close(t, s)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.URL, newClient(t, dev(), Options{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
}

// request returns a POST that streams body.
func request(t *testing.T, raw string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, raw, body)
	require.NoError(t, err)
	return req
}

// Bodies are streamed in both directions at the same time: the peer gets the first line before the second is written,
// and its reply to that is read before. Trailers follow both. HTTP/2 is used where TLS offers it.
func TestRoundTripStreamsBothWays(t *testing.T) {
	t.Parallel()
	echo := func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.ProtoMajor == 1 && control.EnableFullDuplex() != nil {
			return
		}
		w.Header().Set("X-Proto", r.Proto)
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		_ = control.Flush()
		for lines := bufio.NewReader(r.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			_, _ = io.WriteString(w, strings.ToUpper(line))
			_ = control.Flush()
		}
		w.Header().Set("X-Sum", r.Trailer.Get("X-Count")+" lines")
	}
	plain := site(t, echo)
	encrypted, trusting := secure(t, echo)
	for _, tt := range []struct {
		base, proto string
		client      *Client
	}{
		{plain, "HTTP/1.1", newClient(t, dev(), Options{})},
		{encrypted, "HTTP/2.0", trusting},
	} {
		for range 2 { // the second time over the same connection
			r, w := io.Pipe()
			req := request(t, tt.base, r)
			req.Trailer = http.Header{"X-Count": nil}
			resp, err := tt.client.RoundTripper(Bounds{Timeout: long}).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, tt.proto, resp.Header.Get("X-Proto"))
			lines := bufio.NewReader(resp.Body)
			for _, word := range []string{"one", "two", "three"} {
				_, err := io.WriteString(w, word+"\n")
				require.NoError(t, err)
				line, err := lines.ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, strings.ToUpper(word)+"\n", line)
			}
			req.Trailer.Set("X-Count", "3")
			require.NoError(t, w.Close())
			_, err = lines.ReadString('\n')
			require.Equal(t, io.EOF, err)
			require.Equal(t, "3 lines", resp.Trailer.Get("X-Sum"))
			require.NoError(t, resp.Body.Close())
		}
	}
}

// A request body is sent with its announced length, or chunked where it has none, and never held back as a whole.
func TestRoundTripBodyLength(t *testing.T) {
	t.Parallel()
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Length", r.Header.Get("Content-Length"))
		w.Header().Set("X-Encoding", strings.Join(r.TransferEncoding, ","))
		_, _ = w.Write(body)
	})
	c := newClient(t, dev(), Options{})
	for name, tt := range map[string]struct {
		announced        int64
		length, encoding string
		code             string
	}{
		"announced": {5, "5", "", ""},
		"unknown":   {-1, "", "chunked", ""},
		"none":      {0, "", "chunked", ""},
		"too short": {6, "", "", CodeRequestBodyFailed},
		"too long":  {4, "", "", CodeRequestBodyFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(t, base, io.NopCloser(strings.NewReader("hello")))
			req.ContentLength = tt.announced
			resp, err := c.RoundTripper(Bounds{Timeout: long}).RoundTrip(req)
			if name == "too long" && err == nil {
				body, _ := io.ReadAll(resp.Body) // what exceeds the length is noticed before or after the response
				require.Equal(t, "hell", string(body))
				require.NoError(t, resp.Body.Close())
				return
			}
			if tt.code != "" {
				requireCode(t, tt.code, err)
				require.ErrorIs(t, err, errUploadLength)
				return
			}
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "hello", string(body))
			require.Equal(t, tt.length, resp.Header.Get("X-Length"))
			require.Equal(t, tt.encoding, resp.Header.Get("X-Encoding"))
			require.NoError(t, resp.Body.Close())
		})
	}
}

// A body that waits for permission is not read before the peer gives it, and not at all where the peer refuses.
func TestRoundTripExpectContinue(t *testing.T) {
	t.Parallel()
	var begun atomic.Bool
	base := site(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuses" {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		if begun.Load() {
			t.Error("the body came without permission")
		}
		_, _ = io.Copy(w, r.Body)
	})
	c := newClient(t, dev(), Options{})
	send := func(path string) *http.Response {
		req := request(t, base+path, readerFunc(func(p []byte) (int, error) {
			if begun.Swap(true) {
				return 0, io.EOF
			}
			return copy(p, "hello"), nil
		}))
		req.Header.Set("Expect", "100-continue")
		resp, err := c.RoundTripper(Bounds{Timeout: long}).RoundTrip(req)
		require.NoError(t, err)
		return resp
	}
	resp := send("/refuses")
	require.Equal(t, http.StatusExpectationFailed, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	require.False(t, begun.Load())

	resp = send("/")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "hello", string(body))
	require.NoError(t, resp.Body.Close())
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A response that comes while the request body is still being sent is returned immediately, and its end closes the
// body.
func TestRoundTripEarlyResponse(t *testing.T) {
	t.Parallel()
	refuse := func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.ProtoMajor == 1 && control.EnableFullDuplex() != nil {
			return
		}
		w.Header().Set("Content-Length", "9")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too large")
		_ = control.Flush()
	}
	plain := site(t, refuse)
	encrypted, trusting := secure(t, refuse)
	for base, c := range map[string]*Client{plain: newClient(t, dev(), Options{}), encrypted: trusting} {
		r, w := io.Pipe() // which stalls after a little
		go func() { _, _ = w.Write([]byte("a little")) }()
		resp, err := c.RoundTripper(Bounds{Timeout: long}).RoundTrip(request(t, base, r))
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "too large", string(body))
		_, err = w.Write([]byte("more"))
		for err == nil { // the write in progress may have succeeded
			_, err = w.Write([]byte("more"))
		}
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.NoError(t, resp.Body.Close())
	}
}

// A request body whose Read blocks, and blocks Close too, delays neither the deadline nor the caller's cancellation.
func TestRoundTripStalledUpload(t *testing.T) {
	t.Parallel()
	swallow := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	plain := site(t, swallow)
	encrypted, trusting := secure(t, swallow)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for base, c := range map[string]*Client{plain: newClient(t, dev(), Options{}), encrypted: trusting} {
		stalled := request(t, base, stalledBody(release))
		_, err := c.RoundTripper(Bounds{Timeout: short}).RoundTrip(stalled) //nolint:bodyclose // fails
		requireCode(t, CodeTimeout, err)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(short, cancel)
		_, err = c.RoundTripper(Bounds{Timeout: long}).RoundTrip(stalled.WithContext(ctx)) //nolint:bodyclose // fails
		requireCode(t, CodeCanceled, err)
	}
}

// stalledBody is like the body of a server's request whose client sends nothing: Close waits for Read.
type stalledBody chan struct{}

func (b stalledBody) Read([]byte) (int, error) {
	<-b
	return 0, io.EOF
}

func (b stalledBody) Close() error {
	<-b
	return nil
}

// An error of the caller's own body comes back wrapped, so that the caller finds its cause.
func TestRoundTripUploadFails(t *testing.T) {
	t.Parallel()
	base := site(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	broken := errors.New("http://secret.test broke")
	body := io.MultiReader(strings.NewReader("abc"), readerFunc(func([]byte) (int, error) { return 0, broken }))
	c := newClient(t, dev(), Options{}).RoundTripper(Bounds{Timeout: long})
	_, err := c.RoundTrip(request(t, base, body)) //nolint:bodyclose // fails
	failure := failureOf(t, CodeRequestBodyFailed, err)
	require.True(t, failure.BytesSent)
	require.ErrorIs(t, err, broken)
	require.NotContains(t, err.Error(), "secret")
}

// The end of the caller's context cancels the request at the peer, before and after the headers.
func TestRoundTripCancelsThePeer(t *testing.T) {
	t.Parallel()
	reached, gone := make(chan struct{}), make(chan struct{})
	wait := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/headers" {
			_ = http.NewResponseController(w).Flush()
		}
		reached <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}
	plain := site(t, wait)
	encrypted, trusting := secure(t, wait)
	for base, c := range map[string]*Client{plain: newClient(t, dev(), Options{}), encrypted: trusting} {
		for _, path := range []string{"/", "/headers"} {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-reached
				cancel()
			}()
			resp, err := get(ctx, t, c, base+path, Bounds{Timeout: long})
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				require.NoError(t, resp.Body.Close())
			}
			requireCode(t, CodeCanceled, err)
			<-gone
		}
	}
}

// Informational responses reach the hook of a caller that forwards them.
func TestRoundTripInformationalResponses(t *testing.T) {
	t.Parallel()
	base := site(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	})
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			hints = append(hints, http.StatusText(status)+" "+h.Get("Link"))
			return nil
		}})
	resp, err := get(ctx, t, newClient(t, dev(), Options{}), base, Bounds{})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, []string{"Early Hints </a>"}, hints)
	require.NoError(t, resp.Body.Close())
}

// The policy is enforced when a connection is made, for every request: a name that has moved to another address since
// the last request leads nowhere.
func TestRoundTripRefusesRebinding(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	base := site(t, func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		w.Header().Set("Connection", "close")
	})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	require.NoError(t, err)
	var address atomic.Pointer[netip.Addr]
	move := func(to string) {
		a := netip.MustParseAddr(to)
		address.Store(&a)
	}
	only := netip.MustParsePrefix("127.0.0.1/32")
	c := newClient(t, Policy{AllowHTTP: true, AllowCIDRs: []netip.Prefix{only}},
		Options{Resolver: resolver(func(string) []netip.Addr { return []netip.Addr{*address.Load()} })})
	send := func() error {
		resp, err := get(t.Context(), t, c, "http://rebind.test:"+port, Bounds{Timeout: long})
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
		return err
	}
	move("127.0.0.1")
	require.NoError(t, send())
	for _, to := range []string{"127.0.0.2", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.2"} {
		move(to)
		failure := failureOf(t, CodeTargetRefused, send())
		require.True(t, failure.Permanent)
		require.False(t, failure.BytesSent)
	}
	move("127.0.0.1")
	require.NoError(t, send())
	require.Equal(t, int64(2), reached.Load())
}

// Requests that ParseTarget or Do would not produce are refused before any connection, and their bodies are closed.
func TestRoundTripRefuses(t *testing.T) {
	t.Parallel()
	c := newClient(t, Policy{}, Options{})
	for name, tt := range map[string]struct {
		raw  string
		edit func(*http.Request)
		code string
	}{
		"http":       {"http://example.test/", nil, CodeSchemeRefused},
		"userinfo":   {"https://u:p@example.test/", nil, CodeUserinfoRefused},
		"private":    {"https://10.0.0.1/", nil, CodeTargetRefused},
		"localhost":  {"https://a.localhost/", nil, CodeTargetRefused},
		"number":     {"https://2130706433/", nil, CodeURLInvalid},
		"no URL":     {"https://a.test/", func(q *http.Request) { q.URL = nil }, CodeRequestInvalid},
		"no host":    {"https://a.test/", func(q *http.Request) { q.URL.Host = "" }, CodeRequestInvalid},
		"opaque":     {"https://a.test/", func(q *http.Request) { q.URL.Opaque = "//b.test/" }, CodeURLInvalid},
		"other host": {"https://a.test/", func(q *http.Request) { q.Host = "b.test" }, CodeRequestInvalid},
		"other port": {"https://a.test/", func(q *http.Request) { q.Host = "a.test:80" }, CodeRequestInvalid},
		"tunnel":     {"https://a.test/", func(q *http.Request) { q.Method = http.MethodConnect }, CodeRequestInvalid},
		"length, no body": {"https://a.test/", func(q *http.Request) {
			q.Body, q.ContentLength = nil, 5
		}, CodeRequestInvalid},
		"no framing": {"https://a.test/", func(q *http.Request) { q.TransferEncoding = []string{"identity"} },
			CodeRequestInvalid},
		"header": {"https://a.test/", func(q *http.Request) { q.Header.Set("A", "b\r\nc: d") }, CodeRequestInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := io.Pipe()
			req := request(t, tt.raw, r)
			hasBody := true
			if tt.edit != nil {
				tt.edit(req)
				hasBody = req.Body != nil
			}
			_, err := c.RoundTripper(Bounds{Timeout: long}).RoundTrip(req) //nolint:bodyclose // fails
			failure := failureOf(t, tt.code, err)
			require.True(t, failure.Permanent)
			require.False(t, failure.BytesSent)
			if hasBody {
				_, err = w.Write([]byte("x"))
				require.ErrorIs(t, err, io.ErrClosedPipe)
			}
		})
	}
}

// Two spellings of the same host are one: some libraries drop the default port.
func TestRoundTripKeepsTheHostHeader(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("https://Example.test:443/")
	require.NoError(t, err)
	for host, ok := range map[string]bool{"": true, "example.test": true, "Example.test:443": true, "example.test.": true,
		"example.test:444": false} {
		err := newClient(t, Policy{}, Options{}).checkForeign(&http.Request{URL: u, Host: host})
		require.Equal(t, ok, err == nil, host)
	}
}

// An upload moves to another connection when an idle one had ended, if nothing of it was read or it can be had again.
func TestRoundTripReplacesDeadIdleConnection(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"with GetBody": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpload(&http.Request{Body: io.NopCloser(strings.NewReader("hello")), ContentLength: 5})
			if again {
				u.getBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("hello")), nil }
			}
			first := u.part()
			require.NoError(t, first.Close())
			require.True(t, u.rewind(), "nothing was read")
			second := u.part()
			_, err := first.Read(make([]byte, 1))
			require.ErrorIs(t, err, errUploadOver)
			n, err := second.Read(make([]byte, 2))
			require.NoError(t, err)
			require.Equal(t, 2, n)
			require.NoError(t, second.Close())
			require.Equal(t, again, u.rewind(), "a part was read")
			if !again {
				return
			}
			text, err := io.ReadAll(u.part())
			require.NoError(t, err)
			require.Equal(t, "hello", string(text))
			u.close()
			require.False(t, u.rewind(), "it is over")
		})
	}
}

// An http.Client for libraries returns redirects, and its errors can be distinguished by their codes.
func TestHTTPClient(t *testing.T) {
	t.Parallel()
	base := site(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	c := newClient(t, dev(), Options{}).HTTPClient(Bounds{})
	resp, err := c.Do(request(t, base, nil))
	require.NoError(t, err)
	require.Equal(t, http.StatusFound, resp.StatusCode)
	require.NoError(t, resp.Body.Close())

	c = newClient(t, Policy{AllowHTTP: true}, Options{}).HTTPClient(Bounds{})
	_, err = c.Do(request(t, base, nil)) //nolint:bodyclose // fails
	requireCode(t, CodeTargetRefused, err)
}

// A proxy that the environment names gets nothing.
//
//nolint:paralleltest // it sets variables of the environment
func TestEnvironmentNamesNoProxy(t *testing.T) {
	proxy := "http://" + peer(t, func(net.Conn) { t.Error("the proxy was asked") })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy)
	}
	base := site(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
	// net/http never sends loopback addresses to a proxy, so the site has a name.
	c := newClient(t, dev(), Options{Resolver: resolver(func(string) []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})})
	require.Nil(t, c.transport.Proxy)
	resp, err := get(t.Context(), t, c, "http://site.test:"+port, Bounds{Timeout: long})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}
