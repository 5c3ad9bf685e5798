package httpserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpserver"
	"sallyport/internal/platform/testkit/await"
)

// rawServer serves requests over TCP and remembers those that reached the handler.
type rawServer struct {
	*httpserver.Server
	mu   sync.Mutex
	seen []string
}

// newRawServer starts a server whose handler responds to each request with its method, path and body.
func newRawServer(t *testing.T, handle http.HandlerFunc, change ...func(*httpserver.Config)) *rawServer {
	t.Helper()
	s := &rawServer{}
	c := httpserver.Config{Name: "public", Address: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		ErrorBody: func(status int, message string) []byte {
			return fmt.Appendf(nil, `{"error":{"code":"http_error","message":"%s"},"status":%d}`, message, status)
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if handle != nil {
				handle(w, r)
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				w.WriteHeader(http.StatusTeapot)
				var malformed *apperr.Error
				if errors.As(err, &malformed) {
					_, _ = io.WriteString(w, malformed.Message)
				}
				return
			}
			text := r.Method + " " + r.URL.Path + " " + string(body)
			s.mu.Lock()
			s.seen = append(s.seen, text)
			s.mu.Unlock()
			_, _ = io.WriteString(w, text) //nolint:gosec // no browser reads it
		})}
	for _, f := range change {
		f(&c)
	}
	s.Server = httpserver.New(c)
	require.NoError(t, s.Listen(t.Context()))
	s.Serve(t.Context())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), await.Limit)
		defer cancel()
		_ = s.Shutdown(ctx) // a test may have stopped it
	})
	return s
}

func (s *rawServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.seen...)
}

// exchange sends the pieces on one connection and returns all that the server sends until it closes.
func exchange(t require.TestingT, c net.Conn, pieces ...string) string {
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetDeadline(time.Now().Add(await.Limit)))
	go func() {
		for _, piece := range pieces {
			if _, err := io.WriteString(c, piece); err != nil {
				return // the server has closed
			}
		}
	}()
	got, err := io.ReadAll(c)
	require.NoError(t, err, "%s", got)
	return string(got)
}

func dial(t require.TestingT, addr string) net.Conn {
	c, err := (&net.Dialer{}).Dial("tcp", addr)
	require.NoError(t, err)
	return c
}

func byBytes(text string) []string { return strings.Split(text, "") }

// response is one of the responses on a connection.
type response struct {
	status int
	header http.Header
	body   string
	// last says that the server closes the connection after it.
	last bool
}

// responses parses what a server has sent.
func responses(t require.TestingT, text string) []response {
	var all []response
	r := bufio.NewReader(strings.NewReader(text))
	for {
		if _, err := r.Peek(1); err != nil {
			return all
		}
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err, text)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err, text)
		require.NoError(t, resp.Body.Close())
		all = append(all, response{resp.StatusCode, resp.Header, string(body), resp.Close})
	}
}

// requireRejection requires that a response is the envelope of a refused request, on a connection that ends with it.
func requireRejection(t require.TestingT, resp response, status int, message string) {
	require.Equal(t, status, resp.status)
	require.Equal(t, "application/json", resp.header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.header.Get("Cache-Control"))
	require.Len(t, resp.header.Get("X-Request-Id"), 36)
	require.True(t, resp.last)
	require.Contains(t, resp.body, `{"error":{"code":"http_error","message":"`)
	require.Contains(t, resp.body, message)
}

const both = "has Content-Length and Transfer-Encoding"

