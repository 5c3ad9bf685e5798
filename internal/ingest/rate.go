package ingest

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sallyport/internal/connections"
)

// maxRates bounds the connections whose rate is remembered; beyond it some begin anew.
const maxRates = 10_000

// rates counts the deliveries of the connections that have a limit. Only verified ones count: else a stranger who knows the URL could
// use up the limit of the provider.
type rates struct {
	mu           sync.Mutex
	byConnection map[string]*rate.Limiter
}

// wait counts a delivery and returns how long its sender should wait; 0 when it is within the limit.
func (r *rates) wait(c *connections.Connection, now time.Time) time.Duration {
	limit := c.Webhook.RatePerSecond
	if limit == nil {
		return 0
	}
	reservation := r.limiter(c.UUID, *limit).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait == 0 {
		return 0
	}
	reservation.CancelAt(now) // a delivery that is turned away takes nothing from those that come later
	return time.Duration(math.Ceil(wait.Seconds())) * time.Second
}

// limiter returns the connection's limiter, which takes a second's worth at once.
func (r *rates) limiter(connectionUUID string, perSecond int64) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byConnection[connectionUUID]
	if l == nil || l.Burst() != int(perSecond) {
		if r.byConnection == nil {
			r.byConnection = map[string]*rate.Limiter{}
		}
		for victim := range r.byConnection { // map order is random enough to choose by
			if len(r.byConnection) < maxRates {
				break
			}
			delete(r.byConnection, victim)
		}
		l = rate.NewLimiter(rate.Limit(perSecond), int(perSecond))
		r.byConnection[connectionUUID] = l
	}
	return l
}
