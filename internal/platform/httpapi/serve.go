package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
)

type requestKey struct{}

type requestFacts struct {
	id string
	// addr is the client's address; ip is its text, empty where addr is not valid.
	addr  netip.Addr
	ip    string
	agent string
	at    time.Time
}

// factsOf returns the facts of the request, which are empty outside of requests.
func factsOf(ctx context.Context) *requestFacts {
	if f, ok := ctx.Value(requestKey{}).(*requestFacts); ok {
		return f
	}
	return &requestFacts{}
}

// requestID returns the id that the response has as X-Request-Id.
func requestID(ctx context.Context) string {
	return factsOf(ctx).id
}

// ClientIP returns the client's IP address as text: the peer's, or the one that trusted proxies report. It is empty if
// the peer has no address.
func ClientIP(ctx context.Context) string {
	return factsOf(ctx).ip
}

// ClientAddr returns the address of ClientIP, or the zero Addr if the peer has none.
func ClientAddr(ctx context.Context) netip.Addr {
	return factsOf(ctx).addr
}

// Client returns the origin of a request that has no principal yet.
func Client(ctx context.Context) access.Client {
	f := factsOf(ctx)
	return access.Client{IP: f.ip, UserAgent: f.agent, RequestID: f.id}
}

// RequestTime returns when the request began, by the service's clock. It is for the rules of a body about time.
func RequestTime(ctx context.Context) time.Time {
	return factsOf(ctx).at
}

// ServeHTTP serves every route. It adds the request id, turns panics and the mux's own responses into the error
// envelope, and logs the request in one line.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := a.cfg.Clock.Now()
	s := &serving{facts: requestFacts{id: id.NewUUID(), addr: clientaddr.Of(r, a.cfg.TrustedProxies), agent: r.UserAgent(),
		at: start}, rec: recorder{ResponseWriter: w}}
	if s.facts.addr.IsValid() {
		s.facts.ip = s.facts.addr.String()
	}
	r = r.WithContext(obs.WithLine(context.WithValue(r.Context(), requestKey{}, &s.facts), &s.line))
	s.values = [...]string{s.facts.id, "nosniff"}
	header := w.Header()
	header["X-Request-Id"], header["X-Content-Type-Options"] = s.values[0:1:1], s.values[1:2:2]
	a.dispatch(&s.rec, r)
	seconds := a.cfg.Clock.Now().Sub(start).Seconds()
	a.logRequest(r, s, seconds)
	if a.cfg.Observe != nil {
		a.cfg.Observe(routePath(r.Pattern), s.rec.status, seconds)
	}
}

// serving holds what every request needs, in one allocation.
type serving struct {
	facts  requestFacts
	line   obs.Line
	rec    recorder
	values [2]string // of the headers of every response
}

func (a *API) dispatch(w *recorder, r *http.Request) {
	defer func() { //nolint:contextcheck // the context is the request's
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v) // the handler wants the connection cut
		}
		obs.LineFrom(r.Context()).Add(slog.String("stack", string(debug.Stack())))
		err := fmt.Errorf("panic: %v", v)
		if w.status != 0 {
			obs.LineFrom(r.Context()).Fail(err)
			panic(http.ErrAbortHandler) // half a response is sent; only cutting it off shows the client
		}
		WriteError(w, r, err)
	}()
	if a.cfg.LoopbackHostsOnly && !a.isOwnHost(r.Host) {
		WriteError(w, r, apperr.HTTP(http.StatusMisdirectedRequest, "Development mode only accepts requests for loopback "+
			"host names and for the host of public-url; to receive requests through a tunnel, set public-url to its URL"))
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/") {
		// OPTIONS * and CONNECT host:port (RFC 9112 section 3.2) name no resource, and the mux expects one.
		WriteError(w, r, errNoRoute())
		return
	}
	a.ready()
	h, pattern := a.mux.Handler(r)
	if pattern == "" || !isClean(r.URL.EscapedPath()) {
		a.serveUnrouted(w, r, h)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// elsewhereRetry is when a client may retry a request that it sent to a node which serves none: by then, what sends it
// there may know.
const elsewhereRetry = 5 * time.Second

func errNoRoute() error { return apperr.HTTP(http.StatusNotFound, "No such route") }

// isClean reports whether an escaped path has the form of routes. The mux would redirect other paths, and a redirected
// webhook is lost.
func isClean(escaped string) bool {
	clean := path.Clean(escaped)
	return escaped == clean || escaped == clean+"/"
}

// serveUnrouted replaces the mux's own plain-text responses (404, 405, and 301 for a path to clean) by the error
// envelope.
func (a *API) serveUnrouted(w http.ResponseWriter, r *http.Request, h http.Handler) {
	if a.cfg.Elsewhere != "" {
		WriteError(w, r, apperr.New(apperr.CodeUnavailable, a.cfg.Elsewhere).RetryIn(elsewhereRetry))
		return
	}
	probe := &recorder{ResponseWriter: discard{http.Header{}}}
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		a.refuseMethod(w, r)
		return
	}
	WriteError(w, r, errNoRoute())
}

