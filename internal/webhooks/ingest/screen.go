package ingest

import (
	"context"
	"slices"
	"sync"

	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// screensAtOnce bounds the events whose filters are asked at the same time, and with that the memory of what they open;
// screensPerEnvironment those of one environment, so that costly filters of one hold up nobody else.
const screensAtOnce, screensPerEnvironment = 16, 4

// screens are the places for events whose filters are being asked.
type screens struct {
	all   chan struct{}
	mu    sync.Mutex
	byEnv map[id.Environment]chan struct{}
}

func newScreens() screens {
	return screens{all: make(chan struct{}, screensAtOnce), byEnv: map[id.Environment]chan struct{}{}}
}

// begin waits for a place and returns what gives it back.
func (s *screens) begin(env id.Environment) (end func()) {
	s.mu.Lock()
	own := s.byEnv[env]
	if own == nil {
		own = make(chan struct{}, screensPerEnvironment)
		s.byEnv[env] = own
	}
	s.mu.Unlock()
	own <- struct{}{}
	s.all <- struct{}{}
	return func() { <-s.all; <-own }
}

// screen asks the filters of the subscriptions that the event matches by type and scope. It runs on the request's own
// goroutine, because the one that commits serves everybody; admit uses what it finds.
func (s *Service) screen(ctx context.Context, it *item) error {
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
		it.verdicts[f] = s.ask(f, seen)
	}
	return nil
}

// admit returns those of the matched subscriptions that have no filter or one that is true of the event. A filter that
// is not known yet belongs to a subscription that was changed since screen, and is asked now. It changes the slice.
func (s *Service) admit(it *item, matched []subscriptions.Matched) []subscriptions.Matched {
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
			verdict = s.ask(m.Filter, seen)
		}
		return !verdict
	})
}

func (s *Service) ask(f *filters.Filter, seen *filters.Event) bool {
	r := f.Eval(seen)
	s.evaluations.Count(r.Outcome())
	return r.Matches
}
