package egress

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// sweepInterval is how often idle connections are looked at, to close those that are idle for long or that their peers
// have ended.
const sweepInterval = 15 * time.Second

var errHeadersTooLong = errors.New("the headers of the response are too long")

// directConn is a connection for direct exchanges, one at a time.
type directConn struct {
	net.Conn
	host   string
	reader *bufio.Reader
	// left is how many bytes may still be read.
	left int64
	// readErr is the last error of reading. A bufio.Reader that has a part of a line hides it.
	readErr error
	// broken is set if a request was not written completely.
	broken bool

	since time.Time // it is idle
	raw   syscall.RawConn
	quiet bool
	peek  func(fd uintptr) (done bool)
}

func newDirectConn(host string, conn net.Conn) *directConn {
	c := &directConn{Conn: conn, host: host}
	c.reader = bufio.NewReader(limitedReader{c})
	inner := conn
	if counted, ok := conn.(*countedConn); ok {
		inner = counted.Conn
	}
	if s, ok := inner.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	c.peek = func(fd uintptr) bool {
		c.quiet = isQuiet(fd)
		return true
	}
	return c
}

// isQuiet reports whether the peer has sent nothing since the last response, not even the end of the connection. The
// deadline of the connection must not have passed.
func (c *directConn) isQuiet() bool {
	if c.raw == nil {
		return true
	}
	c.quiet = false
	return c.raw.Read(c.peek) == nil && c.quiet
}

// limitedReader reads from a connection at most as much as may be read.
type limitedReader struct{ c *directConn }

// Read implements io.Reader.
func (r limitedReader) Read(p []byte) (int, error) {
	if r.c.left <= 0 {
		r.c.readErr = errHeadersTooLong
		return 0, errHeadersTooLong
	}
	if int64(len(p)) > r.c.left {
		p = p[:r.c.left]
	}
	n, err := r.c.Read(p)
	r.c.left -= int64(n)
	r.c.readErr = err
	return n, err
}

// idleConns holds the idle connections of direct exchanges by host, the newest last.
type idleConns struct {
	// perHost and all limit how many there are.
	perHost, all int

	mu     sync.Mutex
	byHost map[string][]*directConn
	count  int
	sweeps bool
}

// take returns the newest idle connection to the host, or nil.
func (p *idleConns) take(host string) *directConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.byHost[host]
	n := len(list)
	if n == 0 {
		return nil
	}
	c := list[n-1]
	list[n-1] = nil
	p.byHost[host] = list[:n-1]
	p.count--
	return c
}

// put keeps a connection, or closes it if there are too many of its host. If there are too many in all, it closes
// another.
func (p *idleConns) put(c *directConn) {
	c.since = time.Now() //nolint:forbidigo // deadlines are real time
	if drop := p.keep(c); drop != nil {
		_ = drop.Close() // its error changes nothing
	}
}

func (p *idleConns) keep(c *directConn) (drop *directConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.byHost[c.host]) >= p.perHost {
		return c
	}
	if p.count >= p.all {
		for host, list := range p.byHost {
			if len(list) > 0 {
				drop, p.byHost[host] = list[0], list[1:]
				p.count--
				break
			}
		}
	}
	if p.byHost == nil {
		p.byHost = map[string][]*directConn{}
	}
	p.byHost[c.host] = append(p.byHost[c.host], c)
	p.count++
	if !p.sweeps {
		p.sweeps = true
		time.AfterFunc(sweepInterval, p.sweep) //nolint:forbidigo // deadlines are real time
	}
	return drop
}

// sweep closes the connections that are idle for long or that their peers have ended, and comes again while others
// remain.
func (p *idleConns) sweep() {
	now := time.Now() //nolint:forbidigo // deadlines are real time
	p.mu.Lock()
	defer p.mu.Unlock()
	for host, list := range p.byHost {
		kept := list[:0]
		for _, c := range list {
			_ = c.SetDeadline(time.Time{}) // that of its last exchange may have passed
			if now.Sub(c.since) < idleConnTimeout && c.isQuiet() {
				kept = append(kept, c)
				continue
			}
			_ = c.Close() // its error changes nothing
			p.count--
		}
		clear(list[len(kept):])
		if p.byHost[host] = kept; len(kept) == 0 {
			delete(p.byHost, host)
		}
	}
	if p.sweeps = p.count > 0; p.sweeps {
		time.AfterFunc(sweepInterval, p.sweep) //nolint:forbidigo // deadlines are real time
	}
}

// close closes the idle connections.
func (p *idleConns) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.byHost {
		for _, c := range list {
			_ = c.Close() // its error changes nothing
		}
	}
	clear(p.byHost)
	p.count = 0
}
