// Package limiter keeps requests to providers within the providers' limits, those of all nodes together. See README.md.
package limiter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/providers/outbound"
)

// Config configures a Limiter.
type Config struct {
	DB *db.DB
	// Clock is that of requests. One that does not jump keeps no connection waiting while the machine's clock catches up.
	Clock clock.Clock
	// Wall is the clock of what is stored and shown; nil for Clock.
	Wall clock.Clock
	// Budgets counts requests, for all nodes together.
	Budgets *ratelimit.Limiter
}

// Limiter decides when requests to providers may be sent. It is safe for concurrent use.
type Limiter struct {
	cfg     Config
	known   known
	metrics metrics
}

// New returns a Limiter. The job of its module brings it the news of other nodes.
func New(cfg Config) *Limiter {
	if cfg.Wall == nil {
		cfg.Wall = cfg.Clock
	}
	return &Limiter{cfg: cfg, metrics: newMetrics()}
}

// lead is how much the clock of what is stored is ahead of that of requests.
func (l *Limiter) lead() time.Duration { return l.cfg.Wall.Now().Sub(l.cfg.Clock.Now()) }

// Caller is what a request is made for.
type Caller struct {
	Environment id.Environment
	// Connection is the UUID of a stored connection.
	Connection string
	// ConfigKey is its provider configuration, which stands for the OAuth client.
	ConfigKey string
}

// Rules are the limits that apply to a caller.
type Rules struct {
	Budgets []outbound.BudgetRule
	// MaxWait is the longest wait for a request.
	MaxWait time.Duration
}

// DefaultMaxWait is the longest wait where the definition names none.
const DefaultMaxWait = 10 * time.Second

// RulesOf returns the limits of a definition. An override replaces its budgets of one connection; the zero
// BudgetRule is none.
func RulesOf(l outbound.Limits, override outbound.BudgetRule) Rules {
	r := Rules{MaxWait: l.MaxWait}
	if r.MaxWait == 0 {
		r.MaxWait = DefaultMaxWait
	}
	if override.Limit > 0 {
		override.Scope = outbound.ScopeConnection
		r.Budgets = append(r.Budgets, override)
	}
	for _, b := range l.Budgets {
		if override.Limit == 0 || b.Scope != outbound.ScopeConnection {
			r.Budgets = append(r.Budgets, b)
		}
	}
	return r
}

// limitOf returns the limit that applies a budget. A twentieth of it may come together, and the rest comes evenly: so
// any window of the budget's length has at most 1.1 times the budget, with the slices that up to 20 nodes hold.
func limitOf(b outbound.BudgetRule) ratelimit.Limit {
	return ratelimit.Limit{Every: b.Per / time.Duration(b.Limit), Burst: 1 + int64(b.Limit)/20}
}

// bucketOf returns the bucket of a budget: that of those who share it.
func bucketOf(c *Caller, b outbound.BudgetRule) ratelimit.Bucket {
	key := "environment/" + string(c.Environment) + "/" + c.ConfigKey
	switch b.Scope {
	case outbound.ScopeClient:
		key = "client/" + string(c.Environment) + "/" + c.ConfigKey
	case outbound.ScopeEnvironment:
	default:
		key = c.Connection
	}
	return ratelimit.Bucket{Kind: ratelimit.Provider, ID: key + "/" + strconv.Itoa(b.Limit) + "/" + b.Per.String()}
}

// Acquire waits until the caller may send one request. It returns rate_limited, with the time after which to try again,
// if that would take longer than the rules allow, and the error of ctx if it ends. It reads no database, except where
// limits are too small for slices; then a request waits for a transaction, and 50 ms at most.
func (l *Limiter) Acquire(ctx context.Context, c Caller, r Rules) error {
	if l == nil {
		return nil // a test of something else
	}
	until := l.cfg.Clock.Now().Add(r.MaxWait)
	waited, parts := false, partsOf(&c, r.Budgets)
	for {
		wait := l.known.wait(c.Connection, l.cfg.Clock.Now())
		for _, p := range parts {
			wait = max(wait, l.cfg.Budgets.Exhausted(p.bucket, p.limit))
		}
		if wait == 0 {
			wait = l.take(ctx, parts)
		}
		if wait == 0 {
			l.metrics.count(waited, false)
			l.known.spend(c.Connection)
			return nil
		}
		if l.cfg.Clock.Now().Add(wait).After(until) {
			l.metrics.count(waited, true)
			return refuse(wait)
		}
		waited = true
		if err := l.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// part is a bucket that a request counts in.
type part struct {
	bucket ratelimit.Bucket
	limit  ratelimit.Limit
}

func partsOf(c *Caller, budgets []outbound.BudgetRule) []part {
	parts := make([]part, len(budgets))
	for i, b := range budgets {
		parts[i] = part{bucketOf(c, b), limitOf(b)}
	}
	return parts
}

// take takes a request from each of the parts, or from none: then it returns how long to wait.
func (l *Limiter) take(ctx context.Context, parts []part) time.Duration {
	for i, p := range parts {
		d := l.cfg.Budgets.Take(ctx, p.bucket, p.limit)
		if d.Allowed {
			continue
		}
		for _, taken := range parts[:i] {
			l.cfg.Budgets.Return(taken.bucket, taken.limit)
		}
		return max(d.RetryAfter, time.Millisecond)
	}
	return 0
}

func (l *Limiter) sleep(ctx context.Context, wait time.Duration) error {
	t := l.cfg.Clock.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the provider's rate limit: %w", ctx.Err())
	}
}

func refuse(wait time.Duration) error {
	return apperr.New(apperr.CodeRateLimited, "The provider's rate limit allows no further request now").RetryIn(wait)
}

// Observe learns from a response to the caller: what the provider says about its limits, and how long it wants no
// request.
func (l *Limiter) Observe(c Caller, limits outbound.Limits, r outbound.Response, v outbound.Verdict) {
	if l == nil {
		return
	}
	now := l.cfg.Clock.Now()
	s := seen{Remaining: -1, ObservedAt: now}
	for _, one := range limits.Learn(r, now) {
		if s.Remaining >= 0 && int64(one.Remaining) >= s.Remaining {
			continue // the limit that has less left decides
		}
		s.Limit, s.Remaining, s.ResetAt = int64(one.Limit), int64(one.Remaining), time.Time{}
		if one.Reset > 0 {
			s.ResetAt = now.Add(one.Reset)
		}
	}
	if v.Limited {
		s.BlockedUntil = now.Add(max(v.Wait, minBlock))
		l.metrics.limited.Inc()
	}
	if s.Remaining >= 0 || v.Limited {
		l.known.add(&c, s)
	}
}

// minBlock is how long no request is sent after a provider has limited one without naming a time.
const minBlock = time.Second
