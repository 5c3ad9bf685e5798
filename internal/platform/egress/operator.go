package egress

import (
	"context"
	"net"
	"time"
)

// DialOperator connects to a server that the operator has named in the configuration, such as a mail server, as
// host:port. The address policy does not hold for it: it keeps those who may write a URL from reaching what the
// operator can, and no such person chooses this address. Whatever its user does, the connection ends after lifetime,
// and when ctx does.
func DialOperator(ctx context.Context, address string, lifetime time.Duration) (net.Conn, error) {
	//nolint:forbidigo // the deadline of a connection is real time
	end := time.Now().Add(lifetime)
	d := &net.Dialer{Timeout: min(lifetime, defaultDialTimeout)}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &mortalConn{Conn: conn, end: end}
	c.release = context.AfterFunc(ctx, func() { _ = conn.Close() }) // whoever uses it gets the error
	return c, c.SetDeadline(end)
}

// mortalConn keeps its user from putting its end off.
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

// SetDeadline sets the deadline, but none after the end.
func (c *mortalConn) SetDeadline(t time.Time) error { return c.Conn.SetDeadline(c.before(t)) }

// SetReadDeadline sets the deadline of reading, but none after the end.
func (c *mortalConn) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(c.before(t)) }

// SetWriteDeadline sets the deadline of writing, but none after the end.
func (c *mortalConn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.before(t)) }

func (c *mortalConn) before(t time.Time) time.Time {
	if t.IsZero() || t.After(c.end) {
		return c.end
	}
	return t
}
