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
	"sallyport/internal/providers/eventtypes"
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
	// IsUncertain reports that Clock may be behind the database's until they are compared again; nil means never. No lease
	// begins then.
	IsUncertain func() bool
	Options     Options
}

// Options are the limits of the workers.
type Options struct {
	// Concurrency limits the attempts in progress in this process, PerSubscription and PerHost those to one of each.
	Concurrency, PerSubscription, PerHost int
	// Lease is how long a delivery stays with a worker that does not renew it. It must be more than twice the longest
	// timeout, because it is renewed when half of it has passed at the latest.
	Lease time.Duration
	// Node names this process's data folder. At start the leases of a predecessor with the same name are recovered.
	Node string
}

// Subscriptions provides the subscriptions of deliveries and tests.
type Subscriptions interface {
	Get(ctx context.Context, v access.View, subscriptionID string) (subscriptions.Subscription, error)
	Target(ctx context.Context, env id.Environment, subscriptionID string) (*subscriptions.Target, error)
	Disable(ctx context.Context, env id.Environment, subscriptionID, reason string) error
	// Warnings returns the warnings about the patterns of a subscription.
	Warnings(ctx context.Context, sub *subscriptions.Subscription) []subscriptions.Warning
	// TestedTypes returns the types that events can have which a person describes by the type written.
	TestedTypes(ctx context.Context, sub *subscriptions.Subscription, written string) []subscriptions.TestedType
	// TypeRules returns the rules for the types of events of that origin.
	TypeRules(ctx context.Context, env id.Environment, o subscriptions.Origin) (eventtypes.Rules, error)
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
	backlog    *backlog
	claimer    *claimer
	leases     *leases
	epochs     epochs
	kept       *kept
	fanouts    *fanouts
	recorder   *recorder
	breakers   *breakers
	follower   *follower
	// building limits the memory of large bodies that are read and built.
	building *semaphore.Weighted
	tests    testPlaces
	// drained holds the deliveries that waited when Drain was called.
	drained []Delivery
	hard    context.Context //nolint:containedctx // the life of the attempts in progress, ended by Stop
	cancel  context.CancelFunc
	loops   context.CancelFunc
	running sync.WaitGroup
}

// New returns a Service that sends nothing before Start.
func New(c Config) *Service {
	s := &Service{db: c.Store.db, store: c.Store, events: c.Store.events, subs: c.Subscriptions, client: c.Client,
		clock: c.Clock, log: c.Logger, metrics: newMetrics(), batches: c.Batches, opts: c.Options,
		building: semaphore.NewWeighted(maxBuiltMemory), backlog: newBacklog(), kept: newKept()}
	s.hard, s.cancel = context.WithCancel(db.WithTurn(context.Background(), db.TurnDelivery))
	s.dispatcher = newDispatcher(limits{c.Options.Concurrency, c.Options.PerSubscription, c.Options.PerHost},
		clock.Counting(s.clock), s.sendDelivery)
	s.breakers = newBreakers(s)
	s.claimer = &claimer{store: s.store, dispatcher: s.dispatcher, backlog: s.backlog, breakers: s.breakers,
		clock: s.clock, log: s.log, contents: s.contents, wake: jobs.NewWake(),
		claims: jobs.NewClaims(c.Options.Node), lease: c.Options.Lease, isUncertain: c.IsUncertain}
	s.dispatcher.drained = s.claimer.freed // not only when the outcomes are stored, which wait for each other
	if c.IsUncertain == nil {
		s.claimer.isUncertain = func() bool { return false }
	}
	s.leases = &leases{store: s.store, dispatcher: s.dispatcher, claimer: s.claimer, clock: s.clock, log: s.log,
		metrics: &s.metrics, length: c.Options.Lease}
	s.fanouts = newFanouts(s.store, s.clock, s.log, c.Options.Node,
		func(env id.Environment, subs []string) { s.Due(env, subs...) })
	s.recorder = newRecorder(s)
	s.breakers.storeCounts = s.recorder.storeCounts
	hearHints(s)
	if s.store.hints.Elsewhere() {
		s.dispatcher.stop() // so that no delivery is leased to this process
	}
	s.follower = &follower{store: s.store, subs: s.subs, clock: s.clock, log: s.log, claimer: s.claimer,
		breakers: s.breakers, work: newFollowWork(), slow: newFollowWork()}
	return s
}

// Store returns the service's store, for reading.
func (s *Service) Store() *Store { return s.store }

// start reads which breakers are open, recovers the leases of a predecessor and starts the workers.
func (s *Service) start(ctx context.Context) error {
	if err := s.breakers.refresh(ctx); err != nil {
		return err
	}
	for {
		n, more, err := s.store.recover(ctx, s.clock.Now(), s.claimer.claims.NodePrefix(), s.dispatcher.holds)
		if err != nil {
			return err
		}
		if n > 0 {
			s.log.WarnContext(ctx, "recovered deliveries that an earlier process left unfinished", slog.Int("count", n))
		}
		if !more || n == 0 {
			break
		}
	}
	loopCtx, cancel := context.WithCancel(db.WithTurn(context.WithoutCancel(ctx), db.TurnDelivery))
	s.loops = cancel
	go s.recorder.run()
	s.running.Go(func() { jobs.Loop(loopCtx, s.clock, s.claimer.wake, s.claimer.claimDue) })
	s.running.Go(func() { jobs.Loop(loopCtx, s.clock, s.dispatcher.renew, s.leases.keep) })
	s.running.Go(func() { jobs.Loop(loopCtx, s.clock, s.store.follow.wake, s.follower.run) })
	s.running.Go(func() { jobs.Loop(loopCtx, s.clock, nil, s.recorder.storeCounts) })
	s.running.Go(func() { jobs.Loop(loopCtx, s.clock, s.breakers.wake, s.breakers.run) })
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
	for _, j := range s.claimer.unsure {
		waiting = append(waiting, j.delivery)
	}
	now := s.clock.Now()
	if _, err := s.store.changeEach(context.WithoutCancel(ctx), waiting, now, func(d Delivery) Delivery {
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

// handOver gives a committed delivery to the workers, whose lease began after the moment given.
func (s *Service) handOver(d Delivery, leased clock.Moment, c content) {
	if len(c.payload.Body) > maxHandedBody {
		c.payload = nil
	}
	s.dispatcher.enqueue(&job{delivery: d, due: d.CreatedAt, leased: leased, content: c})
}

// Due records that deliveries of subscriptions of the environment are due, after the commit that made them so. Those
// that no one records are found a little later.
func (s *Service) Due(env id.Environment, subscriptionIDs ...string) {
	s.waiting(env, s.clock.Now(), subscriptionIDs...)
}

// measure refreshes the gauges of the queue.
func (s *Service) measure(ctx context.Context) error {
	now := s.clock.Now()
	depth, err := s.store.Depth(ctx, now)
	if err != nil {
		return err
	}
	s.metrics.queueDepth.Set(float64(depth.Due))
	age := 0.0
	if !depth.Oldest.IsZero() {
		age = now.Sub(depth.Oldest).Seconds()
	}
	s.metrics.queueOldest.Set(age)
	return nil
}
