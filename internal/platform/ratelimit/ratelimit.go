// Package ratelimit limits the rate of requests of the whole service. One node counts in memory; several lease slices of
// each limit from PostgreSQL ahead of need.
package ratelimit

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Kind says whose requests are counted.
type Kind string

// The kinds.
const (
	APIKey Kind = "api_key"
	User   Kind = "user"
	// Address counts requests that nobody is known to make.
	Address Kind = "address"
	// Connection counts the deliveries of one connection's provider.
	Connection Kind = "connection"
)

// kinds returns every kind.
func kinds() []Kind { return []Kind{APIKey, User, Address, Connection} }

// Bucket is one of whom requests are counted.
type Bucket struct {
	Kind Kind
	ID   string
}

// OfAddress returns the bucket of a client's address: one for each host, as clientaddr.Host tells them apart. Requests
// without an address share one bucket.
func OfAddress(ip netip.Addr) Bucket {
	if !ip.IsValid() {
		return Bucket{Kind: Address}
	}
	return Bucket{Address, clientaddr.Host(ip).String()}
}

// Decision is what becomes of one request.
type Decision struct {
	Allowed bool
	// Limit is the burst, Remaining how many more requests may pass at once.
	Limit, Remaining int64
	// Reset is how long it takes until the limit is full, RetryAfter until a request that was refused may pass.
	Reset, RetryAfter time.Duration
}

// SetHeaders tells the client. Durations are in seconds, rounded up.
func (d Decision) SetHeaders(h http.Header) {
	h.Set("X-RateLimit-Limit", strconv.FormatInt(d.Limit, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(d.Remaining, 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(int64(math.Ceil(d.Reset.Seconds())), 10))
}

func decide(allowed bool, l Limit, t tat, now, spare int64) Decision {
	d := Decision{Allowed: allowed, Limit: max(1, l.Burst), Remaining: min(t.free(l, now)+spare, max(1, l.Burst)),
		Reset: t.reset(now)}
	if !allowed {
		d.Remaining, d.RetryAfter = 0, t.wait(l, now)
	}
	return d
}

// maxBuckets is how many buckets of one kind a node remembers; the ones that were not seen for longest go first. Kinds
// are apart, so that strangers with many addresses displace nobody's key.
const maxBuckets = 100_000

// shards is how many locks each kind has.
const shards = 16

// Options are what a Limiter is made from.
type Options struct {
	DB     *db.DB
	Clock  clock.Clock
	Logger *slog.Logger
	// Node is this process's name. No two that run have the same.
	Node string
}

// Limiter counts requests. It is safe for concurrent use.
type Limiter struct {
	metrics metrics
	opts    Options
	seed    maphash.Seed
	byKind  map[Kind]*[shards]shard
	leases  *leases // nil on SQLite, which one process has to itself
}

type shard struct {
	mu      sync.Mutex
	buckets *simplelru.LRU[string, *state]
}

// New returns a Limiter. On PostgreSQL Run must run.
func New(o Options) (*Limiter, error) {
	l := &Limiter{metrics: newMetrics(), opts: o, seed: maphash.MakeSeed(), byKind: map[Kind]*[shards]shard{}}
	for _, k := range kinds() {
		l.byKind[k] = new([shards]shard)
		for i := range shards {
			buckets, err := simplelru.NewLRU[string, *state](maxBuckets/shards, nil)
			if err != nil {
				return nil, fmt.Errorf("make room for rate limits: %w", err)
			}
			l.byKind[k][i].buckets = buckets
		}
	}
	if o.DB != nil && o.DB.Engine() == db.Postgres {
		l.leases = newLeases(o, l.metrics.leaseFailures.Inc)
	}
	return l, nil
}

// Run keeps the slices of this node until ctx ends. On SQLite there is nothing to do.
func (l *Limiter) Run(ctx context.Context) {
	if l.leases != nil {
		l.leases.run(ctx)
	}
}

// Take counts a request and says whether it may pass. A request that is refused counts for nothing.
//
// On one node it never waits. On several it waits for PostgreSQL only where the node has spent its slice faster than
// the next one came, and for no longer than maxWait.
func (l *Limiter) Take(ctx context.Context, b Bucket, limit Limit) Decision {
	s := l.state(b)
	var d Decision
	if l.leases == nil {
		d = s.local(limit, l.opts.Clock.Now().UnixNano())
	} else {
		d = l.leases.take(ctx, s, limit)
	}
	if !d.Allowed {
		l.metrics.limited.WithLabelValues(string(b.Kind)).Inc()
	}
	return d
}

func (l *Limiter) state(b Bucket) *state {
	sh := &l.byKind[b.Kind][maphash.String(l.seed, b.ID)%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s, ok := sh.buckets.Get(b.ID)
	if !ok {
		s = &state{id: string(b.Kind) + ":" + b.ID, slice: slice{stranger: b.Kind == Address}}
		sh.buckets.Add(b.ID, s)
	}
	return s
}

// state is what a node knows of one bucket.
type state struct {
	id string

	mu  sync.Mutex
	tat tat // as of the last answer, where slices are leased
	// share is the node's part of the limit, by which it goes while the database does not answer.
	share tat
	slice
}

// local counts a request in memory alone.
func (s *state) local(l Limit, now int64) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return decide(s.tat.take(l, now, 1) == 1, l, s.tat, now, 0)
}
