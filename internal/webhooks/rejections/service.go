package rejections

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
)

// Limits of the work that strangers can cause. Requests beyond them are counted.
const (
	storedPerSecond, storedBurst       = 5, 20
	diagnosedPerSecond, diagnosedBurst = 2, 5
	// Requests by alias, which anyone can guess, have a place of their own, so that they push out none by path token.
	aliasPerSecond, aliasBurst = 1, 5
	// maxQueue and maxQueuedBytes limit the waiting rejections, in requests and in bytes of headers and bodies.
	maxQueue       = 500
	maxQueuedBytes = 8 << 20
	// idleAfter is when the counters of a connection without rejections are forgotten.
	idleAfter = 10 * time.Minute
)

// Service keeps rejected requests. It is safe for concurrent use.
type Service struct {
	db    *db.DB
	clock clock.Clock
	wake  jobs.Wake

	mu          sync.Mutex
	connections map[place]*connection
	// suppressed counts rejections that are not kept, by the one before them.
	suppressed  map[string]int64
	queue       []queued
	queuedBytes int
}

// place is the ring of a connection's rejections: by path token or by alias.
type place struct {
	connectionUUID string
	byAlias        bool
}

// connection is the state of a place since this process started or the place was last idle.
type connection struct {
	stored, diagnosed *rate.Limiter
	last              time.Time
	// lastID is the last rejection that was stored or waits for it.
	lastID string
}

type queued struct {
	rejection Rejection
	diagnose  func(context.Context) Diagnosis
	bytes     int
}

// Config holds what a Service is made from.
type Config struct {
	DB    *db.DB
	Clock clock.Clock
}

// New returns a Service that stores nothing before Flush is called.
func New(c Config) *Service {
	return &Service{db: c.DB, clock: c.Clock, wake: jobs.NewWake(), connections: map[place]*connection{},
		suppressed: map[string]int64{}}
}

// Note records a rejected request. It never waits: beyond five per second and connection, or while too many wait to be
// stored, a rejection is only counted. diagnose, which may be nil, runs later and at most twice per second and
// connection; its request must not change. r needs no ID. fill, which may be nil, adds the expensive parts of r, its
// headers and its body; it is called before Note returns, and only for a rejection that is kept, so a flood of bad
// requests causes no such work.
func (s *Service) Note(r Rejection, fill func(*Rejection), diagnose func(context.Context) Diagnosis) {
	diagnosable, admitted := s.admit(&r, diagnose != nil)
	if !admitted {
		return
	}
	if fill != nil {
		fill(&r)
	}
	if !diagnosable {
		diagnose = nil
		r = trimmed(r)
	}
	s.enqueue(queued{r, diagnose, len(r.Headers) + len(r.Body)})
}

// admit reports whether a rejection is within the limits of its place, and whether it may be diagnosed. It counts a
// rejection that is not.
func (s *Service) admit(r *Rejection, diagnose bool) (diagnosable, admitted bool) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{r.ConnectionUUID, r.ByAlias}
	c, ok := s.connections[at]
	if !ok {
		c = &connection{stored: rate.NewLimiter(storedPerSecond, storedBurst), diagnosed: rate.NewLimiter(diagnosedPerSecond,
			diagnosedBurst)}
		if r.ByAlias {
			c.stored = rate.NewLimiter(aliasPerSecond, aliasBurst)
		}
		s.connections[at] = c
	}
	c.last = now
	diagnosable = diagnose && r.BodySize <= MaxDiagnosed && c.diagnosed.AllowN(now, 1)
	if len(s.queue) >= maxQueue || s.queuedBytes >= maxQueuedBytes || !c.stored.AllowN(now, 1) {
		s.suppress(c)
		return false, false
	}
	return diagnosable, true
}

// suppress counts a rejection that is not kept.
func (s *Service) suppress(c *connection) {
	if c.lastID != "" {
		s.suppressed[c.lastID]++
	}
}

// enqueue adds an admitted rejection to the queue if there is room.
func (s *Service) enqueue(q queued) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.connections[place{q.rejection.ConnectionUUID, q.rejection.ByAlias}]
	if c == nil { // Flush has forgotten it, which takes ten minutes
		return
	}
	if len(s.queue) >= maxQueue || s.queuedBytes+q.bytes > maxQueuedBytes {
		s.suppress(c)
		return
	}
	q.rejection.ID = id.New(id.PrefixRejection)
	c.lastID = q.rejection.ID
	s.queue = append(s.queue, q)
	s.queuedBytes += q.bytes
	s.wake.Signal()
}

// trimmed returns r with the part of the body that is kept, in memory of its own.
func trimmed(r Rejection) Rejection {
	if len(r.Body) > MaxBody {
		r.Body = r.Body[:MaxBody]
	}
	r.Body = append([]byte{}, r.Body...)
	if len(r.Headers) > MaxHeaders || !utf8.ValidString(r.Headers) {
		r.Headers = "{}"
	}
	return r
}

// Flush diagnoses and stores the recorded rejections. A worker calls it on Wake, and each second for the counts.
// Rejections that the database refuses are lost, because they are not events.
func (s *Service) Flush(ctx context.Context) error {
	s.mu.Lock()
	queue, suppressed := s.queue, s.suppressed
	s.queue, s.queuedBytes, s.suppressed = nil, 0, map[string]int64{}
	now := s.clock.Now()
	for at, c := range s.connections {
		if now.Sub(c.last) > idleAfter {
			delete(s.connections, at)
		}
	}
	s.mu.Unlock()
	if len(queue) == 0 && len(suppressed) == 0 {
		return nil
	}
	batch := make([]Rejection, len(queue))
	for i, q := range queue {
		batch[i] = q.rejection
		if q.diagnose != nil {
			batch[i].Diagnosis = q.diagnose(ctx)
		}
		batch[i] = trimmed(batch[i])
		if n := suppressed[batch[i].ID]; n > 0 {
			batch[i].Suppressed += n
			delete(suppressed, batch[i].ID)
		}
	}
	return s.store(ctx, batch, suppressed)
}
