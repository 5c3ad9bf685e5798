package ingest

import (
	"context"

	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/providers/connections"
)

// Limiter counts the deliveries of connections, on all nodes together; *ratelimit.Limiter is one.
type Limiter interface {
	Take(ctx context.Context, b ratelimit.Bucket, l ratelimit.Limit) ratelimit.Decision
}

// rate counts a verified delivery of a connection that has a limit, which takes a second's worth at once, and returns
// nil for one that has none. Only verified deliveries count: else a stranger who knows the URL could use up the limit
// of the provider.
func (s *Service) rate(ctx context.Context, c *connections.Connection) *ratelimit.Decision {
	perSecond := c.Webhook.RatePerSecond
	if perSecond == nil {
		return nil
	}
	d := s.limiter.Take(ctx, ratelimit.Bucket{Kind: ratelimit.Connection, ID: c.UUID},
		ratelimit.Limit{PerSecond: *perSecond, Burst: *perSecond})
	return &d
}