// A request whose length is ambiguous is refused, and the connection closed, in any order of the headers, however it is
// cut into packets, and also after other requests. The bytes after it never reach the handler.
func TestAmbiguousLengths(t *testing.T) {
	t.Parallel()
	const head = "POST /bad HTTP/1.1\r\nHost: x\r\n"
	const tail = "\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct{ text, message string }{
		"length first":             {head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" + tail, both},
		"coding first":             {head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" + tail, both},
		"other headers between":    {head + "content-length: 5\r\nA: b\r\n c\r\nTRANSFER-ENCODING: chunked\r\n" + tail, both},
		"bare line feeds":          {head + "Content-Length: 5\nTransfer-Encoding: chunked\n" + tail, both},
		"no spaces":                {head + "Transfer-Encoding:chunked\r\nContent-Length:5\r\n" + tail, both},
		"a length of 0":            {head + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n" + tail, both},
		"a length that is none":    {head + "Transfer-Encoding: chunked\r\nContent-Length: x\r\n" + tail, both},
		"another coding":           {head + "Content-Length: 5\r\nTransfer-Encoding: gzip\r\n" + tail, both},
		"identity":                 {head + "Content-Length: 5\r\nTransfer-Encoding: identity\r\n" + tail, both},
		"a coding on two lines":    {head + "Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n" + tail, "on one line"},
		"a length on two lines":    {head + "Content-Length:\r\n\t5\r\n" + tail, "not a number"},
		"a length that goes on":    {head + "Content-Length: 5\r\n 6\r\n" + tail, "on one line"},
		"two equal lengths":        {head + "Content-Length: 5\r\nContent-Length: 5\r\n" + tail, "more than one"},
		"two different lengths":    {head + "Content-Length: 5\r\nContent-Length: 6\r\n" + tail, "more than one"},
		"a list of lengths":        {head + "Content-Length: 5, 5\r\n" + tail, "not a number"},
		"a length with a sign":     {head + "Content-Length: +5\r\n" + tail, "not a number"},
		"a hexadecimal length":     {head + "Content-Length: 0x5\r\n" + tail, "not a number"},
		"a space before the colon": {head + "Content-Length : 5\r\nTransfer-Encoding: chunked\r\n" + tail, "malformed"},
		"a coding of HTTP/1.0": {"POST /bad HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n" +
			"Transfer-Encoding: chunked\r\n" + tail, "HTTP/1.0"},
		"both, of HTTP/1.0": {"POST /bad HTTP/1.0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n" + tail, both},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRawServer(t, nil)
			before := []string{"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n" +
				"Tr: ", "\r\nPOST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: x\r\n\r\n2\r\n\r\n\r\n1;a=b\r\nx\r\n0\r\n" +
				"T: 1\r\n\r\n"}
			for _, pieces := range [][]string{{c.text}, byBytes(c.text)} {
				all := responses(t, exchange(t, dial(t, s.Addr()), pieces...))
				require.Len(t, all, 1)
				requireRejection(t, all[0], http.StatusBadRequest, c.message)
			}
			require.Empty(t, s.requests())
			for _, pieces := range [][]string{{strings.Join(before, "") + c.text},
				byBytes(strings.Join(before, "") + c.text), append(append([]string{}, before...), c.text)} {
				all := responses(t, exchange(t, dial(t, s.Addr()), pieces...))
				require.Len(t, all, 4)
				for _, r := range all[:3] {
					require.Equal(t, http.StatusOK, r.status)
				}
				requireRejection(t, all[3], http.StatusBadRequest, c.message)
			}
			want := []string{"GET /a ", "POST /b Tr: ", "POST /c \r\nx"}
			require.Equal(t, append(append(append([]string{}, want...), want...), want...), s.requests())
		})
	}
}

// The responses that the server itself makes, to requests that reach no handler, are errors like any other.
func TestRejectedRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text    string
		status  int
		message string
	}{
		"no request":          {"hello\r\n\r\n", 400, "The request is malformed"},
		"no path":             {"GET  HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed"},
		"a space in the path": {"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed"},
		"no Host":             {"GET / HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		"a bad Host":          {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "malformed Host header"},
		"two Hosts":           {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "malformed"},
		"no colon":            {"GET / HTTP/1.1\r\nHost: x\r\nA\r\n\r\n", 400, "malformed"},
		"U+0000":              {"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", 400, "malformed"},
		"a large head":        {"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", 431, "64 KiB"},
		"many headers":        {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 20<<10) + "\r\n", 431, "64 KiB"},
		"a large line":        {"GET /" + strings.Repeat("a", 200<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, "64 KiB"},
		"another coding":      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, "chunked"},
		"two codings": {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501,
			"chunked"},
		"another expectation": {"POST / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 1\r\n\r\nx", 417,
			"100-continue"},
		"another version": {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505, "version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRawServer(t, nil)
			for _, before := range []int{0, 2} {
				text := strings.Repeat("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", before) + c.text
				all := responses(t, exchange(t, dial(t, s.Addr()), text))
				require.Len(t, all, before+1)
				requireRejection(t, all[before], c.status, c.message)
			}
			require.Len(t, s.requests(), 2)
		})
	}
}

