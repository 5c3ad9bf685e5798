package ingest

import (
	"context"

	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/providers/connections"
)

// Limiter counts the webhooks of connections, on all nodes together; *ratelimit.Limiter is one.
type Limiter interface {
	Take(ctx context.Context, b ratelimit.Bucket, l ratelimit.Limit) ratelimit.Decision
}

// countRate counts a verified webhook of a connection with a limit, whose burst is the webhooks of one second, and
// returns nil for a connection without one. Only verified webhooks count, so a stranger who knows the URL cannot use up
// the provider's limit.
func (s *Service) countRate(ctx context.Context, c *connections.Connection) *ratelimit.Decision {
	perSecond := c.Webhook.RatePerSecond
	if perSecond == nil {
		return nil
	}
	d := s.limiter.Take(ctx, ratelimit.Bucket{Kind: ratelimit.Connection, ID: c.UUID},
		ratelimit.Limit{PerSecond: *perSecond, Burst: *perSecond})
	return &d
}
