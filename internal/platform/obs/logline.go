// Package obs provides the observability of the service: one canonical log line per request and attempt, and Prometheus
// metrics with bounded labels.
package obs

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/term"
)

// NewLogger returns a logger with this level and format: json, text, or auto, which is text if w is a terminal.
func NewLogger(w io.Writer, format, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: l}
	out := w
	if buffered, ok := w.(*Writer); ok {
		out = buffered.out
	}
	if format == "text" || format == "auto" && isTerminal(out) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Event collects the attributes of a request's canonical log line. It is safe for concurrent use.
type Event struct {
	mu    sync.Mutex
	attrs []slog.Attr
	err   error
}

// Add records attributes for the line.
func (e *Event) Add(attrs ...slog.Attr) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attrs = append(e.attrs, attrs...)
}

// Fail records the error behind the response. The line contains it; the client never sees it.
func (e *Event) Fail(err error) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// Take returns the recorded attributes and error.
func (e *Event) Take() ([]slog.Attr, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.attrs, e.err
}

type eventKey struct{}

// WithEvent returns a context with e.
func WithEvent(ctx context.Context, e *Event) context.Context {
	return context.WithValue(ctx, eventKey{}, e)
}

// EventFrom returns the event of the context, or nil, on which Add and Fail do nothing.
func EventFrom(ctx context.Context) *Event {
	e, _ := ctx.Value(eventKey{}).(*Event)
	return e
}
