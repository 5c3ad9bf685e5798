package obs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
)

// outageKey is the key of the attribute by which lines are limited, and leftOutKey that of the number of lines that
// were left out before one.
const outageKey, leftOutKey = "outage", "left_out"

// outageInterval is the time between two lines of one kind.
const outageInterval = time.Second

// Outage marks a line that each request or delivery would log during an outage of the database or of another service.
// Of the lines of a kind, one a second is logged, with the number of those that were left out. The kind is a word for
// programs.
func Outage(kind string) slog.Attr { return slog.String(outageKey, kind) }

// Outages limits the lines that Outage marks and passes on all others. It is safe for concurrent use.
type Outages struct {
	next  slog.Handler
	clock clock.Clock
	state *outages
}

// outages is what the handlers of one logger share.
type outages struct {
	mu     sync.Mutex
	byKind map[string]*outage
}

// outage is the state of one kind.
type outage struct {
	logged  time.Time
	leftOut int64
	// last is the last line that was left out.
	last slog.Record
	next slog.Handler
}

// NewOutages returns a handler before another.
func NewOutages(next slog.Handler, clk clock.Clock) *Outages {
	return &Outages{next: next, clock: clk, state: &outages{byKind: map[string]*outage{}}}
}

// Enabled implements slog.Handler.
func (o *Outages) Enabled(ctx context.Context, level slog.Level) bool {
	return o.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (o *Outages) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Outages{next: o.next.WithAttrs(attrs), clock: o.clock, state: o.state}
}

// WithGroup implements slog.Handler.
func (o *Outages) WithGroup(name string) slog.Handler {
	return &Outages{next: o.next.WithGroup(name), clock: o.clock, state: o.state}
}

// Handle implements slog.Handler.
func (o *Outages) Handle(ctx context.Context, r slog.Record) error {
	kind := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == outageKey {
			kind = a.Value.String()
		}
		return kind == ""
	})
	if kind != "" {
		leftOut, pass := o.count(kind, &r)
		if !pass {
			return nil
		}
		r.AddAttrs(slog.Int64(leftOutKey, leftOut))
	}
	return o.next.Handle(ctx, r)
}

// count counts a line, and reports whether it is logged and how many were left out before it.
func (o *Outages) count(kind string, r *slog.Record) (leftOut int64, pass bool) {
	now := o.clock.Now()
	o.state.mu.Lock()
	defer o.state.mu.Unlock()
	k := o.state.byKind[kind]
	if k == nil {
		k = &outage{}
		o.state.byKind[kind] = k
	}
	if since := now.Sub(k.logged); since >= 0 && since < outageInterval {
		k.leftOut++
		k.last, k.next = r.Clone(), o.next
		return 0, false
	}
	leftOut = k.leftOut
	*k = outage{logged: now}
	return leftOut, true
}

// Flush logs the last line of each kind of which some were left out a second ago, so that none is missing from the
// count when the outage is over. A job calls it each second.
func (o *Outages) Flush(ctx context.Context) error {
	for _, k := range o.take() {
		k.last.AddAttrs(slog.Int64(leftOutKey, k.leftOut-1))
		if err := k.next.Handle(ctx, k.last); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outages) take() []outage {
	now := o.clock.Now()
	o.state.mu.Lock()
	defer o.state.mu.Unlock()
	var due []outage
	for _, k := range o.state.byKind {
		if k.leftOut > 0 && now.Sub(k.logged) >= outageInterval {
			due = append(due, *k)
			*k = outage{logged: now}
		}
	}
	return due
}
