package httpserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/clock"
)

// poison makes net/http refuse the head that it is reading, in place of the rest of the connection: no line of a head
// can contain U+0000, and an empty line ends it.
const poison = "\x00\r\n\r\n"

// lingerTime and lingerBytes limit how long the server reads from a client that it has refused. If it closed a
// connection on which bytes arrive, the client's TCP could drop the response that says why (RFC 9112 section 9.6).
const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 256 << 10
)

// conn is an HTTP/1 connection. It refuses requests whose length is ambiguous, and replaces the plain-text responses
// that net/http itself sends to requests that reach no handler.
type conn struct {
	net.Conn
	server *Server

	// The next fields belong to Read, which net/http does not call twice at the same time.
	framing framing
	// rest is what Read returns in place of what the client sends, if the client is refused; refused says why.
	rest    []byte
	refused string

	// handling is set from when a handler gets a request until all of its response has been passed to the connection.
	// Anything that is written at other times comes from net/http.
	handling atomic.Bool
	rejected bool
}

// Read reads what the client sends.
func (c *conn) Read(p []byte) (int, error) {
	if c.refused != "" {
		return c.readRest(p)
	}
	n, err := c.Conn.Read(p)
	passed, reason := c.framing.scan(p[:n])
	if reason == "" {
		return n, err
	}
	c.refused, c.rest = reason, []byte(poison)
	if passed > 0 {
		return passed, nil
	}
	return c.readRest(p)
}

func (c *conn) readRest(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write sends a response, or the error envelope in its place if no handler has made it.
func (c *conn) Write(p []byte) (int, error) {
	if c.handling.Load() {
		return c.Conn.Write(p)
	}
	if c.rejected {
		return len(p), nil
	}
	status, text, ok := parseRejection(p)
	if !ok {
		return c.Conn.Write(p)
	}
	c.rejected = true
	if c.refused != "" {
		text = c.refused
	}
	r := c.server.reject(context.Background(), c.RemoteAddr().String(), status, text)
	if _, err := c.Conn.Write(r.text()); err != nil {
		return 0, err
	}
	c.linger()
	return len(p), nil
}

// linger reads what the client is still sending, for a while.
func (c *conn) linger() {
	_ = c.CloseWrite() // if this or the next fails, the connection is gone
	if c.SetReadDeadline(clock.System().Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
}

// CloseWrite shuts down the writing side.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// secureConn is a conn over TLS. net/http finds out by its method that the connection is encrypted.
type secureConn struct{ *conn }

// ConnectionState returns the state of the TLS connection.
func (c secureConn) ConnectionState() tls.ConnectionState {
	if t, ok := c.Conn.(*tls.Conn); ok {
		return t.ConnectionState()
	}
	return tls.ConnectionState{}
}

// parseRejection returns the status code of a response that net/http makes, and what its body says besides.
func parseRejection(p []byte) (status int, text string, ok bool) {
	_, rest, found := bytes.Cut(p, []byte("HTTP/1."))
	if !found || len(rest) < len("1 400") || !bytes.HasPrefix(p, []byte("HTTP/1.")) {
		return 0, "", false
	}
	status, err := strconv.Atoi(string(rest[2:5]))
	if err != nil || status < 400 || status > 599 {
		return 0, "", false
	}
	_, body, _ := bytes.Cut(p, []byte("\r\n\r\n"))
	// "400 Bad Request: malformed Host header"; without a reason there is no colon.
	_, reason, _ := bytes.Cut(body, []byte(": "))
	return status, string(reason), true
}
