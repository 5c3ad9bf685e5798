//go:build linux

package soak

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
)

// network is the state of the path from a node to PostgreSQL.
type network int

const (
	// passing carries everything.
	passing network = iota
	// stalled carries nothing and refuses nothing, as a path that loses packets does.
	stalled
	// broken resets every connection.
	broken
)

// proxy is the path from one node to PostgreSQL.
type proxy struct {
	// through is the database's URL by this path.
	through  string
	listener net.Listener
	target   string
	serving  sync.WaitGroup

	mu      sync.Mutex
	state   network
	changed chan struct{} // closed when state changes
	pairs   map[net.Conn]net.Conn
	// loseCommit says that the response to the next commit is to be lost, and doomed is the client that
	// waits for it.
	loseCommit bool
	doomed     net.Conn
}

func newProxy(ctx context.Context, databaseURL string) (*proxy, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, target: u.Host, pairs: map[net.Conn]net.Conn{}, changed: make(chan struct{})}
	u.Host = listener.Addr().String()
	p.through = u.String()
	p.serving.Go(func() { p.serve(ctx) })
	return p, nil
}

func (p *proxy) close() {
	_ = p.listener.Close() // ends serve
	p.set(broken)
	p.serving.Wait()
}

func (p *proxy) serve(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() { p.connect(ctx, client) })
	}
}

// connect carries one connection.
func (p *proxy) connect(ctx context.Context, client net.Conn) {
	if p.await() == broken {
		reset(client)
		return
	}
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	p.mu.Lock()
	if p.state == broken {
		p.mu.Unlock()
		reset(client)
		reset(server)
		return
	}
	p.pairs[client] = server
	p.mu.Unlock()
	p.serving.Go(func() { p.pump(client, server, client) })
	p.pump(client, client, server)
}

// await returns the state when it is not stalled.
func (p *proxy) await() network {
	for {
		p.mu.Lock()
		state, changed := p.state, p.changed
		p.mu.Unlock()
		if state != stalled {
			return state
		}
		<-changed
	}
}

// pump carries one direction of a client's connection until either side ends, and then ends both.
func (p *proxy) pump(client, from, to net.Conn) {
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		if err != nil || p.await() == broken || !p.pass(client, from == client, buffer[:n]) {
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

// pass reports whether what one side has sent may reach the other. The response to a commit that is to be lost does
// not, and the path breaks instead.
func (p *proxy) pass(client net.Conn, request bool, message []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if request {
		if p.loseCommit && bytes.Contains(message, []byte("commit\x00")) {
			p.loseCommit, p.doomed = false, client
		}
		return true
	}
	if p.doomed != client {
		return true
	}
	p.setLocked(broken)
	return false
}

// breakAtCommit breaks the path when the response to the next commit is on it.
func (p *proxy) breakAtCommit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loseCommit = true
}

// set changes the state of the path.
func (p *proxy) set(state network) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loseCommit = false
	p.setLocked(state)
}

func (p *proxy) setLocked(state network) {
	p.state, p.doomed = state, nil
	close(p.changed)
	p.changed = make(chan struct{})
	if state != broken {
		return
	}
	for client, server := range p.pairs {
		reset(client)
		reset(server)
	}
	clear(p.pairs)
}

// reset ends a connection immediately, with what is on its way.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // else it ends politely
	}
	_ = c.Close() // it may have ended by itself
}
