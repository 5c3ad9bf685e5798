package compare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"sallyport/bench/internal/wire"
	"sallyport/internal/platform/clock"
)

// peers are receivers that are not measured, and what stands before one that is.
type peers struct {
	clk       clock.Clock
	serving   sync.WaitGroup
	mu        sync.Mutex
	listeners []net.Listener
	conns     map[net.Conn]bool
	closed    bool
	hosts     int
}

// close ends all connections and waits for their goroutines.
func (p *peers) close() error {
	p.mu.Lock()
	p.closed = true
	var err error
	for _, l := range p.listeners {
		err = errors.Join(err, l.Close())
	}
	for conn := range p.conns {
		_ = conn.Close() // its peer may have ended it
	}
	p.mu.Unlock()
	p.serving.Wait()
	return err
}

// enter keeps a connection until leave; false when all have been closed.
func (p *peers) enter(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close() // no one waits for it
		return false
	}
	if p.conns == nil {
		p.conns = map[net.Conn]bool{}
	}
	p.conns[conn] = true
	return true
}

func (p *peers) leave(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	_ = conn.Close() // its peer may have ended it
}

// listen serves connections at an address of its own, so that receivers share no limit per host. It returns the URL.
func (p *peers) listen(ctx context.Context, serve func(net.Conn)) (url string, err error) {
	p.mu.Lock()
	p.hosts++
	host := fmt.Sprintf("127.0.2.%d:0", p.hosts)
	p.mu.Unlock()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", host)
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	p.mu.Lock()
	p.listeners = append(p.listeners, listener)
	p.mu.Unlock()
	p.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() {
				if p.enter(conn) {
					defer p.leave(conn)
					serve(conn)
				}
			})
		}
	})
	return "http://" + listener.Addr().String() + "/", nil
}

// hanging accepts requests and never responds.
func (p *peers) hanging(ctx context.Context) (url string, err error) {
	return p.listen(ctx, func(conn net.Conn) {
		for buffer := make([]byte, 4<<10); ; { // until the sender's timeout, or the end
			if _, err := conn.Read(buffer); err != nil {
				return
			}
		}
	})
}

// accepting accepts every request immediately.
func (p *peers) accepting(ctx context.Context) (url string, err error) {
	return p.listen(ctx, func(conn net.Conn) {
		for reader := wire.NewReader(conn); ; {
			if _, err := reader.Request(); err != nil {
				return
			}
			if _, err := conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")); err != nil {
				return
			}
		}
	})
}

// late stands before a receiver and passes each of its responses on after a delay.
func (p *peers) late(ctx context.Context, url string, delay time.Duration) (string, error) {
	address := url[len("http://") : len(url)-1]
	return p.listen(ctx, func(client net.Conn) {
		upstream, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil || !p.enter(upstream) {
			return
		}
		p.serving.Go(func() {
			defer p.leave(upstream)
			p.pass(upstream, client, 0)
		})
		p.pass(client, upstream, delay)
	})
}

// pass copies what arrives, each read after a delay, until one of the two ends.
func (p *peers) pass(to, from net.Conn, delay time.Duration) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if delay > 0 {
			timer := p.clk.NewTimer(delay)
			<-timer.C()
		}
		if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
			return
		}
	}
}

// refusing returns the URL of a port at which nothing listens.
func refusing(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	return "http://" + listener.Addr().String() + "/", listener.Close()
}
