// Package eventstream sends the changes of events to the readers of live streams, each change once. See README.md.
package eventstream

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// Options holds the limits of the streams.
type Options struct {
	// MaxReaders limits the readers of this node, MaxPerEnvironment those of one environment on it.
	MaxReaders, MaxPerEnvironment int
}

// Config holds the dependencies of a Service.
type Config struct {
	DB       *db.DB
	Events   *events.Store
	Attempts *deliveries.Store
	Identity Identity
	Clock    clock.Clock
	Logger   *slog.Logger
	// Data returns the data of a message about an event on the wire.
	Data    func(Message) ([]byte, error)
	Options Options
}

// Identity knows the present rights of principals.
type Identity interface {
	// Current returns the principal with its present rights in the same environment, or an apperr: unauthorized if its key
	// or session has ended, not_found if it has lost the environment.
	Current(ctx context.Context, p access.Principal) (access.Principal, error)
}

// Service sends the streams of this node.
type Service struct {
	db       *db.DB
	events   *events.Store
	log      *events.LogStore
	attempts *deliveries.Store
	identity Identity
	clock    clock.Clock
	logger   *slog.Logger
	metrics  metrics
	data     func(Message) ([]byte, error)
	opts     Options

	wake    jobs.Wake
	buffers sync.Pool
	// pages limits the readers that catch up from the database at the same time.
	pages    chan struct{}
	stopping chan struct{}
	stop     sync.Once
	// open counts the readers, for callers without the lock.
	open atomic.Int64
	// flood belongs to the hub.
	flood flood

	mu sync.Mutex
	// head is the position up to which the feeds are complete; meaningless without feeds.
	head  int64
	feeds map[feedKey]*feed
	// bytes is the size of the feeds.
	bytes       int
	readers     int
	perEnv      map[id.Environment]int
	credentials map[string]*credential
}

// catchingUp is how many readers catch up from the database at a time.
const catchingUp = 4

// New returns a Service whose module feeds the readers.
func New(c Config) *Service {
	return &Service{db: c.DB, events: c.Events, attempts: c.Attempts, identity: c.Identity, clock: c.Clock,
		log: events.NewLogStore(c.DB), logger: c.Logger, metrics: newMetrics(), data: c.Data, opts: c.Options,
		wake: jobs.NewWake(), pages: make(chan struct{}, catchingUp), stopping: make(chan struct{}),
		buffers: sync.Pool{New: func() any {
			b := make([]byte, 0, pieceBytes)
			return &b
		}},
		feeds: map[feedKey]*feed{}, perEnv: map[id.Environment]int{}, credentials: map[string]*credential{}}
}

// run feeds the readers and watches their credentials until ctx ends.
func (s *Service) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { jobs.Loop(ctx, s.clock, s.wake, s.tick) })
	loops.Go(func() { jobs.Loop(ctx, s.clock, nil, s.recheck) })
	loops.Wait()
}

// endStreams ends every stream and refuses new ones. Readers reconnect to another node, or later, and miss nothing.
func (s *Service) endStreams() { s.stop.Do(func() { close(s.stopping) }) }

// Request is a request for a stream.
type Request struct {
	// View bounds what the reader may see: an environment, or some of its connections.
	View   access.View
	Filter events.Filter
	// From is where the reader stopped; nil for a new reader.
	From *Place
	// Credential identifies the credential behind the stream without containing it. Check returns nil if it still opens
	// the stream, and otherwise the apperr of a new request.
	Credential string
	Check      func(ctx context.Context) error
}

// retryAfter is the Retry-After of a refused reader.
const retryAfter = 5 * time.Second

// Open reserves a place for a reader until ctx ends.
//
// Errors: too_many_streams if the environment has its maximum of readers; unavailable if this node has, or is stopping.
func (s *Service) Open(ctx context.Context, r Request) (*Reader, error) {
	if err := s.events.CheckTypes("query.event_type", r.Filter.Types); err != nil {
		return nil, err
	}
	forms, err := s.events.Forms(ctx, r.View.Environment, r.Filter.Types)
	if err != nil {
		return nil, err
	}
	filter := compile(forms, r.View, r.Filter)
	select {
	case <-s.stopping:
		return nil, apperr.New(apperr.CodeUnavailable, "The server is stopping").RetryIn(retryAfter)
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.readers >= s.opts.MaxReaders:
		return nil, apperr.New(apperr.CodeUnavailable, "The server has as many open streams as it can feed").
			RetryIn(retryAfter)
	case s.perEnv[r.View.Environment] >= s.opts.MaxPerEnvironment:
		return nil, apperr.New(apperr.CodeTooManyStreams, "The environment has as many open streams as it may").
			RetryIn(retryAfter)
	}
	reader := &Reader{s: s, key: filter.feed(r.View.Environment),
		digest: digestOf(r.View.Environment), filter: filter, from: r.From, ended: make(chan ending, 1)}
	s.readers++
	s.open.Add(1)
	s.perEnv[r.View.Environment]++
	s.metrics.readers.Set(float64(s.readers))
	s.watch(r, reader)
	context.AfterFunc(ctx, func() { s.close(reader, r.Credential) })
	return reader, nil
}

// close releases the place of a reader.
func (s *Service) close(r *Reader, credential string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers--
	s.open.Add(-1)
	if s.perEnv[r.key.env]--; s.perEnv[r.key.env] == 0 {
		delete(s.perEnv, r.key.env)
	}
	s.metrics.readers.Set(float64(s.readers))
	s.unwatch(r, credential)
	r.gone = true
	s.leave(r)
}

// leave takes the reader off its feed. The caller holds the lock.
func (s *Service) leave(r *Reader) {
	if f := r.feed; f != nil {
		r.feed = nil
		if f.readers--; f.readers == 0 {
			s.remove(f)
		}
	}
}

// random is the source of jitter: it spreads load and protects nothing.
func random() float64 { return rand.Float64() } //nolint:gosec // jitter needs no secrecy
