package deliveries

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/obs"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// Config holds what a Service is made from.
type Config struct {
	Store         *Store
	Subscriptions Subscriptions
	// Client sends the requests; nil in tests that send nothing.
	Client  *egress.Client
	Clock   clock.Clock
	Logger  *slog.Logger
	Batches *obs.Batches
	Options Options
}

// Options are the limits of the workers.
type Options struct {
	// Concurrency limits the attempts in progress in this process, PerSubscription and PerHost those to one of each.
	Concurrency, PerSubscription, PerHost int
	// Lease is how long a delivery stays with a worker that does not renew it. It must exceed the longest timeout.
	Lease time.Duration
	// Node names this process's data folder. At start the leases of a predecessor with the same name are recovered.
	Node string
}

// Subscriptions provides the subscriptions of deliveries and tests.
type Subscriptions interface {
	Get(ctx context.Context, v access.View, subscriptionID string) (subscriptions.Subscription, error)
	Target(ctx context.Context, env id.Environment, subscriptionID string) (*subscriptions.Target, error)
	Disable(ctx context.Context, env id.Environment, subscriptionID, reason string) error
}

// Service sends deliveries and changes them on request.
type Service struct {
	db      *db.DB
	store   *Store
	events  *events.Store
	subs    Subscriptions
	client  *egress.Client
	clock   clock.Clock
	log     *slog.Logger
	metrics metrics
	batches *obs.Batches
	opts    Options

	dispatcher *dispatcher
	recorder   *recorder
	follower   *follower
	wake       jobs.Wake
	claims     *jobs.Claims
	doubts     jobs.Doubts
	// bodies limits the memory of large payloads that are being sent.
	bodies *semaphore.Weighted
	tests  testPlaces
	// drained holds the deliveries that waited when Drain was called.
	drained []Delivery
	hard    context.Context //nolint:containedctx // the life of the attempts in progress, ended by Stop
	cancel  context.CancelFunc
	loops   context.CancelFunc
	running sync.WaitGroup
}

// maxBodyMemory limits the memory of large payloads while they are sent, in bytes.
const maxBodyMemory = 64 << 20

// New returns a Service that sends nothing before Start.
func New(c Config) *Service {
	s := &Service{db: c.Store.db, store: c.Store, events: c.Store.events, subs: c.Subscriptions, client: c.Client,
		clock: c.Clock, log: c.Logger, metrics: newMetrics(), batches: c.Batches, opts: c.Options, wake: jobs.NewWake(),
		bodies: semaphore.NewWeighted(maxBodyMemory), claims: jobs.NewClaims(c.Options.Node)}
	s.hard, s.cancel = context.WithCancel(context.Background())
	s.dispatcher = newDispatcher(c.Options.Concurrency, c.Options.PerSubscription, c.Options.PerHost, s.sendDelivery)
	s.recorder = newRecorder(s)
	s.follower = &follower{store: s.store, subs: s.subs, clock: s.clock, log: s.log, wake: s.wake}
	return s
}

// Store returns the service's store, for reading.
func (s *Service) Store() *Store { return s.store }

// start recovers the leases of a predecessor and starts the workers.
func (s *Service) start(ctx context.Context) error {
	for {
		n, more, err := s.store.recover(ctx, s.clock.Now(), s.claims.NodePrefix(), s.dispatcher.holds)
		if err != nil {
			return err
		}
		if n > 0 {
			s.log.WarnContext(ctx, "recovered deliveries that an earlier process left unfinished", slog.Int("count", n))
		}
		if !more {
			break
		}
	}
	loopCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.loops = cancel
	go s.recorder.run()
	s.running.Go(func() { jobs.Loop(loopCtx, s.clock, s.wake, s.claimDue) })
	s.running.Go(func() { jobs.Loop(loopCtx, s.clock, nil, s.keepLeases) })
	s.running.Go(func() { jobs.Loop(loopCtx, s.clock, s.store.follow, s.follower.followSubscriptions) })
	s.running.Go(func() { jobs.Loop(loopCtx, s.clock, nil, s.measure) })
	s.running.Go(func() { jobs.Loop(loopCtx, s.clock, nil, s.recorder.storeCounts) })
	return nil
}

// drain begins the stop: no further attempt starts, and attempts in progress end by themselves. stop must follow.
func (s *Service) drain() { s.drained = s.dispatcher.stop() }

