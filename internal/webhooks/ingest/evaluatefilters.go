package ingest

import (
	"context"
	"slices"
	"sync"

	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// maxScreens limits the events whose filters are evaluated at the same time, and so the memory of their parsed bodies;
// maxEnvironmentScreens limits those of one environment, so that its costly filters delay no other.
const maxScreens, maxEnvironmentScreens = 16, 4

// screens counts the events whose filters are being evaluated.
type screens struct {
	all   chan struct{}
	mu    sync.Mutex
	byEnv map[id.Environment]chan struct{}
}

func newScreens() screens {
	return screens{all: make(chan struct{}, maxScreens), byEnv: map[id.Environment]chan struct{}{}}
}

// begin waits for a place and returns the function that frees it.
func (s *screens) begin(env id.Environment) (end func()) {
	s.mu.Lock()
	own := s.byEnv[env]
	if own == nil {
		own = make(chan struct{}, maxEnvironmentScreens)
		s.byEnv[env] = own
	}
	s.mu.Unlock()
	own <- struct{}{}
	s.all <- struct{}{}
	return func() { <-s.all; <-own }
}

// evaluateFilters evaluates the filters of the subscriptions that the event matches by type and scope. It runs on the
// request's own goroutine, because the one that commits is shared; applyFilters uses the results.
func (s *Service) evaluateFilters(ctx context.Context, it *item) error {
	if it.event.Control {
		return nil
	}
	e := &it.event
	found, err := s.subs.Filters(ctx, e.Environment, e.ProviderConfigKey, e.ConnectionID, e.AllTypes())
	if err != nil || len(found) == 0 {
		return err
	}
	defer s.screens.begin(e.Environment)()
	seen := filters.NewEvent(&it.event.Event, &it.payload)
	it.verdicts = make(map[*filters.Filter]bool, len(found))
	for _, f := range found {
		it.verdicts[f] = s.evaluate(f, seen)
	}
	return nil
}

// applyFilters returns the matched subscriptions that have no filter or one that is true for the event. A filter
// without a result belongs to a subscription that was changed since evaluateFilters, and is evaluated now. It changes
// the slice.
func (s *Service) applyFilters(it *item, matched []subscriptions.Matched) []subscriptions.Matched {
	var seen *filters.Event
	return slices.DeleteFunc(matched, func(m subscriptions.Matched) bool {
		if m.Filter == nil {
			return false
		}
		verdict, known := it.verdicts[m.Filter]
		if !known {
			if seen == nil {
				seen = filters.NewEvent(&it.event.Event, &it.payload)
			}
			verdict = s.evaluate(m.Filter, seen)
		}
		return !verdict
	})
}

func (s *Service) evaluate(f *filters.Filter, seen *filters.Event) bool {
	r := f.Eval(seen)
	s.evaluations.Count(r.Outcome())
	return r.Matches
}
