// Package egress is the only way out of the process: one HTTP client with one address policy, one deadline over the
// whole exchange, and errors that carry no URL. See README.md for what it refuses and why.
package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"sallyport/internal/platform/clock"
)

const (
	defaultTimeout        = 15 * time.Second
	defaultDialTimeout    = 10 * time.Second
	defaultMaxIdlePerHost = 128
	idleTimeout           = 75 * time.Second
	maxIdle               = 1024
	// maxResponseHeaderBytes bounds the answer's header section.
	maxResponseHeaderBytes = 64 << 10
	// writeBuffer lets the header and body of an ordinary webhook leave in one packet, and one system call.
	writeBuffer = 8 << 10
	// drainBytes is how much of an answer beyond what is kept is read, so that its connection can be kept.
	drainBytes = 64 << 10
	// firstRead is the room for a body of unknown length, maxFirstRead the most for one of announced length.
	firstRead, maxFirstRead = 512, 64 << 10
	// http2Ping and http2PingTimeout find a peer that went away without a word.
	http2Ping, http2PingTimeout = 30 * time.Second, 10 * time.Second
	// defaultUserAgent is sent where the request has none.
	defaultUserAgent = "sallyport"
	// maxUnsent is how often a request is taken to another connection because a kept one had ended before its first
	// byte was sent.
	maxUnsent = 3
)

// Options tune a Client. The zero value is ready to use.
type Options struct {
	// MaxIdlePerHost is how many connections to one host are kept; 0 means 128.
	MaxIdlePerHost int
	// MaxConnsPerHost bounds the connections to one host; 0 means no bound.
	MaxConnsPerHost int
	// DialTimeout bounds the making of a connection, and once more its TLS handshake; 0 means 10 s. It also ends what
	// goes on behind a request that has given up waiting.
	DialTimeout time.Duration
	// TLS is the base of the TLS settings, such as other roots; nil means the system's roots. TLS 1.2 is the least.
	TLS *tls.Config
	// Resolver looks names up; nil means the system's.
	Resolver *net.Resolver
	// Clock times the phases; nil means the system's. Deadlines are always real time.
	Clock clock.Clock
}

// Client sends requests to targets that the policy allows. It follows no redirect, keeps no cookie, uses no proxy from
// the environment, decompresses nothing and never sends a request twice. It is safe for concurrent use.
type Client struct {
	policy    Policy
	guard     *guard
	resolver  *net.Resolver
	clock     clock.Clock
	transport *http.Transport
}

// Request is one request.
type Request struct {
	// Method is mandatory.
	Method string
	// URL comes from ParseTarget. It is not changed.
	URL *url.URL
	// Header is sent as it is and not changed; Host in it is ignored. A User-Agent is added where there is none, which
	// costs a copy.
	Header http.Header
	// Body must not be changed after Do was called: a write may outlast a cancelled exchange.
	Body []byte
	// Timeout bounds the whole exchange, from name resolution to the last byte of the body; 0 means 15 s.
	Timeout time.Duration
	// MaxResponseBytes is how much of the answer's body is kept.
	MaxResponseBytes int64
}

// Response is an answer, whatever its status; a redirect is an answer too.
type Response struct {
	Status int
	Header http.Header
	// Body is the first MaxResponseBytes of the body as sent, not decompressed.
	Body []byte
	// Truncated is true when there was more.
	Truncated bool
	Timings   Timings
}

// New returns a Client.
func New(p Policy, o Options) *Client {
	if o.DialTimeout <= 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.MaxIdlePerHost <= 0 {
		o.MaxIdlePerHost = defaultMaxIdlePerHost
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		tlsConfig = o.TLS.Clone()
		tlsConfig.MinVersion = max(tlsConfig.MinVersion, tls.VersionTLS12)
	}
	g := newGuard(p)
	dialer := &net.Dialer{Timeout: o.DialTimeout, Resolver: o.Resolver, Control: g.control}
	return &Client{
		policy: p, guard: g, resolver: o.Resolver, clock: o.Clock,
		transport: &http.Transport{
			Proxy: nil, // the environment does not choose where credentials go
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &countedConn{Conn: conn}, nil
			},
			TLSClientConfig:        tlsConfig,
			TLSHandshakeTimeout:    o.DialTimeout,
			DisableCompression:     true,
			MaxIdleConns:           max(maxIdle, o.MaxIdlePerHost),
			MaxIdleConnsPerHost:    o.MaxIdlePerHost,
			MaxConnsPerHost:        o.MaxConnsPerHost,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxResponseHeaderBytes,
			WriteBufferSize:        writeBuffer,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: http2Ping, PingTimeout: http2PingTimeout},
		},
	}
}

