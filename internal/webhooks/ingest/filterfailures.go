package ingest

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// maxFailing is how many subscriptions with failed evaluations are remembered. The log of the others may say more often
// than needed that they fail.
const maxFailing = 4096

// filterFailures knows which filters fail, so that the log says it once in a while and not for each event. A filter
// that always fails looks like one that matches nothing.
type filterFailures struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, failingFilter]
}

// failingFilter is what is known of the filter of a subscription.
type failingFilter struct {
	logged time.Time
	events int // since then
}

func newFilterFailures() *filterFailures {
	known, err := simplelru.NewLRU[string, failingFilter](maxFailing, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &filterFailures{known: known}
}

// count counts an event on which the filter of a subscription failed. It returns how many there were since the last
// warning if it is time for another one, and otherwise 0.
func (f *filterFailures) count(subscriptionID string, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, found := f.known.Get(subscriptionID)
	known.events++
	due := 0
	if !found || now.Sub(known.logged) >= noteInterval || now.Before(known.logged) {
		due, known = known.events, failingFilter{logged: now}
	}
	f.known.Add(subscriptionID, known)
	return due
}

// noteFailures logs of the filters that failed on an event what is wrong, at most once a minute for each.
func (s *Service) noteFailures(ctx context.Context, env id.Environment, matched []subscriptions.Matched,
	screen *filters.Screen) {
	for _, m := range matched {
		if m.Filter == nil {
			continue
		}
		failure := screen.Result(m.Filter).Failure
		if failure == nil || failure.Code == filters.CodeCost {
			continue
		}
		if events := s.failing.count(m.ID, s.clock.Now()); events > 0 {
			s.log.WarnContext(ctx, "the filter of a subscription cannot be evaluated, so that it does not match",
				slog.String("environment_id", string(env)), slog.String("subscription_id", m.ID),
				slog.String("code", string(failure.Code)), slog.String("error", failure.Message), slog.Int("events", events))
		}
	}
}
