package ingesthttp

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sallyport/internal/platform/ratelimit"
)

// Limits of rejected webhooks from one address. Verified webhooks are never limited, because the provider may not
// resend one that was turned away.
const (
	rejectionsPerSecond = 20
	rejectionBurst      = 100
	// maxAddresses limits the memory that strangers can use.
	maxAddresses = 10_000
)

// rejectionLimit counts rejected webhooks by sender, identified by clientaddr.Host, for the latest senders.
type rejectionLimit struct {
	mu        sync.Mutex
	byAddress map[netip.Addr]*list.Element
	recent    *list.List
}

type address struct {
	source  netip.Addr
	limiter *rate.Limiter
}

func newRejectionLimit() *rejectionLimit {
	return &rejectionLimit{byAddress: map[netip.Addr]*list.Element{}, recent: list.New()}
}

// count counts a rejection and returns whether the sender is within its limit, or how long it should wait.
func (r *rejectionLimit) count(source netip.Addr, now time.Time) ratelimit.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byAddress[source]
	if !ok {
		e = r.recent.PushFront(&address{source: source, limiter: rate.NewLimiter(rejectionsPerSecond, rejectionBurst)})
		r.byAddress[source] = e
		if r.recent.Len() > maxAddresses {
			oldest := r.recent.Back()
			if a, ok := r.recent.Remove(oldest).(*address); ok {
				delete(r.byAddress, a.source)
			}
		}
	}
	r.recent.MoveToFront(e)
	a, ok := e.Value.(*address)
	if !ok {
		return ratelimit.Decision{Allowed: true}
	}
	reservation := a.limiter.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait == 0 {
		return ratelimit.Decision{Allowed: true}
	}
	reservation.CancelAt(now) // a rejection that gets 429 is not counted again
	full := (rejectionBurst - a.limiter.TokensAt(now)) / rejectionsPerSecond
	return ratelimit.Decision{Limit: rejectionBurst, RetryAfter: wait, Reset: time.Duration(full * float64(time.Second))}
}
