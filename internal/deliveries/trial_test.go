package deliveries

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/subscriptions"
	"sallyport/internal/webhookevents"
)

// Promise: no environment takes every place that tests have, and a place that was given back is free again.
func TestPlacesOfTests(t *testing.T) {
	t.Parallel()
	var places testPlaces
	envs := make([]id.Environment, testsAtOnce/testsPerEnvironment)
	for i := range envs {
		envs[i] = id.Environment(strings.Repeat("e", i+1))
		for range testsPerEnvironment {
			require.True(t, places.begin(envs[i]))
		}
		require.False(t, places.begin(envs[i]))
	}
	require.False(t, places.begin("another"), "all places are taken")
	places.end(envs[0])
	require.True(t, places.begin("another"))
	places.end("another")
	for i, env := range envs {
		for range testsPerEnvironment - map[bool]int{true: 1}[i == 0] {
			places.end(env)
		}
	}
	require.Zero(t, places.all)
	require.Empty(t, places.byEnv)
}

// Promise: a test without a place is refused before its event is read, and a large request is answered cut and says so.
func TestBoundsOfTests(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.subscription()
		large := TestRequest{Data: []byte(`"` + strings.Repeat("x", maxShownRequest) + `"`), DryRun: true}
		w.subs.byID[sub].URL = &url.URL{Scheme: "https", Host: "receiver.example"}
		out, err := w.Test(t.Context(), w.env, sub, large)
		require.NoError(t, err)
		require.True(t, out.RequestTruncated)
		require.Len(t, out.RequestBody, maxShownRequest)
		for range testsPerEnvironment {
			require.True(t, w.tests.begin(w.env))
		}
		_, err = w.Test(t.Context(), w.env, sub, large)
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), "%v", err)
	})
}

// Promise: what goes to nobody is explained so, whatever the subscription takes.
func TestExplainWhatGoesToNobody(t *testing.T) {
	t.Parallel()
	sub := subscriptions.Subscription{EventTypes: []string{"*"}}
	other := id.NewUUID()
	require.Empty(t, Explain(&webhookevents.Event{Type: "a"}, &sub).Failed)
	require.Equal(t, OnControl, Explain(&webhookevents.Event{Type: "a", Control: true}, &sub).Failed)
	require.Equal(t, OnDuplicate, Explain(&webhookevents.Event{Type: "a", DuplicateOf: &other}, &sub).Failed)
}
