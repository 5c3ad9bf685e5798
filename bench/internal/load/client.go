package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"sallyport/bench/internal/wire"
)

// dialTimeout bounds one connection attempt on the loopback interface.
const dialTimeout = 5 * time.Second

// client is one persistent connection with at most one request in flight.
type client struct {
	addr   string
	conn   net.Conn
	reader *wire.Reader
	stop   func() bool
}

// connect opens the connection unless it is open. The connection ends with ctx and at the deadline at the latest, so
// that a silent peer cannot hold the run up.
func (c *client) connect(ctx context.Context, deadline time.Time) error {
	if c.conn != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return errors.Join(fmt.Errorf("set deadline: %w", err), conn.Close())
	}
	c.conn, c.reader = conn, wire.NewReader(conn)
	c.stop = context.AfterFunc(ctx, func() {
		// The reader then fails, which is the report; a second error from closing adds nothing.
		_ = conn.Close()
	})
	return nil
}

// close ends the connection; the next connect opens a new one.
func (c *client) close() {
	if c.conn == nil {
		return
	}
	c.stop()
	// The peer's responses have been read or abandoned; an error here changes no result.
	_ = c.conn.Close()
	c.conn = nil
}

// do writes one request and reads its response. The response's slices are valid until the next call. On an error the
// connection is closed.
func (c *client) do(request []byte) (wire.Message, error) {
	if _, err := c.conn.Write(request); err != nil {
		c.close()
		return wire.Message{}, fmt.Errorf("write request: %w", err)
	}
	response, err := c.reader.Response()
	if err != nil {
		c.close()
		return wire.Message{}, fmt.Errorf("read response: %w", err)
	}
	if response.Close {
		c.close()
	}
	return response, nil
}

// accepted reports whether a response acknowledges a new event: status 200, the event's identifier, and not a
// duplicate.
func accepted(response wire.Message) bool {
	if response.Status != 200 {
		return false
	}
	// The usual form is recognised without decoding, at a tenth of the cost.
	if bytes.HasPrefix(response.Body, []byte(`{"event_uuid":"`)) &&
		bytes.Contains(response.Body, []byte(`"duplicate":false`)) {
		return true
	}
	var ack struct {
		EventUUID string `json:"event_uuid"`
		Duplicate *bool  `json:"duplicate"`
	}
	if json.Unmarshal(response.Body, &ack) != nil {
		return false
	}
	return ack.EventUUID != "" && ack.Duplicate != nil && !*ack.Duplicate
}
