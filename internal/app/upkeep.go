package app

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/ratelimit"
)

// newLimiter makes what counts requests, for all nodes together.
func (a *App) newLimiter(node string) (*ratelimit.Limiter, error) {
	return ratelimit.New(ratelimit.Options{DB: a.store.DB, Clock: a.clock, Logger: a.log, Node: node,
		Refused: func(k ratelimit.Kind) {
			a.metrics.RateLimited.WithLabelValues(string(k)).Inc()
		}, Failed: a.metrics.RateLeaseFailures.Inc})
}

// limits are the limits of requests as they are configured.
func (a *App) limits() httpapi.Limits {
	limit := func(perSecond, burst int) ratelimit.Limit {
		return ratelimit.Limit{PerSecond: int64(perSecond), Burst: int64(burst)}
	}
	return httpapi.Limits{Limiter: a.limiter, Key: limit(a.cfg.RateLimitKeyPerSecond, a.cfg.RateLimitKeyBurst),
		User: limit(a.cfg.RateLimitUserPerSecond, a.cfg.RateLimitUserBurst), Address: limit(a.cfg.RateLimitAddressPerSecond,
			a.cfg.RateLimitAddressBurst)}
}
