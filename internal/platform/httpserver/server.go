// Package httpserver runs an HTTP server with the timeouts of the product, on a listener that may speak TLS.
package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// Timeouts of every server. Bodies may be large and senders slow, so reading gets a minute; headers do not.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = time.Minute
	writeTimeout      = 3 * time.Minute // an execution may take two
	idleTimeout       = 2 * time.Minute
	// maxHeaderBytes bounds the request line and the headers.
	maxHeaderBytes = 64 << 10
	// headSlack is how much larger they may be, for what a client does not count.
	headSlack = 4 << 10
)

// Config configures a Server.
type Config struct {
	// Name says which listener it is in errors, such as "public".
	Name string
	// Setting is the setting that Address comes from.
	Setting string
	// Address is host and port to listen on. An empty one makes a Server that does nothing.
	Address string
	Handler http.Handler
	// CertFile and KeyFile make the server speak TLS. They are read again when they change.
	CertFile, KeyFile string
	// WriteTimeout bounds a response; zero means three minutes.
	WriteTimeout time.Duration
	Logger       *slog.Logger
	// ErrorBody returns the JSON body of an error response. It is for requests that net/http refuses before a handler gets
	// them, such as malformed ones. Without it these responses are plain text.
	ErrorBody func(status int, message string) []byte
}

// Server is one listener and what serves it.
type Server struct {
	cfg      Config
	listener net.Listener
	server   *http.Server
	running  sync.WaitGroup
}

// New returns a Server that listens to nothing yet.
func New(c Config) *Server {
	s := &Server{cfg: c}
	s.server = &http.Server{Handler: s.handle(c.Handler), ConnContext: connContext, ConnState: connState,
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		// net/http cuts a connection of HTTP/2 off, with all its requests, whose headers are larger than its limit.
		MaxHeaderBytes: 2 * maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
		// The API responds to OPTIONS * itself, with a request id and a line in the log.
		DisableGeneralOptionsHandler: true}
	if c.WriteTimeout != 0 {
		s.server.WriteTimeout = c.WriteTimeout
	}
	return s
}

// Listen opens the listener. Nothing is served yet, but connections queue from here on.
func (s *Server) Listen(ctx context.Context) error {
	if s.cfg.Address == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Address)
	if err != nil {
		return s.listenError(err)
	}
	if s.cfg.CertFile == "" {
		l = listener{l, s}
	} else {
		reload := &certificate{certFile: s.cfg.CertFile, keyFile: s.cfg.KeyFile}
		if _, err := reload.get(nil); err != nil {
			return errors.Join(err, l.Close())
		}
		l = newSecureListener(l, s, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: reload.get,
			NextProtos: []string{"h2", "http/1.1"}})
	}
	s.listener = l
	return nil
}

// Check returns the error with which a Server of this configuration would fail to listen. It opens the listener and
// closes it again, so that no connection waits for a server that is still being prepared.
func Check(ctx context.Context, c Config) error {
	s := &Server{cfg: c}
	if err := s.Listen(ctx); err != nil || s.listener == nil {
		return err
	}
	return s.listener.Close()
}

// listenError says which address cannot be opened, which setting names it, and why.
func (s *Server) listenError(err error) error {
	var why string
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why = "another program uses it"
	case errors.Is(err, syscall.EACCES):
		why = "the system reserves its port for programs with more rights"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "this machine does not have it"
	default:
		return fmt.Errorf("open the %s listener (%s): %w", s.cfg.Name, s.cfg.Setting, err)
	}
	return &AddressError{Address: s.cfg.Address, Setting: s.cfg.Setting, Why: why, Err: err}
}

// AddressError says why a listener cannot be opened.
type AddressError struct {
	// Address is the address, and Setting the setting that names it.
	Address, Setting string
	// Why is a clause about the address.
	Why string
	// Err is the error of the operating system.
	Err error
}

// Error names the address and its setting.
func (e *AddressError) Error() string {
	return "cannot listen on " + e.Address + ", the value of " + e.Setting + ": " + e.Why
}

// Unwrap returns the error of the operating system.
func (e *AddressError) Unwrap() error { return e.Err }

// Serve serves what comes to the listener, until Shutdown.
func (s *Server) Serve(ctx context.Context) {
	if s.listener == nil {
		return
	}
	s.running.Go(func() {
		if err := s.server.Serve(s.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Logger.ErrorContext(ctx, "a listener ended", slog.String("listener", s.cfg.Name),
				slog.String("error", err.Error()))
		}
	})
}

// Shutdown closes the listener, lets requests end until ctx does, and then cuts them off.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.listener == nil {
		return nil
	}
	var err error
	if e := s.server.Shutdown(ctx); e != nil {
		err = s.server.Close()
	}
	s.running.Wait()
	// The server has closed only a listener that it served.
	if e := s.listener.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// Addr returns the address that the server listens to; empty before Listen.
func (s *Server) Addr() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}
