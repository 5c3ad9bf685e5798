// Package ratelimit limits the rate of requests of the whole service. One node counts in memory; several lease slices
// of each limit from PostgreSQL ahead of need.
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

// Kind is the kind of sender whose requests are counted.
type Kind string

// The kinds.
const (
	APIKey Kind = "api_key"
	User   Kind = "user"
	// Address counts requests without a known principal.
	Address Kind = "address"
	// Connection counts the webhooks of one connection.
	Connection Kind = "connection"
	// Provider counts requests to a provider.
	Provider Kind = "provider"
)

// kinds returns every kind.
func kinds() []Kind { return []Kind{APIKey, User, Address, Connection, Provider} }

// Bucket is one sender whose requests are counted.
type Bucket struct {
	Kind Kind
	ID   string
}

// OfAddress returns the bucket of a client's address: one per clientaddr.Host. Requests without an address share one
// bucket.
func OfAddress(ip netip.Addr) Bucket {
	if !ip.IsValid() {
		return Bucket{Kind: Address}
	}
	return Bucket{Address, clientaddr.Host(ip).String()}
}

// Decision is the outcome for one request.
type Decision struct {
	Allowed bool
	// Limit is the burst, Remaining the number of further requests that may pass now.
	Limit, Remaining int64
	// Reset is the time until the limit is full, RetryAfter the time until a refused request may pass.
	Reset, RetryAfter time.Duration
}

// SetHeaders writes the decision to the response headers. Durations are in seconds, rounded up.
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

// maxBuckets is the number of buckets of one kind that a node remembers. It drops the least recently used one first.
// Kinds are separate, so that many unknown addresses displace no API key.
const maxBuckets = 100_000

// shards is the number of locks per kind.
const shards = 16

// Options configure a Limiter.
type Options struct {
	DB     *db.DB
	Clock  clock.Clock
	Logger *slog.Logger
	// Node is the name of this process, unique among those that run.
	Node string
}

// Limiter counts requests. It is safe for concurrent use.
type Limiter struct {
	metrics metrics
	opts    Options
	seed    maphash.Seed
	byKind  map[Kind]*[shards]shard
	leases  *leases // nil on SQLite, which only one process uses
}

type shard struct {
	mu      sync.Mutex
	buckets *simplelru.LRU[string, *state]
}

// New returns a Limiter. On PostgreSQL it needs Run.
func New(o Options) (*Limiter, error) {
	l := &Limiter{metrics: newMetrics(), opts: o, seed: maphash.MakeSeed(), byKind: map[Kind]*[shards]shard{}}
	for _, k := range kinds() {
		l.byKind[k] = new([shards]shard)
		for i := range shards {
			buckets, err := simplelru.NewLRU[string, *state](maxBuckets/shards, nil)
			if err != nil {
				return nil, fmt.Errorf("allocate rate limits: %w", err)
			}
			l.byKind[k][i].buckets = buckets
		}
	}
	if o.DB != nil && o.DB.Engine() == db.Postgres {
		l.leases = newLeases(o, l.metrics.leaseFailures.Inc)
	}
	return l, nil
}

// Run leases slices for this node until ctx ends. On SQLite it does nothing.
func (l *Limiter) Run(ctx context.Context) {
	if l.leases != nil {
		l.leases.run(ctx)
	}
}

// Take counts a request and decides whether it may pass. Refused requests do not count.
//
// On one node it never waits. On several it waits for PostgreSQL only if the node spent its slice before the next one
// arrived, and no longer than maxWait.
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

// Return gives back a request that Take has let pass and that was not made.
func (l *Limiter) Return(b Bucket, limit Limit) {
	s := l.state(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case limit.Off():
	case l.leases == nil:
		s.tat -= tat(limit.step())
	case s.limit != limit: // it was forgotten with the former limit
	case s.debt > 0:
		s.debt--
		if l.opts.Clock.Now().UnixNano() < l.leases.downUntil.Load() {
			s.share -= tat(limit.share(l.leases.nodes.Load()).step())
		}
	default:
		s.have++ // the next request takes it, or it is returned with the slice
	}
}

// Exhausted returns how long no request of the bucket may pass, as far as this node knows; 0 if one may pass now. It
// counts nothing and does not wait. It is for work that comes before it is known where a request counts.
func (l *Limiter) Exhausted(b Bucket, limit Limit) time.Duration {
	sh := &l.byKind[b.Kind][maphash.String(l.seed, b.ID)%shards]
	sh.mu.Lock()
	s, ok := sh.buckets.Peek(b.ID)
	sh.mu.Unlock()
	if !ok || limit.Off() {
		return 0
	}
	now := l.opts.Clock.Now().UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case l.leases == nil:
		return s.tat.wait(limit, now)
	case now < l.leases.downUntil.Load():
		part := limit.share(l.leases.nodes.Load())
		return s.share.wait(part, now)
	case s.have == 0 && now < s.emptyUntil:
		return time.Duration(s.emptyUntil - now)
	default:
		return 0
	}
}

func (l *Limiter) state(b Bucket) *state {
	sh := &l.byKind[b.Kind][maphash.String(l.seed, b.ID)%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s, ok := sh.buckets.Get(b.ID)
	if !ok {
		s = &state{id: string(b.Kind) + ":" + b.ID, slice: slice{deferFirst: b.Kind == Address}}
		sh.buckets.Add(b.ID, s)
	}
	return s
}

// state is a node's knowledge of one bucket.
type state struct {
	id string

	mu  sync.Mutex
	tat tat // with leased slices, as of the last grant
	// share is the node's part of the limit, which applies while the database does not respond.
	share tat
	slice
}

// local counts a request in memory only.
func (s *state) local(l Limit, now int64) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return decide(s.tat.take(l, now, 1) == 1, l, s.tat, now, 0)
}