// A handler cannot cause a rejection: what it writes arrives as it is, also if it looks exactly like a response of
// net/http, begins where a write to the connection begins, or says the same with its status and headers.
func TestHandlersCannotCauseRejections(t *testing.T) {
	t.Parallel()
	const canned = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
		"400 Bad Request"
	for name, handle := range map[string]http.HandlerFunc{
		"a body in pieces": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(2*len(canned)))
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush() // the client checks what arrives
			for range 2 {
				_, _ = io.WriteString(w, canned)
				_ = http.NewResponseController(w).Flush()
			}
		},
		"a large body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(8192+len(canned)))
			_, _ = w.Write(make([]byte, 8192))
			_, _ = io.WriteString(w, canned)
		},
		"a status": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header()["Date"] = nil
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "400 Bad Request")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRawServer(t, handle)
			const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
			got := exchange(t, dial(t, s.Addr()), strings.Repeat(request, 2),
				"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			require.NotContains(t, got, "http_error")
			all := responses(t, got)
			require.Len(t, all, 3)
			for _, r := range all {
				require.Contains(t, r.body, "400 Bad Request")
			}
		})
	}
}

// A chunk that is malformed ends its request, not more: the handler sees that the body is incomplete, and why.
func TestMalformedChunks(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"x\r\n", "5 5\r\nhello\r\n0\r\n\r\n", "2\r\nabc\r\n0\r\n\r\n", "-1\r\n", "\r\n",
		"fffffffffffffffff\r\n", "8000000000000000\r\nx"} {
		s := newRawServer(t, nil)
		all := responses(t, exchange(t, dial(t, s.Addr()),
			"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+body+"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"))
		require.Len(t, all, 1, "%q", body)
		require.Equal(t, http.StatusTeapot, all[0].status, "%q", body)
		require.Regexp(t, "^The request is malformed: .*chunk.* malformed$", all[0].body, "%q", body)
		require.Empty(t, s.requests())
	}
}

// A body in chunks that ends early is not called malformed.
func TestChunksThatEndEarly(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "5\r\nhel", "5\r\nhello\r\n"} {
		s := newRawServer(t, nil)
		c := dial(t, s.Addr())
		_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
		require.NoError(t, err)
		half, ok := c.(interface{ CloseWrite() error })
		require.True(t, ok)
		require.NoError(t, half.CloseWrite())
		all := responses(t, exchange(t, c))
		require.Len(t, all, 1)
		require.Equal(t, http.StatusTeapot, all[0].status)
		require.Empty(t, all[0].body)
	}
}

// Sequences of requests arrive as they were sent, with any bodies, however they are cut; and the first ambiguous one
// ends them.
func TestSequencesOfRequests(t *testing.T) {
	t.Parallel()
	s := newRawServer(t, nil)
	rapid.Check(t, func(rt *rapid.T) {
		var text strings.Builder
		var want []string
		for i := range rapid.IntRange(0, 5).Draw(rt, "requests") {
			body := rapid.StringOfN(rapid.SampledFrom([]rune("ab\r\n :0Content-Length")), 0, 40, -1).Draw(rt, "body")
			fmt.Fprintf(&text, "POST /%d HTTP/1.1\r\nHost: x\r\n", i)
			want = append(want, fmt.Sprintf("POST /%d %s", i, body))
			if rapid.Bool().Draw(rt, "length") {
				fmt.Fprintf(&text, "Content-Length: %d\r\n\r\n%s", len(body), body)
				continue
			}
			text.WriteString("Transfer-Encoding: Chunked\r\n\r\n")
			for len(body) > 0 {
				n := rapid.IntRange(1, len(body)).Draw(rt, "chunk")
				fmt.Fprintf(&text, "%x%s\r\n%s\r\n", n, rapid.SampledFrom([]string{"", ";a", ";a=\"b\""}).Draw(rt, "ext"), body[:n])
				body = body[n:]
			}
			text.WriteString("0\r\n" + rapid.SampledFrom([]string{"", "T: u\r\n"}).Draw(rt, "trailer") + "\r\n")
		}
		text.WriteString("POST /bad HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: x\r\nContent-Length: 3\r\n\r\n0\r\n\r\n")
		var pieces []string
		for rest := text.String(); rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		s.mu.Lock()
		s.seen = nil
		s.mu.Unlock()
		all := responses(rt, exchange(rt, dial(rt, s.Addr()), pieces...))
		require.Len(rt, all, len(want)+1)
		requireRejection(rt, all[len(want)], http.StatusBadRequest, both)
		require.Equal(rt, append([]string{}, want...), s.requests())
	})
}

