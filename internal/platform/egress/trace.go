package egress

import (
	"context"
	"crypto/tls"
	"errors"
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

// countedConn shows whether a byte may have been sent since a given moment, and asks for the permit of an exchange
// before it sends the first.
type countedConn struct {
	net.Conn
	writes atomic.Int64
	permit atomic.Pointer[permit]
}

var errNotPermitted = errors.New("the caller has withdrawn the request")

// permit asks the caller for its permit to send the request; see Request.
type permit struct {
	ask func() bool
	// refuse ends the exchange.
	refuse  func()
	refused atomic.Bool
}

// given asks, and ends the exchange if the permit is refused.
func (p *permit) given() bool {
	if p == nil || p.ask == nil || p.ask() {
		return true
	}
	p.refused.Store(true)
	p.refuse()
	return false
}

// Write counts before it writes, because a blocked write may have sent something. A write of which the kernel took
// nothing, as on a closed connection, does not count.
func (c *countedConn) Write(p []byte) (int, error) {
	if !c.permit.Swap(nil).given() {
		return 0, errNotPermitted
	}
	c.writes.Add(1)
	n, err := c.Conn.Write(p)
	if n == 0 && err != nil {
		c.writes.Add(-1)
	}
	return n, err
}

// trace follows a request over one connection. Its hooks run on several goroutines, some after the exchange has ended.
// It is the request's context, which saves one of its own.
type trace struct {
	context.Context //nolint:containedctx // it is one
	hooks           httptrace.ClientTrace

	clock  clock.Clock
	begin  time.Time
	permit permit

	mu                  sync.Mutex
	dnsStart, dnsDone   time.Time
	dialStart, dialDone time.Time
	tlsStart, tlsDone   time.Time
	gotConn, firstByte  time.Time
	reused              bool
	conn                *countedConn
	writesBefore        int64
}

// follow returns a context of which net/http reports to the trace what it does for the request.
func (t *trace) follow(ctx context.Context) context.Context {
	t.Context = ctx
	t.hooks.GotConn, t.hooks.GotFirstResponseByte = t.connected, func() { t.stamp(&t.firstByte, true) }
	t.hooks.TLSHandshakeStart = func() { t.stamp(&t.tlsStart, true) }
	t.hooks.TLSHandshakeDone = func(tls.ConnectionState, error) { t.stamp(&t.tlsDone, false) }
	return httptrace.WithClientTrace(t, &t.hooks)
}

type traceKey struct{}

// Value returns the trace itself to followDial.
func (t *trace) Value(key any) any {
	if key == (traceKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// followDial returns a context of which the dialer reports to the trace of the request that it dials for. Few requests
// need a new connection, so the others do without these hooks.
func followDial(ctx context.Context) context.Context {
	t, ok := ctx.Value(traceKey{}).(*trace)
	if !ok {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { t.stamp(&t.dnsStart, true) },
		DNSDone:      func(httptrace.DNSDoneInfo) { t.stamp(&t.dnsDone, false) },
		ConnectStart: func(string, string) { t.stamp(&t.dialStart, true) },
		ConnectDone:  t.connectDone,
	})
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
	shared := encrypted && tlsConn.ConnectionState().NegotiatedProtocol == "h2"
	if t.sentLocked() {
		if !shared {
			_ = info.Conn.Close()
		}
		return
	}
	t.gotConn, t.reused = now, info.Reused
	t.conn, _ = c.(*countedConn)
	if t.conn != nil {
		t.writesBefore = t.conn.writes.Load()
	}
	switch {
	case shared:
		t.permit.given() // the next write may be that of another exchange; net/http sends nothing of a cancelled one
	case t.conn != nil:
		t.conn.permit.Store(&t.permit)
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