// stop releases the waiting deliveries, lets the attempts in progress end until ctx does, interrupts the others, and
// stores every outcome.
func (s *Service) stop(ctx context.Context) {
	waiting := append(s.drained, s.dispatcher.stop()...)
	s.loops()
	s.running.Wait()
	waiting = append(waiting, s.dispatcher.stop()...)
	now := s.clock.Now()
	if err := s.store.changeEach(context.WithoutCancel(ctx), waiting, now, func(d Delivery) Delivery {
		return d.returned(now)
	}); err != nil {
		s.log.ErrorContext(ctx, "cannot release leases; they expire", slog.String("error", err.Error()))
	}
	if err := s.dispatcher.wait(ctx); err != nil {
		s.cancel()
	}
	s.recorder.flush(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	s.recorder.storeCounts(last)
	cancel()
	s.cancel()
	s.recorder.end()
}

// newLease returns the claim and the end of the lease for deliveries that are about to be committed as leased.
func (s *Service) newLease(now time.Time) (claim string, until time.Time) {
	return s.claims.Next(), now.Add(s.opts.Lease)
}

// maxHandedBody is the size of the largest body that stays in memory from receipt to its first attempt, in bytes.
const maxHandedBody = 32 << 10

// freshFor is how long a payload in memory is assumed to exist in the database. After that it is read again before it
// is sent, because any node may have removed it.
const freshFor = time.Second

// handOver gives a committed, leased delivery to the workers.
func (s *Service) handOver(d Delivery, e *events.Event, p *events.Payload) {
	if len(p.Body) > maxHandedBody {
		p = nil
	}
	s.dispatcher.enqueue(&job{delivery: d, event: e, payload: p, since: s.clock.Now()})
}

// Wake makes the workers look for due deliveries immediately.
func (s *Service) Wake() { s.wake.Signal() }

// pollInterval is how often due deliveries are claimed when nothing wakes the claimer: it limits how late a retry
// starts.
const pollInterval = 500 * time.Millisecond

// claimDue leases due deliveries into memory until there are none or no room is left.
func (s *Service) claimDue(ctx context.Context) time.Duration {
	// A claim that has begun is completed even when the process is stopping: if it is interrupted during its commit, or
	// cannot be released, it leaves leases behind that no process knows of.
	whole := context.WithoutCancel(ctx)
	if err := s.doubts.Resolve(func(claim string) error {
		return s.store.releaseClaim(whole, claim, s.clock.Now())
	}); err != nil {
		s.log.ErrorContext(ctx, "cannot release deliveries of an uncertain commit", slog.String("error", err.Error()))
	}
	for ctx.Err() == nil {
		free, full := s.dispatcher.room()
		if free == 0 {
			return pollInterval
		}
		now := s.clock.Now()
		claim, until := s.newLease(now)
		claimed, err := s.store.claim(whole, claim, now, until, min(free, chunk), full)
		if err != nil {
			s.doubts.Add(claim, err)
			s.log.ErrorContext(ctx, "cannot claim due deliveries", slog.String("error", err.Error()))
			return pollInterval
		}
		var back []Delivery
		for _, d := range claimed {
			if !s.dispatcher.reserve(d.SubscriptionID) {
				back = append(back, d)
				continue
			}
			s.dispatcher.enqueue(&job{delivery: d})
		}
		if err := s.store.changeEach(whole, back, now, func(d Delivery) Delivery { return d.returned(now) }); err != nil {
			s.log.ErrorContext(ctx, "cannot release leases; they expire", slog.String("error", err.Error()))
		}
		if len(claimed) < min(free, chunk) || len(back) > 0 {
			break
		}
	}
	return pollInterval
}

// keepLeases renews the leases of the deliveries in memory and recovers leases that other processes lost.
func (s *Service) keepLeases(ctx context.Context) time.Duration {
	interval := s.opts.Lease / 4
	now := s.clock.Now()
	var old []Delivery
	for _, d := range s.dispatcher.all() {
		if d.Due.Sub(now) < s.opts.Lease*3/4 {
			old = append(old, d)
		}
	}
	if err := s.store.renew(ctx, old, now.Add(s.opts.Lease)); err != nil && ctx.Err() == nil {
		s.log.ErrorContext(ctx, "cannot renew leases", slog.String("error", err.Error()))
	}
	for {
		n, more, err := s.store.recover(ctx, now, "", s.dispatcher.holds)
		if err != nil {
			if ctx.Err() == nil {
				s.log.ErrorContext(ctx, "cannot recover lost leases", slog.String("error", err.Error()))
			}
			return interval
		}
		if n > 0 {
			s.log.WarnContext(ctx, "recovered deliveries whose lease had expired", slog.Int("count", n))
			s.wake.Signal()
		}
		if !more || n == 0 {
			return interval
		}
	}
}

// measure refreshes the gauges of the queue.
func (s *Service) measure(ctx context.Context) time.Duration {
	const interval = 5 * time.Second
	now := s.clock.Now()
	depth, err := s.store.Depth(ctx, now)
	if err != nil {
		if ctx.Err() == nil {
			s.log.ErrorContext(ctx, "cannot measure the queue", slog.String("error", err.Error()))
		}
		return interval
	}
	s.metrics.queueDepth.Set(float64(depth.Due))
	age := 0.0
	if !depth.Oldest.IsZero() {
		age = now.Sub(depth.Oldest).Seconds()
	}
	s.metrics.queueOldest.Set(age)
	return interval
}