// Close ends the kept connections. Exchanges under way are not touched.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Do sends the request and reads the answer. When the answer broke off, both are returned: the Response holds status,
// headers and what there is of the body.
func (c *Client) Do(ctx context.Context, r Request) (Response, *Error) {
	own, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	resp, x, err := c.send(ctx, own, r) //nolint:bodyclose // finish closes it
	if err != nil {
		return Response{}, err
	}
	return c.finish(ctx, own, x, resp, r.MaxResponseBytes)
}

func (r *Request) timeout() time.Duration {
	if r.Timeout <= 0 {
		return defaultTimeout
	}
	return r.Timeout
}

// send sends the request and returns when the headers of the answer are there, whose body the caller closes. The
// exchange ends with own; parent tells whether the caller or the time ended it.
func (c *Client) send(parent, own context.Context, r Request) (*http.Response, *exchange, *Error) {
	if r.URL == nil {
		return nil, nil, &Error{Code: CodeRequestInvalid, Message: message(CodeRequestInvalid), Permanent: true}
	}
	if terr := c.checkParts(r.URL); terr != nil {
		return nil, nil, &Error{Code: terr.Code, Message: terr.Message, Permanent: true}
	}
	header := r.Header
	if _, ok := header["User-Agent"]; !ok {
		header = header.Clone()
		if header == nil {
			header = http.Header{}
		}
		header.Set("User-Agent", defaultUserAgent)
	}
	begin := c.clock.Now()
	for try := 1; ; try++ {
		x := &exchange{clock: c.clock, begin: begin}
		resp, err := c.transport.RoundTrip(newRequest(httptrace.WithClientTrace(own, x.trace()), r, header))
		if err == nil {
			return resp, x, nil
		}
		at, sent, reused := x.failure()
		// A kept connection had ended before the first byte: nothing was sent, so this is no second sending.
		if reused && !sent && own.Err() == nil && try < maxUnsent {
			continue
		}
		// A cancelled exchange returns while its write may be about to start.
		sent = sent || (at >= phaseConnected && own.Err() != nil)
		return nil, nil, newError(classify(parent, own, err, at), x.timings(), sent)
	}
}

func newError(code string, t Timings, sent bool) *Error {
	permanent := code == CodeTargetRefused || code == CodeRequestInvalid
	return &Error{Code: code, Message: message(code), Timings: t, Permanent: permanent, BytesSent: sent}
}

// requestBody is a body that net/http cannot take for one it may send again: GetBody stays nil, and the type is not one
// it knows.
type requestBody struct{ bytes.Reader }

func (*requestBody) Close() error { return nil }

func newRequest(ctx context.Context, r Request, header http.Header) *http.Request {
	q := &http.Request{
		Method: r.Method, URL: r.URL, Host: r.URL.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if len(r.Body) > 0 {
		b := &requestBody{}
		b.Reset(r.Body)
		q.Body, q.ContentLength = b, int64(len(r.Body))
	}
	return q.WithContext(ctx)
}

// finish reads the answer's body.
func (c *Client) finish(parent, own context.Context, x *exchange, resp *http.Response, limit int64) (Response, *Error) {
	out := Response{Status: resp.StatusCode, Header: resp.Header}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		out.Timings = x.timings()
		return out, newError(CodeResponseInvalid, out.Timings, true)
	}
	body, truncated, err := readBody(resp, max(0, limit))
	if err == nil && truncated && resp.ContentLength <= limit+drainBytes {
		// What is wanted is here: an error in the rest only costs the connection.
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	}
	out.Body, out.Truncated, out.Timings = body, truncated, x.timings()
	if err != nil {
		return out, newError(classify(parent, own, err, phaseAnswering), out.Timings, true)
	}
	return out, nil
}

// readBody reads up to limit bytes, and one more to see whether there are more. It takes memory as bytes arrive, not as
// the peer announces them.
func readBody(resp *http.Response, limit int64) (body []byte, truncated bool, err error) {
	if resp.Body == http.NoBody || resp.ContentLength == 0 {
		return nil, false, nil
	}
	size := min(firstRead, limit)
	if resp.ContentLength > 0 {
		size = min(resp.ContentLength, maxFirstRead, limit)
	}
	buf := make([]byte, 0, size+1)
	for int64(len(buf)) <= limit {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*int64(cap(buf)), limit+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := resp.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return buf[:limit:limit], true, nil
		case errors.Is(err, io.EOF):
			return buf, false, nil
		case err != nil:
			return buf, false, err
		}
	}
	return buf, false, nil
}
