package subscriptions

import (
	"context"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// CheckHeaders adds the faults of headers that one request carries beside the subscription's own: the rules are the same.
// location is where the caller sent them.
func CheckHeaders(f *apperr.Faults, location string, headers map[string]string) {
	members := make(map[string]*string, len(headers))
	for name, value := range headers {
		members[name] = &value
	}
	checkHeaders(f, location, members)
}

// Matches reports whether the subscription takes events of the type, which come from a connection when one is named. Whether
// the subscription is enabled does not count.
func (s *Service) Matches(ctx context.Context, env id.Environment, subscriptionID, providerConfigKey, connectionID, eventType string) (bool, error) {
	sub, err := s.Get(ctx, env, subscriptionID)
	if err != nil {
		return false, err
	}
	return sub.Explain(providerConfigKey, connectionID, eventType).Failed == "", nil
}
