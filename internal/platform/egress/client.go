// Package egress makes every connection that leaves the process: one HTTP client with one address policy, one deadline
// for the whole exchange, and errors that contain no URL. See README.md for what it refuses and why.
package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"sallyport/internal/platform/clock"
)

const (
	defaultTimeout        = 15 * time.Second
	defaultDialTimeout    = 10 * time.Second
	defaultMaxIdlePerHost = 128
	idleConnTimeout       = 75 * time.Second
	maxIdle               = 1024
	// maxResponseHeaderBytes limits the header section of a response.
	maxResponseHeaderBytes = 64 << 10
	// writeBuffer lets the header and body of an ordinary webhook leave in one packet, and one system call.
	writeBuffer = 8 << 10
	// continueTimeout is how long a request with "Expect: 100-continue" waits before it sends its body all the same
	// (RFC 9110 §10.1.1).
	continueTimeout = time.Second
	// http2Ping and http2PingTimeout detect a peer that went away silently.
	http2Ping, http2PingTimeout = 30 * time.Second, 10 * time.Second
)

// Options tune a Client. The zero value is ready to use.
type Options struct {
	// MaxIdlePerHost is the number of idle connections kept per host; 0 means 128.
	MaxIdlePerHost int
	// MaxConnsPerHost limits the connections per host; 0 means no limit.
	MaxConnsPerHost int
	// DialTimeout limits the connection attempt, and separately its TLS handshake; 0 means 10 s. It also ends a
	// connection attempt that outlives its request.
	DialTimeout time.Duration
	// TLS is the base of the TLS settings, for example with other root certificates; nil means the system's roots. The
	// minimum version is TLS 1.2.
	TLS *tls.Config
	// Resolver resolves names; nil means the system's resolver.
	Resolver *net.Resolver
	// Clock measures the phases; nil means the system clock. Deadlines always use real time.
	Clock clock.Clock
}

// Client sends requests to targets that its policy allows. It follows no redirect, keeps no cookie, uses no proxy from
// the environment, decompresses nothing and never sends a request twice. It is safe for concurrent use.
type Client struct {
	policy    Policy
	guard     *guard
	resolver  *net.Resolver
	clock     clock.Clock
	transport *http.Transport
	// idle and buffers are those of direct exchanges.
	idle    idleConns
	buffers buffers
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
		idle: idleConns{perHost: o.MaxIdlePerHost, all: max(maxIdle, o.MaxIdlePerHost)},
		transport: &http.Transport{
			Proxy: nil, // the environment does not decide where credentials go
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dialer.DialContext(followDial(ctx), network, addr)
				if err != nil {
					return nil, err
				}
				return &countedConn{Conn: conn}, nil
			},
			TLSClientConfig:        tlsConfig,
			TLSHandshakeTimeout:    o.DialTimeout,
			ExpectContinueTimeout:  continueTimeout,
			DisableCompression:     true,
			MaxIdleConns:           max(maxIdle, o.MaxIdlePerHost),
			MaxIdleConnsPerHost:    o.MaxIdlePerHost,
			MaxConnsPerHost:        o.MaxConnsPerHost,
			IdleConnTimeout:        idleConnTimeout,
			MaxResponseHeaderBytes: maxResponseHeaderBytes,
			WriteBufferSize:        writeBuffer,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: http2Ping, PingTimeout: http2PingTimeout},
		},
	}
}

// Close closes the idle connections. It does not affect exchanges in progress.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.idle.close()
}
