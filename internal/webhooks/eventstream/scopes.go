package eventstream

import (
	"context"
	"maps"
	"slices"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// scopes says, for messages that were loaded together, to which connection each subscription in them is limited. A
// reader who may not see all connections gets nothing of subscriptions to the events of others.
type scopes struct {
	connections map[string]string
	// failed holds the subscription of each event's last failure, by the event's uuid.
	failed map[string]string
}

// within reports whether a reader with the bound may see the subscription.
func (s *scopes) within(b access.Bound, subscriptionID string) bool {
	return s != nil && b.Covers(s.connections[subscriptionID])
}

// hidesFailure reports whether the reader may not see the last failure of the message's event.
func (f *filter) hidesFailure(m *message) bool {
	return m.Event.LastError != nil && !f.bound.Unrestricted() &&
		(m.scopes == nil || !m.scopes.within(f.bound, m.scopes.failed[m.Event.UUID]))
}

// readScopes returns the scopes of the subscriptions that messages about these events, attempts and deliveries name.
func (s *Service) readScopes(ctx context.Context, env id.Environment, list map[string]*events.Event,
	attempts map[string]*deliveries.Attempt, byEvent map[string][]deliveries.Delivery) (*scopes, error) {
	out := &scopes{failed: map[string]string{}}
	named := map[string]bool{}
	for _, e := range list {
		failure, subscriptionID, err := deliveries.DecodeFailure(e.LastError)
		if err != nil {
			return nil, err
		}
		if failure != nil {
			out.failed[e.UUID], named[subscriptionID] = subscriptionID, true
		}
	}
	for _, a := range attempts {
		named[a.SubscriptionID] = true
	}
	for _, all := range byEvent {
		for i := range all {
			named[all[i].SubscriptionID] = true
		}
	}
	var err error
	out.connections, err = subscriptions.ConnectionsOf(ctx, s.db.Read(), env, slices.Sorted(maps.Keys(named)))
	return out, err
}
