package egress

import (
	"context"
	"net"
	"time"
)

// DialOperator connects to host:port of a server that the configuration names, such as a mail server. The address
// policy does not apply: it protects the operator's network from users who may enter a URL, and users cannot choose
// this address. The connection is closed after lifetime and when ctx ends; deadlines cannot extend it.
func DialOperator(ctx context.Context, address string, lifetime time.Duration) (net.Conn, error) {
	//nolint:forbidigo // the deadline of a connection is real time
	end := time.Now().Add(lifetime)
	d := &net.Dialer{Timeout: min(lifetime, defaultDialTimeout)}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &mortalConn{Conn: conn, end: end}
	c.release = context.AfterFunc(ctx, func() { _ = conn.Close() }) // readers and writers get the error
	return c, c.SetDeadline(end)
}

// mortalConn keeps its user from extending its lifetime.
type mortalConn struct {
	net.Conn
	end     time.Time
	release func() bool
}

// Close closes the connection.
func (c *mortalConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// SetDeadline sets the deadline, at most to the end of the lifetime.
func (c *mortalConn) SetDeadline(t time.Time) error { return c.Conn.SetDeadline(c.before(t)) }

// SetReadDeadline sets the deadline of reading, at most to the end of the lifetime.
func (c *mortalConn) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(c.before(t)) }

// SetWriteDeadline sets the deadline of writing, at most to the end of the lifetime.
func (c *mortalConn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.before(t)) }

func (c *mortalConn) before(t time.Time) time.Time {
	if t.IsZero() || t.After(c.end) {
		return c.end
	}
	return t
}
