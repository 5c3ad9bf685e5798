package deliveries

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// No environment takes every place that tests have, and a place that was given back is free again.
func TestPlacesOfTests(t *testing.T) {
	t.Parallel()
	var places testPlaces
	envs := make([]id.Environment, maxTests/maxEnvironmentTests)
	for i := range envs {
		envs[i] = id.Environment(strings.Repeat("e", i+1))
		for range maxEnvironmentTests {
			require.True(t, places.begin(envs[i]))
		}
		require.False(t, places.begin(envs[i]))
	}
	require.False(t, places.begin("another"), "all places are taken")
	places.end(envs[0])
	require.True(t, places.begin("another"))
	places.end("another")
	for i, env := range envs {
		for range maxEnvironmentTests - map[bool]int{true: 1}[i == 0] {
			places.end(env)
		}
	}
	require.Zero(t, places.all)
	require.Empty(t, places.byEnv)
}

// A test without a place is refused before its event is read, and a large request comes back cut and says so.
func TestBoundsOfTests(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.subscription()
		large := TestRequest{Data: []byte(`"` + strings.Repeat("x", maxShownRequest) + `"`), DryRun: true}
		w.subs.byID[sub].URL = &url.URL{Scheme: "https", Host: "receiver.example"}
		out, err := w.Test(t.Context(), access.Whole(w.env), sub, large)
		require.NoError(t, err)
		require.True(t, out.RequestTruncated)
		require.Len(t, out.RequestBody, maxShownRequest)
		for range maxEnvironmentTests {
			require.True(t, w.tests.begin(w.env))
		}
		_, err = w.Test(t.Context(), access.Whole(w.env), sub, large)
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), "%v", err)
	})
}

// An event that goes to no subscription is explained so, for any patterns of the subscription.
func TestExplainEventsWithoutDelivery(t *testing.T) {
	t.Parallel()
	sub := subscriptions.Subscription{EventTypes: []string{"*"}}
	other := id.NewUUID()
	require.Empty(t, Explain(&events.Event{Type: "a"}, eventtypes.Rules{}, nil, &sub).Failed)
	require.Equal(t, OnControl, Explain(&events.Event{Type: "a", Control: true}, eventtypes.Rules{}, nil, &sub).Failed)
	require.Equal(t, OnDuplicate,
		Explain(&events.Event{Type: "a", DuplicateOf: &other}, eventtypes.Rules{}, nil, &sub).Failed)
}

// All events without a provider have one source name, to which a subscription can be narrowed.
func TestOwnProviderHasOneName(t *testing.T) {
	t.Parallel()
	require.Equal(t, events.OwnProvider, subscriptions.OwnProvider)
}

// The filter is asked last, of the event with all its types and as its payload is kept, and what it says
// decides.
func TestExplainAsksTheFilter(t *testing.T) {
	t.Parallel()
	e := events.Event{Type: "a", Types: []string{"a", "b"}, Provider: "p", ProviderConfigKey: "k", ConnectionID: "c",
		ContentType: "x"}
	p := events.Payload{Headers: `{"h":"1"}`, Body: []byte(`{"n":1}`), Encoding: events.JSON}
	const filter = `"b" in event.types && event.type == "a" && event.provider == "p" &&
		event.provider_config_key == "k" && event.connection_id == "c" && event.content_type == "x" &&
		event.headers["h"] == "1" && event.body.n == 1`
	sub := subscriptions.Subscription{EventTypes: []string{"b"}, Filter: filter}
	found := Explain(&e, eventtypes.Rules{}, filters.NewEvent(&e, &p).Evaluate, &sub)
	require.Empty(t, found.Failed, "%+v", found.Filter)
	require.True(t, found.Filter.Matches)

	p.Encoding = events.Text
	require.Equal(t, subscriptions.OnFilter,
		Explain(&e, eventtypes.Rules{}, filters.NewEvent(&e, &p).Evaluate, &sub).Failed,
		"a text is no JSON, whatever it looks like")
	found = Explain(&e, eventtypes.Rules{}, filters.NewEvent(&e, nil).Evaluate, &sub)
	require.Equal(t, subscriptions.OnFilter, found.Failed)
	require.Equal(t, filters.CodeExpired, found.Filter.Failure.Code)
	sub.EventTypes = []string{"c"}
	found = Explain(&e, eventtypes.Rules{}, filters.NewEvent(&e, nil).Evaluate, &sub)
	require.Equal(t, subscriptions.OnEventTypes, found.Failed)
	require.Nil(t, found.Filter, "a filter is asked only where the rest holds")
}
