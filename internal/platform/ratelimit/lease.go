package ratelimit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/jobs"
)

const (
	// maxAsks is how many buckets one statement asks about.
	maxAsks = 200
	// askTimeout bounds a question.
	askTimeout = 2 * time.Second
	// downFor is for how long nodes decide by themselves after a question that was not answered.
	downFor = time.Second
	// tidyInterval is how often slices that nobody spends are looked for, and how often a node says that it is there.
	tidyInterval = time.Second
)

// leases keeps a node's slices. One goroutine asks the database about all buckets that wait, in one transaction after
// the other, so that a busy node asks about many at once.
type leases struct {
	opts         Options
	countFailure func()
	store        store
	wake         jobs.Wake

	mu   sync.Mutex
	line []*state            // buckets to be asked about
	held map[*state]struct{} // buckets that have had an answer, until they hold nothing

	downUntil atomic.Int64 // in nanoseconds since 1970
	nodes     atomic.Int64 // how many nodes there are
	stopping  atomic.Bool  // nothing is wanted any more
}

func newLeases(o Options, countFailure func()) *leases {
	l := &leases{opts: o, countFailure: countFailure, store: store{o.DB, o.Clock}, wake: jobs.NewWake(), held: map[*state]struct{}{}}
	l.nodes.Store(1)
	return l
}

func (l *leases) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { jobs.Loop(ctx, l.opts.Clock, nil, l.tidy) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.wake:
			l.answer(ctx)
		}
	}
	loops.Wait()
	// What is left goes back, so that the other nodes need not wait until it comes free by itself.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	l.stopping.Store(true)
	l.giveBack(l.opts.Clock.Now().Add(sliceLife).UnixNano())
	l.answer(last)
	_ = l.store.leave(last, l.opts.Node) // else its row grows old
}

// take decides about one request.
func (l *leases) take(ctx context.Context, s *state, limit Limit) Decision {
	var timer clock.Timer
	for {
		now := l.opts.Clock.Now().UnixNano()
		s.mu.Lock()
		s.follow(limit)
		if now < l.downUntil.Load() {
			defer s.mu.Unlock()
			return s.alone(limit, l.nodes.Load(), now)
		}
		o, ask := s.try(now)
		var answered chan struct{}
		if o == unknown {
			s.waiting++
			if s.answered == nil {
				s.answered = make(chan struct{})
			}
			answered = s.answered
		}
		ask = ask && !s.asking
		s.asking = s.asking || ask
		d := decide(o == passed, limit, s.tat, now, s.have)
		if o == refused {
			d.RetryAfter = max(d.RetryAfter, time.Duration(s.empty-now))
		}
		s.mu.Unlock()
		if ask {
			l.enqueue(s)
		}
		if o != unknown {
			return d
		}
		if timer == nil {
			timer = l.opts.Clock.NewTimer(maxWait)
			defer timer.Stop()
		}
		select {
		case <-answered:
			continue
		case <-timer.C():
		case <-ctx.Done():
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.answered == answered {
			s.waiting-- // else the question is on its way
		}
		return s.alone(limit, l.nodes.Load(), now)
	}
}

// alone decides without the other nodes: by an equal share of the limit. What passes is charged with the next question.
func (s *state) alone(l Limit, nodes, now int64) Decision {
	share := Limit{PerSecond: max(1, l.PerSecond/nodes), Burst: max(1, l.Burst/nodes)}
	allowed := s.share.take(share, now, 1) == 1
	if allowed {
		s.debt++
	}
	return decide(allowed, share, s.share, now, 0)
}

func (l *leases) enqueue(s *state) {
	l.mu.Lock()
	l.line = append(l.line, s)
	l.mu.Unlock()
	l.wake.Signal()
}

// answer asks the database about all that are in line, until nobody is.
func (l *leases) answer(ctx context.Context) {
	for {
		l.mu.Lock()
		n := min(len(l.line), maxAsks)
		batch := l.line[:n:n]
		l.line = l.line[n:]
		if len(l.line) == 0 {
			l.line = nil
		}
		for _, s := range batch {
			l.held[s] = struct{}{}
		}
		l.mu.Unlock()
		if n == 0 {
			return
		}
		asks := make([]ask, 0, n)
		for _, s := range batch {
			if a := s.question(!l.stopping.Load()); a.want > 0 || a.charge > 0 || a.back > 0 {
				asks = append(asks, a)
			} else {
				a.wake()
			}
		}
		if len(asks) > 0 {
			l.settle(ctx, asks)
		}
	}
}

func (l *leases) settle(ctx context.Context, asks []ask) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	now := l.opts.Clock.Now()
	grants, err := l.store.lease(ctx, asks, now.UnixNano())
	if err != nil {
		l.failed(ctx, err)
		for _, a := range asks {
			a.state.ungrant(a)
		}
		return
	}
	for i, a := range asks {
		a.state.grant(a, grants[i].tat, grants[i].granted, now.UnixNano())
	}
}

func (l *leases) failed(ctx context.Context, err error) {
	l.downUntil.Store(l.opts.Clock.Now().Add(downFor).UnixNano())
	l.countFailure()
	l.opts.Logger.WarnContext(ctx, "rate limits could not be shared with other nodes; this one goes by its part of them",
		slog.String("error", err.Error()))
}

// tidy gives back what nobody spends and says that the node is there.
func (l *leases) tidy(ctx context.Context) time.Duration {
	now := l.opts.Clock.Now()
	l.giveBack(now.UnixNano())
	nodes, err := l.store.greet(ctx, l.opts.Node, now)
	switch {
	case err == nil:
		l.nodes.Store(nodes)
	case ctx.Err() == nil:
		l.failed(ctx, err)
	}
	return tidyInterval
}

// giveBack puts into line whatever holds a slice that is over by then.
func (l *leases) giveBack(then int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.held {
		over, line := s.over(then)
		if line {
			l.line = append(l.line, s)
		}
		if over {
			delete(l.held, s)
		}
	}
	if len(l.line) > 0 {
		l.wake.Signal()
	}
}

// over reports whether the node has nothing of the bucket any more, and whether something is to be given back for that.
func (s *state) over(then int64) (over, line bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if then < s.until {
		return false, false
	}
	s.spare, s.have = s.spare+s.have, 0
	line = !s.asking && (s.spare > 0 || s.debt > 0)
	s.asking = s.asking || line
	return true, line
}
