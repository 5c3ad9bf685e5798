// Package load sends signed webhook deliveries to one loopback address and records when each was sent and acknowledged.
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/stats"
	"sallyport/internal/platform/clock"
)

const (
	// responseGrace is how long the last responses may take after the plan's end.
	responseGrace = 30 * time.Second
	// maxFailures ends a connection's loop after that many transport errors in a row; a dead server ends the run early.
	maxFailures = 5
	// maxExcerpt bounds the text of the first refused response that is kept.
	maxExcerpt = 300
)

// ErrNotLoopback reports a target outside this machine. The generator sends as fast as it can, and only to its own
// host.
var ErrNotLoopback = errors.New("target is not a loopback address")

// Target is where and how deliveries are sent.
type Target struct {
	// Addr is host:port; the host is a loopback IP address.
	Addr string
	// Others are the addresses of further nodes of the same gateway. Connections go to the nodes in turn.
	Others []string
	// Path is the request target, beginning with a slash.
	Path   string
	Scheme Scheme
	// Secret is the webhook secret in the form in which the provider shows it.
	Secret string
}

// Plan bounds a run by time and, through the Tracker's capacity, by count.
type Plan struct {
	// Connections is the number of connections, each with one request in flight at most.
	Connections int
	// Warmup is load before the part that counts; AfterWarmup is called once at its end, while the load goes on. Without a
	// warm-up it is called before the first request. A run that ends inside its warm-up does not call it.
	Warmup      time.Duration
	AfterWarmup func()
	// Duration is the part that counts.
	Duration time.Duration
	// PerSecond is the open-loop rate over all connections; 0 means closed loop, each connection sending as soon as it
	// may.
	PerSecond int
}

// Outcome holds the results that a Tracker does not know.
type Outcome struct {
	// Refused is the number of requests whose response is not a fresh acknowledgement.
	Refused int
	// Failed is the number of requests without a response.
	Failed int
	// FirstProblem describes the first refused or failed request.
	FirstProblem string
	// Exhausted reports that the Tracker's capacity ended the run before its time.
	Exhausted bool
	// Lag is how late requests were written against the open-loop schedule; it has no samples in a closed loop.
	Lag stats.Summary
}

// Run sends until the plan's time or the tracker's capacity is used up, or ctx ends. It returns after every response
// has been read. An error means that the run could not be made; refused and failed requests are counted in the Outcome
// instead.
func Run(ctx context.Context, clk clock.Clock, target Target, tracker *event.Tracker, plan Plan) (Outcome, error) {
	addrs := append([]string{target.Addr}, target.Others...)
	for _, addr := range addrs {
		if err := requireLoopback(addr); err != nil {
			return Outcome{}, err
		}
	}
	workers := make([]*worker, plan.Connections)
	for i := range workers {
		addr := addrs[i%len(addrs)]
		msg, err := newMessage(target.Scheme, addr, target.Path, target.Secret, tracker.Epoch())
		if err != nil {
			return Outcome{}, err
		}
		workers[i] = &worker{
			clk: clk, tracker: tracker, msg: msg, client: client{addr: addr},
			deadline: clk.Now().Add(plan.Warmup + plan.Duration + responseGrace),
		}
	}
	done := make(chan struct{})
	var hook sync.WaitGroup
	switch {
	case plan.AfterWarmup == nil:
	case plan.Warmup == 0:
		plan.AfterWarmup()
	default:
		hook.Go(func() {
			if wait(clk, plan.Warmup, done) {
				plan.AfterWarmup()
			}
		})
	}
	start := tracker.Now()
	errs := make([]error, len(workers))
	var running sync.WaitGroup
	for i, w := range workers {
		w.end = start + plan.Warmup + plan.Duration
		running.Go(func() {
			defer w.client.close()
			if plan.PerSecond > 0 {
				errs[i] = w.open(ctx, start, i, plan)
				return
			}
			errs[i] = w.closed(ctx)
		})
	}
	running.Wait()
	close(done)
	hook.Wait()
	return collect(workers), errors.Join(ctx.Err(), errors.Join(errs...))
}

func collect(workers []*worker) Outcome {
	var out Outcome
	var lags []time.Duration
	for _, w := range workers {
		out.Refused += w.refused
		out.Failed += w.failed
		out.Exhausted = out.Exhausted || w.exhausted
		if out.FirstProblem == "" {
			out.FirstProblem = w.firstProblem
		}
		lags = append(lags, w.lags...)
	}
	out.Lag = stats.Summarise(lags)
	return out
}

// wait returns true after d, or false as soon as done is closed.
func wait(clk clock.Clock, d time.Duration, done <-chan struct{}) bool {
	timer := clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-done:
		return false
	}
}

// worker drives one connection. Its counters are read only after it has ended.
type worker struct {
	clk      clock.Clock
	tracker  *event.Tracker
	msg      *message
	client   client
	end      time.Duration
	deadline time.Time

	refused, failed, inARow int
	firstProblem            string
	exhausted               bool
	lags                    []time.Duration
}

func (w *worker) closed(ctx context.Context) error {
	for ctx.Err() == nil && w.tracker.Now() < w.end {
		if more, err := w.one(ctx); err != nil || !more {
			return err
		}
	}
	return nil
}

// open sends event n of the schedule at start + n/rate, for every n that falls to connection index. A request that is
// late because the connection's previous response was late is still sent, and its lag recorded.
func (w *worker) open(ctx context.Context, start time.Duration, index int, plan Plan) error {
	for n := index; ctx.Err() == nil; n += plan.Connections {
		due := start + time.Duration(n)*time.Second/time.Duration(plan.PerSecond)
		if due >= w.end {
			return nil
		}
		if !wait(w.clk, due-w.tracker.Now(), ctx.Done()) {
			return nil
		}
		w.lags = append(w.lags, w.tracker.Now()-due)
		if more, err := w.one(ctx); err != nil || !more {
			return err
		}
	}
	return nil
}

// one sends one event and waits for its response. It returns false when the tracker takes no more events, and an error
// when the connection is beyond hope.
func (w *worker) one(ctx context.Context) (more bool, err error) {
	if err := w.client.connect(ctx, w.deadline); err != nil {
		return true, w.lost(ctx, err)
	}
	seq, ok := w.tracker.Next()
	if !ok {
		w.exhausted = true
		return false, nil
	}
	request := w.msg.prepare(seq, w.clk.Now())
	w.tracker.Sent(seq)
	response, err := w.client.do(request)
	if err != nil {
		return true, w.lost(ctx, err)
	}
	w.inARow = 0
	if accepted(response) {
		w.tracker.Acked(seq)
		return true, nil
	}
	w.refused++
	w.note(fmt.Sprintf("%s %s", response.StartLine, response.Body[:min(len(response.Body), maxExcerpt)]))
	return true, nil
}

// lost counts a request without a response and returns its cause when the connection has to be closed. A request that
// the run's own end cuts off is no failure.
func (w *worker) lost(ctx context.Context, cause error) (fatal error) {
	if ctx.Err() == nil {
		w.failed++
		w.inARow++
		w.note(cause.Error())
		if w.inARow >= maxFailures {
			fatal = cause
		}
	}
	return fatal
}

func (w *worker) note(problem string) {
	if w.firstProblem == "" {
		w.firstProblem = problem
	}
}

func requireLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("target address: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%w: %s", ErrNotLoopback, addr)
	}
	return nil
}
