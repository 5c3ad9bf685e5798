package egress

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/clock"
)

// Timings are the durations of an exchange's phases. A phase that did not happen is zero: DNS, Connect and TLS when a
// kept connection was used.
type Timings struct {
	DNS, Connect, TLS time.Duration
	// FirstByte runs from having a connection to the first byte of the answer.
	FirstByte time.Duration
	// Total runs from the call of Do to its end.
	Total time.Duration
}

// countedConn tells whether a byte may have left since a given moment.
type countedConn struct {
	net.Conn
	writes atomic.Int64
}

// Write counts before it writes, so that a write that is still blocked counts as one that may have sent something. One
// of which the kernel took nothing, as on a connection that is closed, counts no more.
func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	n, err := c.Conn.Write(p)
	if n == 0 && err != nil {
		c.writes.Add(-1)
	}
	return n, err
}

// exchange follows one request through net/http. Its hooks run on several goroutines, some after the exchange has
// ended.
type exchange struct {
	clock clock.Clock
	begin time.Time

	mu                  sync.Mutex
	dnsStart, dnsDone   time.Time
	dialStart, dialDone time.Time
	tlsStart, tlsDone   time.Time
	gotConn, firstByte  time.Time
	reused              bool
	conn                *countedConn
	writesBefore        int64
}

func (x *exchange) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { x.stamp(&x.dnsStart, true) },
		DNSDone:              func(httptrace.DNSDoneInfo) { x.stamp(&x.dnsDone, false) },
		ConnectStart:         func(string, string) { x.stamp(&x.dialStart, true) },
		ConnectDone:          x.connectDone,
		TLSHandshakeStart:    func() { x.stamp(&x.tlsStart, true) },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { x.stamp(&x.tlsDone, false) },
		GotConn:              x.connected,
		GotFirstResponseByte: func() { x.stamp(&x.firstByte, true) },
	}
}

// stamp notes the time; first keeps an earlier one, for several addresses are tried at once.
func (x *exchange) stamp(t *time.Time, first bool) {
	now := x.clock.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !first || t.IsZero() {
		*t = now
	}
}

func (x *exchange) connectDone(_, _ string, err error) {
	now := x.clock.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil || x.dialDone.IsZero() {
		x.dialDone = now
	}
}

// connected notes the connection. net/http calls it again when it sends a request without body a second time on its
// own; once a byte may have left, that connection is closed instead, for only the caller decides about another try.
// Over HTTP/2, where other exchanges share the connection, net/http does that only after the peer has said that it did
// not process the request (RFC 9113 §8.7).
func (x *exchange) connected(info httptrace.GotConnInfo) {
	now := x.clock.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	c := info.Conn
	t, encrypted := c.(*tls.Conn)
	if encrypted {
		c = t.NetConn()
	}
	if x.sentLocked() {
		if !encrypted || t.ConnectionState().NegotiatedProtocol != "h2" {
			_ = info.Conn.Close()
		}
		return
	}
	x.gotConn, x.reused = now, info.Reused
	x.conn, _ = c.(*countedConn)
	if x.conn != nil {
		x.writesBefore = x.conn.writes.Load()
	}
}

// sentLocked reports whether a byte of the request may have left. The caller holds mu.
func (x *exchange) sentLocked() bool {
	if x.gotConn.IsZero() {
		return false
	}
	return x.conn == nil || x.conn.writes.Load() != x.writesBefore
}

// failure describes how far the exchange came: the phase, whether bytes may have left, and whether the connection was a
// kept one.
func (x *exchange) failure() (at phase, sent, reused bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case !x.firstByte.IsZero():
		at = phaseAnswering
	case !x.gotConn.IsZero():
		at = phaseConnected
	case !x.tlsStart.IsZero():
		at = phaseTLS
	case !x.dialStart.IsZero() || !x.dnsStart.IsZero():
		at = phaseDial
	}
	return at, x.sentLocked(), x.reused
}

// timings returns the phases as they stand now.
func (x *exchange) timings() Timings {
	now := x.clock.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	t := Timings{Total: now.Sub(x.begin)}
	if x.reused {
		// The hooks of a dial that another request's connection made needless do not describe this exchange.
		t.FirstByte = span(x.gotConn, x.firstByte)
		return t
	}
	t.DNS, t.Connect, t.TLS = span(x.dnsStart, x.dnsDone), span(x.dialStart, x.dialDone), span(x.tlsStart, x.tlsDone)
	t.FirstByte = span(x.gotConn, x.firstByte)
	return t
}

func span(from, to time.Time) time.Duration {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return max(0, to.Sub(from))
}
