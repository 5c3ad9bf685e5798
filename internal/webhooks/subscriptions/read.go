package subscriptions

import (
	"context"
	"slices"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// Get returns a subscription that the view shows. An unknown or deleted one is not_found.
func (s *Service) Get(ctx context.Context, v access.View, subscriptionID string) (Subscription, error) {
	r, err := s.find(ctx, v, subscriptionID)
	if err != nil {
		return Subscription{}, err
	}
	return s.openWithHealth(ctx, r)
}

// openWithHealth is open, with the subscription's health.
func (s *Service) openWithHealth(ctx context.Context, r row) (Subscription, error) {
	sub, err := s.open(r)
	if err != nil {
		return Subscription{}, err
	}
	health, err := s.cfg.Deliveries.Health(ctx, r.Environment, []string{r.ID}, s.cfg.Clock.Now())
	sub.Health = health[r.ID]
	return sub, err
}

// List returns the view's subscriptions that match the filter, at most one more than the page holds.
func (s *Service) List(ctx context.Context, v access.View, f Filter, p page.Request) ([]Subscription, error) {
	if f.matchesNothing() {
		return nil, nil
	}
	rows, err := list(ctx, s.cfg.DB.Read(), v, f, p)
	if err != nil {
		return nil, err
	}
	out, ids := make([]Subscription, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		if out[i], err = s.open(r); err != nil {
			return nil, err
		}
		ids[i] = r.ID
	}
	health, err := s.cfg.Deliveries.Health(ctx, v.Environment, ids, s.cfg.Clock.Now())
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Health = health[out[i].ID]
	}
	return out, nil
}

// matchesNothing drops values from the filter that no row can have, and reports whether that leaves a field without
// values.
func (f *Filter) matchesNothing() bool {
	for _, values := range []*[]string{&f.ProviderConfigKeys, &f.ConnectionIDs} {
		if len(*values) == 0 {
			continue
		}
		*values = slices.DeleteFunc(slices.Clone(*values), func(v string) bool { return !db.Storable(v) })
		if len(*values) == 0 {
			return true
		}
	}
	return false
}

func (s *Service) find(ctx context.Context, v access.View, subscriptionID string) (row, error) {
	if !id.Is(id.PrefixSubscription, subscriptionID) {
		return row{}, notFound()
	}
	return find(ctx, s.cfg.DB.Read(), v, subscriptionID, false)
}
