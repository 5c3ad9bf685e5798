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
	gathered, ok := w.(*Writer)
	if ok {
		out = gathered.out
	}
	switch {
	case format == "text" || format == "auto" && isTerminal(out):
		return slog.New(slog.NewTextHandler(w, opts))
	case gathered != nil:
		return slog.New(newJSONHandler(gathered, opts))
	default:
		return slog.New(slog.NewJSONHandler(w, opts))
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Line collects the attributes of a request's canonical log line. It is safe for concurrent use.
type Line struct {
	mu    sync.Mutex
	attrs []slog.Attr
	err   error
	// first holds the attributes of nearly every line.
	first [4]slog.Attr
}

// Add records attributes for the line.
func (l *Line) Add(attrs ...slog.Attr) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.attrs == nil {
		l.attrs = l.first[:0]
	}
	l.attrs = append(l.attrs, attrs...)
}

// Fail records the error behind the response. The line contains it; the client never sees it.
func (l *Line) Fail(err error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// Take returns the recorded attributes and error.
func (l *Line) Take() ([]slog.Attr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attrs, l.err
}

type lineKey struct{}

// WithLine returns a context with l.
func WithLine(ctx context.Context, l *Line) context.Context {
	return context.WithValue(ctx, lineKey{}, l)
}

// LineFrom returns the line of the context, or nil, on which Add and Fail do nothing.
func LineFrom(ctx context.Context) *Line {
	l, _ := ctx.Value(lineKey{}).(*Line)
	return l
}

// WithoutLine returns a context in which LineFrom returns nil, for work whose attributes do not belong on the line of
// the request.
func WithoutLine(ctx context.Context) context.Context {
	return context.WithValue(ctx, lineKey{}, (*Line)(nil))
}
