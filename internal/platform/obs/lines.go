package obs

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
)

// WriteLine logs a line that is written for each request or attempt. Unlike the Logger's methods it does not look up
// the place in the code, which no handler here shows.
func WriteLine(ctx context.Context, l *slog.Logger, level slog.Level, message string, attrs ...slog.Attr) {
	h := l.Handler()
	if !h.Enabled(ctx, level) {
		return
	}
	now := clock.System().Now()
	if direct, ok := h.(lineHandler); ok && direct.writeLine(now, level, message, attrs) {
		return
	}
	r := slog.NewRecord(now, level, message, 0)
	r.AddAttrs(attrs...)
	_ = h.Handle(ctx, r) // as the Logger does
}

// lineHandler is a slog.Handler that can write most lines of requests and attempts without a slog.Record.
type lineHandler interface {
	// writeLine writes the line that Handle would write, or returns false.
	writeLine(now time.Time, level slog.Level, message string, attrs []slog.Attr) bool
}

// writeLine implements lineHandler for lines that are not limited.
func (o *Outages) writeLine(now time.Time, level slog.Level, message string, attrs []slog.Attr) bool {
	next, ok := o.next.(lineHandler)
	if !ok {
		return false
	}
	for i := range attrs {
		if attrs[i].Key == outageKey {
			return false
		}
	}
	return next.writeLine(now, level, message, attrs)
}

// jsonHandler is slog's, except that it writes lines of requests and attempts itself, in a third of the time.
type jsonHandler struct {
	*slog.JSONHandler
	out *Writer
	// buffers pools *[]byte.
	buffers *sync.Pool
}

func newJSONHandler(out *Writer, opts *slog.HandlerOptions) *jsonHandler {
	return &jsonHandler{slog.NewJSONHandler(out, opts), out, &sync.Pool{New: func() any { return new([]byte) }}}
}

// writeLine implements lineHandler. Lines below a warning may wait for others.
func (h *jsonHandler) writeLine(now time.Time, level slog.Level, message string, attrs []slog.Attr) bool {
	b, ok := h.buffers.Get().(*[]byte)
	if !ok {
		return false
	}
	defer h.buffers.Put(b)
	if *b, ok = appendLine((*b)[:0], now, level, message, attrs); !ok {
		return false
	}
	if level < slog.LevelWarn {
		h.out.gather(*b)
	} else {
		_, _ = h.out.Write(*b) // a failure cannot be reported anywhere
	}
	return true
}

// appendLine appends the line of slog.JSONHandler. It returns false for what needs an encoder: other values than plain
// ones, text that must be escaped, and unusual numbers and times.
func appendLine(b []byte, now time.Time, level slog.Level, message string, attrs []slog.Attr) (_ []byte, ok bool) {
	b, ok = appendTime(append(b, `{"time":`...), now)
	if !ok || now.IsZero() {
		return b, false
	}
	b = append(append(append(b, `,"level":"`...), level.String()...), `","msg":`...)
	if b, ok = appendPlain(b, message); !ok {
		return b, false
	}
	for i := range attrs {
		a := &attrs[i]
		if b, ok = appendPlain(append(b, ','), a.Key); !ok {
			return b, false
		}
		if b, ok = appendValue(append(b, ':'), a.Value); !ok {
			return b, false
		}
	}
	return append(b, '}', '\n'), true
}

func appendValue(b []byte, v slog.Value) (_ []byte, ok bool) {
	switch v.Kind() {
	case slog.KindString:
		return appendPlain(b, v.String())
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10), true
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10), true
	case slog.KindBool:
		return strconv.AppendBool(b, v.Bool()), true
	case slog.KindDuration:
		return strconv.AppendInt(b, int64(v.Duration()), 10), true
	case slog.KindFloat64:
		f := v.Float64()
		// Smaller and greater ones have an exponent.
		if abs := math.Abs(f); f != 0 && (abs < 1e-6 || abs >= 1e21) || math.IsNaN(f) {
			return b, false
		}
		return strconv.AppendFloat(b, f, 'f', -1, 64), true
	case slog.KindTime:
		return appendTime(b, v.Time())
	case slog.KindAny, slog.KindGroup, slog.KindLogValuer:
		return b, false
	default:
		return b, false
	}
}

func appendTime(b []byte, t time.Time) (_ []byte, ok bool) {
	if year := t.Year(); year < 0 || year > 9999 {
		return b, false
	}
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"'), true
}

// appendPlain appends s as a JSON string if it is printable ASCII that needs no escape.
func appendPlain(b []byte, s string) (_ []byte, ok bool) {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return b, false
		}
	}
	return append(append(append(b, '"'), s...), '"'), true
}
