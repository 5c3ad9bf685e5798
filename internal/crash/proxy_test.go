package crash_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// proxy stands between the server and PostgreSQL and can take the network away.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	cut   bool
	pairs map[net.Conn]net.Conn
	// armed says that the next commit of an event is to be carried out and its response lost; doomed is the client that
	// asked for it. storing holds the clients that have sent an event and not committed it yet.
	armed   bool
	doomed  net.Conn
	storing map[net.Conn]bool
}

// newProxy returns a proxy to the database of the URL, and the URL that leads through it.
func newProxy(t *testing.T, databaseURL string) (p *proxy, through string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p = &proxy{listener: l, target: u.Host, pairs: map[net.Conn]net.Conn{}, storing: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() { p.serve(t) })
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		p.setCut(true)
		await.Return(t, "the end of the proxied connections", serving.Wait)
	})
	u.Host = l.Addr().String()
	q := u.Query()
	q.Del("connect_timeout") // as in production, where a silent address is left soon
	u.RawQuery = q.Encode()
	return p, u.String()
}

func (p *proxy) serve(t *testing.T) {
	var pumps sync.WaitGroup
	defer pumps.Wait()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the listener was closed
		}
		var d net.Dialer
		server, err := d.DialContext(t.Context(), "tcp", p.target)
		if err != nil || !p.add(client, server) {
			reset(client)
			if err == nil {
				reset(server)
			}
			continue
		}
		pumps.Go(func() { p.pump(client, client, server) })
		pumps.Go(func() { p.pump(client, server, client) })
	}
}

// add registers a pair of connections unless the network is cut.
func (p *proxy) add(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.pairs[client] = server
	}
	return !p.cut
}

// pump copies one direction until either side ends, and then ends both.
func (p *proxy) pump(client, from, to net.Conn) {
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		if err != nil || !p.pass(client, from == client, buffer[:n]) {
			break
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if server, ok := p.pairs[client]; ok {
		delete(p.pairs, client)
		reset(client)
		reset(server)
	}
}

// commitName is how pgx names the prepared statement that commits an event together with its last rows.
var commitName = func() []byte {
	digest := sha256.Sum256([]byte("commit"))
	return fmt.Appendf(nil, "stmtcache_%x\x00", digest[:24])
}()

// isCommit reports whether a client commits with the message.
func isCommit(message []byte) bool {
	return bytes.Contains(message, []byte("commit\x00")) || bytes.Contains(message, commitName)
}

// pass reports whether what one side has sent may reach the other.
func (p *proxy) pass(client net.Conn, request bool, message []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if request && bytes.Contains(message, []byte(bodyPrefix)) {
		p.storing[client] = true
	}
	if request && isCommit(message) {
		if p.armed && p.storing[client] {
			p.armed, p.doomed = false, client
		}
		delete(p.storing, client)
	}
	if request || p.doomed != client {
		return true
	}
	p.setCutLocked(true)
	return false
}

// cutAtCommit cuts the network when the response to the next commit of an event is on its way.
func (p *proxy) cutAtCommit(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	p.armed = true
	p.mu.Unlock()
	waitFor(t, "an event is committed", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.cut
	})
}

// setCut cuts every connection and refuses new ones, or lets new ones through again.
func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setCutLocked(cut)
}

func (p *proxy) setCutLocked(cut bool) {
	p.cut, p.doomed = cut, nil
	if !cut {
		return
	}
	for client, server := range p.pairs {
		reset(client)
		reset(server)
	}
	clear(p.pairs)
	clear(p.storing)
}

// reset ends a connection immediately, with its requests in progress.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // else it ends politely
	}
	_ = c.Close() // it may have ended by itself
}
