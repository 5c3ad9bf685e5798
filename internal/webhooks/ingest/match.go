package ingest

import (
	"context"
	"slices"

	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// maxMatches limits how often an event is matched because subscriptions of its environment keep changing. The last
// match counts in any case: it began after the request did, so it knows every change that was complete by then.
const maxMatches = 4

// match finds the subscriptions that get the event. It runs on the request's own goroutine, because the one that
// commits is shared: an environment whose subscriptions change all the time, or whose filters are costly, delays only
// itself.
func (s *Service) match(ctx context.Context, it *item) error {
	if it.event.Control {
		return nil
	}
	e := &it.event
	matched, generation, err := s.subs.Match(ctx, e.Environment, subscriptions.Origin{Provider: e.Provider,
		ProviderConfigKey: e.ProviderConfigKey, ConnectionID: e.ConnectionID}, e.AllTypes())
	if err != nil {
		return err
	}
	if matched, err = s.applyFilters(ctx, it, matched); err != nil {
		return err
	}
	it.matches++
	it.generation, it.matched = generation, matched
	return nil
}

// outdated reports whether the item must be matched again, because a subscription of its environment has changed since.
func (s *Service) outdated(it *item) bool {
	return !it.event.Control && it.matches < maxMatches && !s.subs.Current(it.event.Environment, it.generation)
}

// applyFilters returns the matched subscriptions that have no filter or one that is true for the event. A filter is
// evaluated once for an event, however often the event is matched. It changes the slice.
func (s *Service) applyFilters(ctx context.Context, it *item,
	matched []subscriptions.Matched) ([]subscriptions.Matched, error) {
	var open []*filters.Filter
	for _, m := range matched {
		if m.Filter != nil && (it.screen == nil || !it.screen.Has(m.Filter)) {
			open = append(open, m.Filter)
		}
	}
	if len(open) > 0 {
		if err := s.evaluateFilters(ctx, it, open); err != nil {
			return nil, err
		}
		s.noteFailures(ctx, it.event.Environment, matched, it.screen)
	}
	if it.screen == nil {
		return matched, nil
	}
	return slices.DeleteFunc(matched, func(m subscriptions.Matched) bool {
		return m.Filter != nil && !it.screen.Result(m.Filter).Matches
	}), nil
}

func (s *Service) evaluateFilters(ctx context.Context, it *item, open []*filters.Filter) error {
	end, err := s.screens.begin(ctx, it.event.Environment)
	if err != nil {
		return err
	}
	defer end()
	if it.screen == nil {
		it.screen = filters.NewScreen(filters.NewEvent(&it.event.Event, &it.payload))
	}
	left := 0
	for _, r := range it.screen.Evaluate(open) {
		s.evaluations.Count(r.Outcome())
		if r.NotEvaluated {
			left++
		}
	}
	if left > 0 {
		s.noteNotEvaluated(ctx, it.event.Environment, left)
	}
	return nil
}
