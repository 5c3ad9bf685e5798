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

// Timings are the durations of an exchange's phases. A phase that did not happen is zero, such as DNS, Connect and TLS
// over an idle connection.
type Timings struct {
	DNS, Connect, TLS time.Duration
	// FirstByte runs from having a connection to the first byte of the response.
	FirstByte time.Duration
	// Total runs from the call to the end of the exchange.
	Total time.Duration
}

// countedConn shows whether a byte may have been sent since a given moment.
type countedConn struct {
	net.Conn
	writes atomic.Int64
}

// Write counts before it writes, because a blocked write may have sent something. A write of which the kernel took
// nothing, as on a closed connection, does not count.
func (c *countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	n, err := c.Conn.Write(p)
	if n == 0 && err != nil {
		c.writes.Add(-1)
	}
	return n, err
}

// trace follows a request over one connection. Its hooks run on several goroutines, some after the exchange has ended.
type trace struct {
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

func (t *trace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { t.stamp(&t.dnsStart, true) },
		DNSDone:              func(httptrace.DNSDoneInfo) { t.stamp(&t.dnsDone, false) },
		ConnectStart:         func(string, string) { t.stamp(&t.dialStart, true) },
		ConnectDone:          t.connectDone,
		TLSHandshakeStart:    func() { t.stamp(&t.tlsStart, true) },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { t.stamp(&t.tlsDone, false) },
		GotConn:              t.connected,
		GotFirstResponseByte: func() { t.stamp(&t.firstByte, true) },
	}
}

// stamp records the time. first keeps an earlier one, because several addresses are dialled in parallel.
func (t *trace) stamp(at *time.Time, first bool) {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !first || at.IsZero() {
		*at = now
	}
}

func (t *trace) connectDone(_, _ string, err error) {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil || t.dialDone.IsZero() {
		t.dialDone = now
	}
}

// connected records the connection. net/http calls it again when it sends a request without body a second time on its
// own. If a byte may have been sent before, connected closes the new connection, because only the caller decides about
// another attempt. Over HTTP/2, where other exchanges share the connection, net/http sends again only what the peer
// says it did not process (RFC 9113 §8.7).
func (t *trace) connected(info httptrace.GotConnInfo) {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	c := info.Conn
	tlsConn, encrypted := c.(*tls.Conn)
	if encrypted {
		c = tlsConn.NetConn()
	}
	if t.sentLocked() {
		if !encrypted || tlsConn.ConnectionState().NegotiatedProtocol != "h2" {
			_ = info.Conn.Close()
		}
		return
	}
	t.gotConn, t.reused = now, info.Reused
	t.conn, _ = c.(*countedConn)
	if t.conn != nil {
		t.writesBefore = t.conn.writes.Load()
	}
}

// sentLocked reports whether a byte of the request may have been sent. The caller holds mu.
func (t *trace) sentLocked() bool {
	if t.gotConn.IsZero() {
		return false
	}
	return t.conn == nil || t.conn.writes.Load() != t.writesBefore
}

// failure returns how far the request came, whether a byte of it may have been sent, and whether its connection had
// been idle.
func (t *trace) failure() (at phase, sent, reused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.firstByte.IsZero():
		at = phaseResponse
	case !t.gotConn.IsZero():
		at = phaseConnected
	case !t.tlsStart.IsZero():
		at = phaseTLS
	case !t.dialStart.IsZero() || !t.dnsStart.IsZero():
		at = phaseDial
	}
	return at, t.sentLocked(), t.reused
}

// timings returns the phases as they stand now.
func (t *trace) timings() Timings {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	d := Timings{Total: now.Sub(t.begin), FirstByte: span(t.gotConn, t.firstByte)}
	if !t.reused { // a dial that was started and then not needed does not describe this exchange
		d.DNS, d.Connect, d.TLS = span(t.dnsStart, t.dnsDone), span(t.dialStart, t.dialDone), span(t.tlsStart, t.tlsDone)
	}
	return d
}

func span(from, to time.Time) time.Duration {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return max(0, to.Sub(from))
}
