package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Time-outs of the listeners. Bodies may be large and senders slow, so reading gets a minute; headers do not.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = time.Minute
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// servers are the public and the admin listener.
type servers struct {
	public, admin                 *http.Server
	publicListener, adminListener net.Listener
	running                       sync.WaitGroup
}

// listen opens the listeners; nothing is served yet, but connections queue from here on.
func (s *servers) listen(ctx context.Context, a *App) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", a.cfg.Listen)
	if err != nil {
		return fmt.Errorf("open the public listener: %w", err)
	}
	if a.cfg.TLSCert != "" {
		reload := &certificate{certFile: a.cfg.TLSCert, keyFile: a.cfg.TLSKey}
		if _, err := reload.get(nil); err != nil {
			return errors.Join(err, l.Close())
		}
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: reload.get,
			NextProtos: []string{"h2", "http/1.1"}})
	}
	s.publicListener = l
	s.public = newServer(a.api, a.log)
	if a.cfg.AdminListen == "" {
		return nil
	}
	if s.adminListener, err = lc.Listen(ctx, "tcp", a.cfg.AdminListen); err != nil {
		return errors.Join(fmt.Errorf("open the admin listener: %w", err), l.Close())
	}
	s.admin = newServer(a.adminHandler(), a.log)
	// A profile or a trace is written for as long as its caller asked.
	s.admin.WriteTimeout = 10 * time.Minute
	return nil
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), DisableGeneralOptionsHandler: true} // the API answers OPTIONS * itself, with a request id and a line in the log
}

func (s *servers) serve(ctx context.Context, log *slog.Logger) {
	run := func(srv *http.Server, l net.Listener) {
		if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.ErrorContext(ctx, "a listener ended", slog.String("error", err.Error()))
		}
	}
	s.running.Go(func() { run(s.public, s.publicListener) })
	if s.admin != nil {
		s.running.Go(func() { run(s.admin, s.adminListener) })
	}
}

// shutdown lets requests end until ctx does, then cuts them off.
func (s *servers) shutdown(ctx context.Context) error {
	var err error
	for _, srv := range []*http.Server{s.public, s.admin} {
		if srv == nil {
			continue
		}
		if e := srv.Shutdown(ctx); e != nil {
			err = errors.Join(err, srv.Close())
		}
	}
	s.running.Wait()
	return err
}

func (s *servers) publicAddr() string { return addr(s.publicListener) }
func (s *servers) adminAddr() string  { return addr(s.adminListener) }

func addr(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// adminHandler serves metrics, profiles and health with its reasons. It is for operators and asks for no credential,
// which is why its listener is off unless set.
func (a *App) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		status, text := http.StatusOK, "ready\n"
		if err := a.readiness(r.Context()); err != nil {
			status, text = http.StatusServiceUnavailable, err.Error()+"\n"
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text)) // the client is gone when this fails
	})
	return mux
}

// certificate is read again when its file has changed, so that a renewal needs no restart. A pair that cannot be read
// leaves the old one in force.
type certificate struct {
	certFile, keyFile string

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.certFile)
	if err != nil {
		return c.keep(fmt.Errorf("read the certificate: %w", err))
	}
	if c.current != nil && info.ModTime().Equal(c.changed) {
		return c.current, nil
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return c.keep(fmt.Errorf("read the certificate: %w", err))
	}
	c.current, c.changed = &pair, info.ModTime()
	return c.current, nil
}

func (c *certificate) keep(err error) (*tls.Certificate, error) {
	if c.current != nil {
		return c.current, nil
	}
	return nil, err
}