func (a *API) logRequest(r *http.Request, s *serving, seconds float64) {
	attrs, err := s.line.Take()
	all := make([]slog.Attr, 0, 8+len(attrs))
	all = append(all, slog.String("request_id", s.facts.id), slog.String("method", r.Method),
		slog.String("route", routePath(r.Pattern)), slog.Int("status", s.rec.status), slog.Int64("bytes", s.rec.bytes),
		slog.Float64("seconds", seconds), slog.String("ip", s.facts.ip))
	all = append(all, attrs...)
	if err != nil {
		all = append(all, slog.String("error", err.Error()))
		if isOutage(err) {
			all = append(all, obs.Outage("request"))
		}
	}
	obs.WriteLine(r.Context(), a.cfg.Logger, logLevel(r.Context(), err), "request", all...)
}

// isOutage reports whether every request may have the error at present: what the service depends on is not available.
func isOutage(err error) bool {
	e := resolveError(err)
	return e.Code == apperr.CodeUnavailable && e.Cause != nil
}

// logLevel returns the level at which to log the error behind a response, which may be nil. A failure is an error,
// unless the client was gone. Rejecting work under load is a warning. Errors that the client or a chosen state causes
// are neither.
func logLevel(ctx context.Context, err error) slog.Level {
	if err == nil || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return slog.LevelInfo
	}
	e := resolveError(err)
	switch {
	case e.HTTPStatus() < http.StatusInternalServerError:
		return slog.LevelInfo
	case e.Code == apperr.CodeInternal || e.Cause != nil:
		return slog.LevelError
	case e.Code == apperr.CodeUnavailable:
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}

// routePath returns a pattern without its method. It is the only form of a path that is safe as a label, because the
// path itself can contain a path token.
func routePath(pattern string) string {
	if pattern == "" {
		return "unknown"
	}
	_, path, ok := strings.Cut(pattern, " ")
	if !ok {
		return pattern
	}
	return path
}

// isOwnHost reports whether development mode accepts a Host header: a loopback name, or the host of the public URL,
// with any port. A page of another site can make its own name resolve to this machine, but not choose the name.
func (a *API) isOwnHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") || a.cfg.OwnHost != "" && strings.EqualFold(host, a.cfg.OwnHost) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// recorder records the status code and size of the response.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	// large says that the response holds a place of TakeLarge, so that its client must read it in time.
	large bool
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if r.large && r.bytes == 0 {
		// A writer without deadlines is one of a test. The response is written in one piece.
		_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(clock.System().Now().Add(largeTime(len(b))))
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// largeTime is how long the client of a large response has for reading it.
func largeTime(bytes int) time.Duration {
	return largeGrace + time.Duration(bytes)*time.Second/largeRate
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// discard is a ResponseWriter that keeps headers and discards bodies.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
