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
	// maxBatch is the number of buckets in one transaction.
	maxBatch = 200
	// leaseTimeout limits a transaction.
	leaseTimeout = 2 * time.Second
	// outagePause is the time for which a node decides alone after a transaction that failed.
	outagePause = time.Second
	// upkeepInterval is the time between two returns of unspent slices, and between two registrations of the node.
	upkeepInterval = time.Second
)

// leases holds a node's slices. One goroutine leases slices for all queued buckets, in one transaction after the other,
// so that a busy node leases many together.
type leases struct {
	opts         Options
	countFailure func()
	store        store
	wake         jobs.Wake

	mu    sync.Mutex
	queue []*state            // buckets that wait for a lease request
	held  map[*state]struct{} // buckets with a grant, until their slices expire

	downUntil atomic.Int64 // in nanoseconds since 1970
	nodes     atomic.Int64 // number of nodes
	stopping  atomic.Bool  // no more slices are wanted
}

func newLeases(o Options, countFailure func()) *leases {
	l := &leases{opts: o, countFailure: countFailure, store: store{o.DB, o.Clock}, wake: jobs.NewWake(),
		held: map[*state]struct{}{}}
	l.nodes.Store(1)
	return l
}

func (l *leases) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { jobs.Loop(ctx, l.opts.Clock, nil, l.keepUp) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.wake:
			l.processQueue(ctx)
		}
	}
	loops.Wait()
	// The rest of the slices is returned, so that other nodes need not wait until it comes free.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTimeout)
	defer cancel()
	l.stopping.Store(true)
	l.returnExpired(l.opts.Clock.Now().Add(sliceLife).UnixNano())
	l.processQueue(last)
	_ = l.store.unregister(last, l.opts.Node) // otherwise its row expires
}

// take decides about one request.
func (l *leases) take(ctx context.Context, s *state, limit Limit) Decision {
	var timer clock.Timer
	for {
		now := l.opts.Clock.Now().UnixNano()
		s.mu.Lock()
		s.setLimit(limit)
		if now < l.downUntil.Load() {
			defer s.mu.Unlock()
			return s.decideAlone(limit, l.nodes.Load(), now)
		}
		o, lease := s.spend(now)
		var granted chan struct{}
		if o == unknown {
			s.waiting++
			if s.granted == nil {
				s.granted = make(chan struct{})
			}
			granted = s.granted
		}
		lease = lease && !s.queued
		s.queued = s.queued || lease
		d := decide(o == passed, limit, s.tat, now, s.have)
		if o == refused {
			d.RetryAfter = max(d.RetryAfter, time.Duration(s.emptyUntil-now))
		}
		s.mu.Unlock()
		if lease {
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
		case <-granted:
			continue
		case <-timer.C():
		case <-ctx.Done():
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.granted == granted {
			s.waiting-- // otherwise the lease request has been sent
		}
		return s.decideAlone(limit, l.nodes.Load(), now)
	}
}

// decideAlone decides without the other nodes, by an equal share of the limit. The next lease request charges the
// requests that pass.
func (s *state) decideAlone(l Limit, nodes, now int64) Decision {
	share := l.share(nodes)
	allowed := s.share.take(share, now, 1) == 1
	if allowed {
		s.debt++
	}
	return decide(allowed, share, s.share, now, 0)
}

func (l *leases) enqueue(s *state) {
	l.mu.Lock()
	l.queue = append(l.queue, s)
	l.mu.Unlock()
	l.wake.Signal()
}

// processQueue leases slices for all queued buckets until the queue is empty.
func (l *leases) processQueue(ctx context.Context) {
	for {
		l.mu.Lock()
		n := min(len(l.queue), maxBatch)
		batch := l.queue[:n:n]
		l.queue = l.queue[n:]
		if len(l.queue) == 0 {
			l.queue = nil
		}
		for _, s := range batch {
			l.held[s] = struct{}{}
		}
		l.mu.Unlock()
		if n == 0 {
			return
		}
		requests := make([]leaseRequest, 0, n)
		for _, s := range batch {
			if r := s.leaseRequest(!l.stopping.Load()); r.empty() {
				r.end()
			} else {
				requests = append(requests, r)
			}
		}
		if len(requests) > 0 {
			l.lease(ctx, requests)
		}
	}
}

func (l *leases) lease(ctx context.Context, requests []leaseRequest) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	now := l.opts.Clock.Now()
	grants, err := l.store.lease(ctx, requests, now.UnixNano())
	if err != nil {
		l.reportFailure(ctx, err)
		for _, r := range requests {
			r.state.restore(r)
		}
		return
	}
	for i, r := range requests {
		r.state.accept(r, grants[i], now.UnixNano())
	}
}

func (l *leases) reportFailure(ctx context.Context, err error) {
	l.downUntil.Store(l.opts.Clock.Now().Add(outagePause).UnixNano())
	l.countFailure()
	l.opts.Logger.WarnContext(ctx, "cannot share rate limits with other nodes; this node applies its share of them",
		slog.String("error", err.Error()))
}

// keepUp returns unspent slices and registers the node.
func (l *leases) keepUp(ctx context.Context) time.Duration {
	now := l.opts.Clock.Now()
	l.returnExpired(now.UnixNano())
	nodes, err := l.store.register(ctx, l.opts.Node, now)
	switch {
	case err == nil:
		l.nodes.Store(nodes)
	case ctx.Err() == nil:
		l.reportFailure(ctx, err)
	}
	return upkeepInterval
}

// returnExpired queues the buckets whose slices have expired by then.
func (l *leases) returnExpired(then int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.held {
		expired, queue := s.expire(then)
		if queue {
			l.queue = append(l.queue, s)
		}
		if expired {
			delete(l.held, s)
		}
	}
	if len(l.queue) > 0 {
		l.wake.Signal()
	}
}

// expire ends a slice that has expired by then. It reports whether it has, and whether the bucket must be queued to
// return the rest or charge a debt.
func (s *state) expire(then int64) (expired, queue bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if then < s.until {
		return false, false
	}
	s.surplus, s.have = s.surplus+s.have, 0
	queue = !s.queued && (s.surplus > 0 || s.debt > 0)
	s.queued = s.queued || queue
	return true, queue
}