// testCertificate writes a certificate for example.com and its key to files, and returns them with a pool that trusts
// it.
func testCertificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	source := httptest.NewTLSServer(nil)
	defer await.Close(t, source)
	pair := source.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	pool = x509.NewCertPool()
	pool.AddCert(source.Certificate())
	return certFile, keyFile, pool
}

// Over TLS the same applies, HTTP/2 works, and a request without TLS gets an explanation.
func TestSecureListener(t *testing.T) {
	t.Parallel()
	certFile, keyFile, pool := testCertificate(t)
	s := newRawServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %t", r.Proto, r.TLS != nil) //nolint:gosec // no browser reads it
	}, func(c *httpserver.Config) { c.CertFile, c.KeyFile = certFile, keyFile })
	secure := func() net.Conn {
		c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "example.com"}}).DialContext(t.Context(), "tcp",
			s.Addr())
		require.NoError(t, err)
		return c
	}
	all := responses(t, exchange(t, secure(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	require.Len(t, all, 2)
	require.Equal(t, "HTTP/1.1 true", all[0].body)
	requireRejection(t, all[1], http.StatusBadRequest, both)

	for _, version := range []struct {
		h2   bool
		want string
	}{{false, "HTTP/1.1 true"}, {true, "HTTP/2.0 true"}} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com"},
			ForceAttemptHTTP2: version.h2}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.Addr(), http.NoBody)
		require.NoError(t, err)
		resp, err := transport.RoundTrip(request)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, version.want, string(body))
		transport.CloseIdleConnections()
	}

	all = responses(t, exchange(t, dial(t, s.Addr()), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.Len(t, all, 1)
	requireRejection(t, all[0], http.StatusBadRequest, "https://")

	// Large headers end their request of HTTP/2, and no other of the same connection.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com"},
		ForceAttemptHTTP2: true, MaxConnsPerHost: 1}
	for _, c := range []struct {
		header map[string]string
		status int
	}{
		{map[string]string{"A": strings.Repeat("a", 60<<10)}, http.StatusOK},
		{map[string]string{"A": strings.Repeat("a", 70<<10)}, http.StatusRequestHeaderFieldsTooLarge},
		{map[string]string{"A": strings.Repeat("a", 40<<10), "B": strings.Repeat("b", 40<<10)},
			http.StatusRequestHeaderFieldsTooLarge},
		{nil, http.StatusOK},
	} {
		reused := false
		traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			reused = i.Reused
		}})
		request, err := http.NewRequestWithContext(traced, http.MethodGet, "https://"+s.Addr(), http.NoBody)
		require.NoError(t, err)
		for name, value := range c.header {
			request.Header.Set(name, value)
		}
		resp, err := transport.RoundTrip(request)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode)
		if c.status != http.StatusOK {
			requireRejection(t, response{status: resp.StatusCode, header: resp.Header, body: string(body), last: true},
				c.status, "64 KiB")
		}
		if c.header == nil {
			require.True(t, reused)
		}
	}
	transport.CloseIdleConnections()

	// A connection whose handshake is not complete does not keep the server from stopping.
	waiting := dial(t, s.Addr())
	require.NoError(t, s.Shutdown(t.Context()))
	_, err := waiting.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, waiting.Close())
}
