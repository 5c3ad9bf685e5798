// Package readers reads event streams over many connections in parallel and counts what arrives.
//
// Counting has to be cheap, because the readers share the processor with the server that they measure: most of them
// look for the ends of messages and their types only. Every nth reader is followed event by event.
package readers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sallyport/bench/internal/stats"
	"sallyport/internal/platform/clock"
)

// Plan says what is read.
type Plan struct {
	// Addr is host:port of the server, a loopback address; Path the request target of the stream, Key the API key.
	Addr, Path, Key string
	// Count is the number of readers. Every AuditEvery-th, and the first, is followed event by event.
	Count, AuditEvery int
}

// Outcome counts the messages that the readers got.
type Outcome struct {
	// Received, Attempts and Updates count messages by type, over all readers.
	Received, Attempts, Updates int64
	// Least is how many received events the reader with the fewest got.
	Least int64
	// Events are the received events of each reader, without those that a followed one got again; RepeatedEvents and
	// RepeatedAttempts count these.
	Events                             []int64
	DuplicateEvents, DuplicateAttempts int64
	// Lagged, Gaps and Reconnects count the messages of the server about the stream, and how often readers had to come
	// back.
	Lagged, Gaps, Reconnects int64
	// Delay is the time from an event's receipt to the arrival of its message at the followed readers.
	Delay stats.Summary
	// FirstProblem describes the first connection that failed or was refused.
	FirstProblem string
}

const (
	dialTimeout = 10 * time.Second
	// opening is how many connections are opened at a time.
	opening = 32
	// comeBack is how long a reader waits before it comes back, as the stream asks it to.
	comeBack = 3 * time.Second
)

// ErrNotLoopback reports a server outside this machine.
var ErrNotLoopback = errors.New("target is not a loopback address")

// Readers are open streams.
type Readers struct {
	clk     clock.Clock
	plan    Plan
	list    []*reader
	cancel  context.CancelFunc
	running sync.WaitGroup

	problem atomic.Pointer[string]
}

// Open opens all streams and returns when every one has begun. They end with ctx, or with Close.
func Open(ctx context.Context, clk clock.Clock, plan Plan) (*Readers, error) {
	host, _, err := net.SplitHostPort(plan.Addr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("%w: %s", ErrNotLoopback, plan.Addr)
	}
	own, cancel := context.WithCancel(ctx)
	r := &Readers{clk: clk, plan: plan, cancel: cancel}
	var first errgroup.Group
	first.SetLimit(opening)
	for i := range plan.Count {
		one := &reader{all: r, audited: i%plan.AuditEvery == 0, seen: map[string]bool{}, begun: make(chan error, 1)}
		r.list = append(r.list, one)
		first.Go(func() error {
			r.running.Go(func() { one.run(own) })
			return <-one.begun
		})
	}
	if err := first.Wait(); err != nil {
		r.Close()
		return nil, fmt.Errorf("open a stream: %w", err)
	}
	return r, nil
}

// Least returns how many received events the reader with the fewest has got so far.
func (r *Readers) Least() int64 {
	return slices.MinFunc(r.list, func(a, b *reader) int {
		return int(a.received.Load() - b.received.Load())
	}).received.Load()
}

// Close ends the streams and returns what they got.
func (r *Readers) Close() Outcome {
	r.cancel()
	r.running.Wait()
	var out Outcome
	var delays []time.Duration
	for _, one := range r.list {
		out.Received += one.received.Load()
		out.Attempts += one.attempts
		out.Updates += one.updates
		out.Events = append(out.Events, one.received.Load()-one.duplicateEvents)
		out.DuplicateEvents += one.duplicateEvents
		out.DuplicateAttempts += one.duplicateAttempts
		out.Lagged += one.lagged
		out.Gaps += one.gaps
		out.Reconnects += one.reconnects
		delays = append(delays, one.delays...)
	}
	if len(r.list) > 0 {
		out.Least = r.Least()
	}
	out.Delay = stats.Summarise(delays)
	if p := r.problem.Load(); p != nil {
		out.FirstProblem = *p
	}
	return out
}

func (r *Readers) note(err error) {
	text := err.Error()
	r.problem.CompareAndSwap(nil, &text)
}
