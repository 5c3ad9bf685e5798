package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// listener accepts connections for the server.
type listener struct {
	net.Listener
	server *Server
}

// Accept returns the next connection.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, server: l.server}, nil
}

// handshakeTimeout limits the handshake of a TLS connection.
const handshakeTimeout = 10 * time.Second

// secureListener accepts TLS connections. It completes their handshakes, each on a goroutine of its own, because only
// then is it known whether a connection speaks HTTP/2, which net/http serves on a *tls.Conn alone.
type secureListener struct {
	net.Listener
	server *Server
	config *tls.Config
	// accepted passes on connections and errors.
	accepted chan accepted
	// stop ends the goroutines, for which running waits.
	stop    context.CancelFunc
	ctx     context.Context //nolint:containedctx // the listener's own life
	running sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

func newSecureListener(inner net.Listener, s *Server, config *tls.Config) *secureListener {
	l := &secureListener{Listener: inner, server: s, config: config, accepted: make(chan accepted)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.running.Go(l.run)
	return l
}

func (l *secureListener) run() {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			// The server waits before it accepts again after an error that passes.
			if !l.pass(accepted{err: err}) || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		l.running.Go(func() { l.handshake(c) })
	}
}

func (l *secureListener) handshake(inner net.Conn) {
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTimeout)
	defer cancel()
	c := tls.Server(inner, l.config)
	if err := c.HandshakeContext(ctx); err != nil {
		l.server.cfg.Logger.Debug("TLS handshake failed", slog.String("peer", inner.RemoteAddr().String()),
			slog.String("error", err.Error()))
		var header tls.RecordHeaderError
		if errors.As(err, &header) && header.Conn != nil && looksLikeHTTP(header.RecordHeader) {
			plain := &conn{Conn: header.Conn, server: l.server, refused: "this address speaks HTTPS; use https:// in the URL"}
			_, _ = plain.Write([]byte("HTTP/1.1 400")) // the client is gone when this fails
		}
		_ = inner.Close() // nothing was promised on it
		return
	}
	var out net.Conn = c
	if c.ConnectionState().NegotiatedProtocol != "h2" {
		out = secureConn{&conn{Conn: c, server: l.server}}
	}
	if !l.pass(accepted{conn: out}) {
		_ = c.Close()
	}
}

// pass passes a connection or an error to Accept, and reports whether it was taken.
func (l *secureListener) pass(a accepted) bool {
	select {
	case l.accepted <- a:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// looksLikeHTTP reports whether a client that should have begun with a TLS record has begun with a request.
func looksLikeHTTP(record [5]byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO"} {
		if string(record[:]) == method {
			return true
		}
	}
	return false
}

// Accept returns the next connection whose handshake is complete.
func (l *secureListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the listener, and the connections whose handshakes are not complete.
func (l *secureListener) Close() error {
	err := l.Listener.Close()
	l.stop()
	l.running.Wait()
	return err
}

// connKey is the key of the connection in the context of its requests.
type connKey struct{}

// plainConn returns the conn behind a connection that the listeners return; nil for one of HTTP/2.
func plainConn(c net.Conn) *conn {
	switch c := c.(type) {
	case *conn:
		return c
	case secureConn:
		return c.conn
	default:
		return nil
	}
}

// connContext adds the connection to the context of its requests.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if p := plainConn(c); p != nil {
		return context.WithValue(ctx, connKey{}, p)
	}
	return ctx
}

// connState notices that a connection is idle: what is written from here on, until a handler is called, is net/http's.
func connState(c net.Conn, to http.ConnState) {
	if to != http.StateIdle {
		return
	}
	if p := plainConn(c); p != nil {
		p.handling.Store(false)
	}
}

// handle returns a handler that marks the connection as written to by a handler, and refuses large headers.
func (s *Server) handle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.handling.Store(true)
			if len(r.TransferEncoding) > 0 {
				r.Body = &chunkedBody{r.Body, c}
			}
		}
		if headSize(r) > maxHeaderBytes+headSlack {
			s.reject(r.Context(), r.RemoteAddr, http.StatusRequestHeaderFieldsTooLarge, "").writeTo(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// headSize returns about how many bytes the request line and the headers have in HTTP/1.1.
func headSize(r *http.Request) int {
	size := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	return size
}
