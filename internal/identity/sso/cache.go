package sso

import (
	"context"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

const (
	// cacheFor is how long metadata and keys are gone by without asking for them again.
	cacheFor = 5 * time.Minute
	// keysAgain is how long keys are not asked for again although a token names one that is not known.
	keysAgain = 30 * time.Second
	// maxCached bounds the issuers that are kept.
	maxCached = 100
)

// cache keeps what issuers publish, so that strangers who begin sign-ins do not make the service ask each time.
type cache struct {
	mu      sync.Mutex
	issuers map[string]published
	loads   singleflight.Group
}

// published holds an issuer's published documents, and when they were fetched.
type published struct {
	metadata metadata
	keys     []jose.JSONWebKey
	asked    time.Time
}

func newCache() *cache { return &cache{issuers: map[string]published{}} }

func (c *cache) get(issuer string) (published, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.issuers[issuer]
	return p, ok
}

func (c *cache) put(issuer string, p published) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.issuers) >= maxCached {
		clear(c.issuers)
	}
	c.issuers[issuer] = p
}

// published returns what an issuer publishes, not older than that.
func (s *Service) published(ctx context.Context, issuer string, age time.Duration) (published, *providerError) {
	now := s.clock.Now()
	if p, ok := s.cache.get(issuer); ok && now.Sub(p.asked) < age && !now.Before(p.asked) {
		return p, nil
	}
	type result struct {
		published
		refusal *providerError
	}
	// All waiting requests share the exchange, so it outlives the request that began it; each exchange has a deadline of
	// its own.
	loaded := s.cache.loads.DoChan(issuer, func() (any, error) {
		p, f := s.ask(context.WithoutCancel(ctx), issuer)
		if f == nil {
			p.asked = now
			s.cache.put(issuer, p)
		}
		return result{p, f}, nil
	})
	select {
	case <-ctx.Done():
		return published{}, &providerError{Message: "The request ended before the identity provider responded.",
			Unreachable: true}
	case r := <-loaded:
		got, _ := r.Val.(result)
		return got.published, got.refusal
	}
}

func (s *Service) ask(ctx context.Context, issuer string) (published, *providerError) {
	m, f := s.peer.fetchMetadata(ctx, issuer)
	if f != nil {
		return published{}, f
	}
	keys, f := s.peer.fetchKeys(ctx, m.JWKSURI)
	return published{metadata: m, keys: keys}, f
}
