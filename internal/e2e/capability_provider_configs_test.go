package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

type providerConfigFixtures struct {
	// key is that of a provider configuration of GitHub.
	key string
}

// ProviderConfigs covers provider configurations.
func (capabilities) ProviderConfigs() capability {
	namesNoResource := func(foreign, string, string) {} // names a client at the provider
	return capability{
		create: func(w *world, _ credentials, f fixtures) {
			w.t.Helper()
			own := providerConfigFixtures{key: configKey(f)}
			w.call(w.user(f.environment), http.MethodPost, "/provider-configs", object{"provider": "github",
				"provider_config_key": own.key, "display_name": "GitHub of " + f.name}).want(w, http.StatusCreated)
			w.call(w.user(f.environment), http.MethodPost, "/provider-configs", object{"provider": "github",
				"provider_config_key": own.key + "-second"}).want(w, http.StatusCreated)
			f.put(own)
		},
		samples: func(_ *world, f fixtures) []sample {
			path := map[string]string{"provider_config_key": part[providerConfigFixtures](f).key}
			return []sample{
				{id: "create-provider-config", body: object{"provider": "github", "provider_config_key": "sample-" +
					configKey(f), "display_name": "Sample", "risk": object{"overrides": []object{{"action": "delete_*",
					"level": "critical"}}}}, status: http.StatusCreated},
				{id: "list-provider-configs", status: http.StatusOK},
				{id: "get-provider-config", path: path, status: http.StatusOK},
				{id: "update-provider-config", path: path, body: object{"display_name": "Changed", "risk": object{
					"overrides": []object{{"action": "delete_*", "level": "critical"}}}}, status: http.StatusOK},
				{id: "delete-provider-config", path: path, status: http.StatusNoContent, stage: removes},
			}
		},
		lists: map[string]map[string]string{"list-provider-configs": {"provider": "github", "q": "g"}},
		references: map[string]func(r foreign, operation, field string){
			"create-provider-config client_id":      namesNoResource,
			"create-provider-config private_key_id": namesNoResource,
			"update-provider-config client_id":      namesNoResource,
			"update-provider-config private_key_id": namesNoResource,
		},
	}
}

// configKey returns a key that only the environment of the fixtures has.
func configKey(f fixtures) string { return "github-" + strings.ToLower(f.environment[4:]) }

// A provider has two configurations, and each a connection of the same id. Webhooks verify under the secret of their
// own connection, and a subscription to one configuration gets the events of that one only. A configuration in use
// cannot be deleted.
func TestTwoConfigsOfOneProvider(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.configure("github", "github-eu", "github-us")
		const foreign = githubSecret + " of the others"
		eu := w.connectGitHub("acme", object{"provider": "github-eu"})
		us := w.connectGitHub("acme", object{"provider": "github-us", "webhook_secret": foreign})
		mine, theirs := newReceiver(w.t, status(http.StatusOK)), newReceiver(w.t, status(http.StatusOK))
		w.subscribe(mine.url, object{"provider_config_key": "github-eu"})
		w.subscribe(theirs.url, object{"provider_config_key": "github-us", "connection_id": "acme"})
		first := w.deliver(eu.pathToken(), github(issueOpened)).EventUUID
		second := w.deliver(us.pathToken(), githubAs(foreign, "issues", "d-1", issueOpened)).EventUUID
		w.post(us.pathToken(), github(issueOpened)).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		w.awaitEvent(first, "forwarded")
		w.awaitEvent(second, "forwarded")
		require.Equal(w.t, 1, mine.count())
		require.Equal(w.t, first, mine.all()[0].header.Get("Webhook-Id"))
		require.Equal(w.t, 1, theirs.count())
		require.Equal(w.t, second, theirs.all()[0].header.Get("Webhook-Id"))

		w.call(w.user(w.env), http.MethodDelete, "/provider-configs/github-eu", nil).refused(w, http.StatusConflict,
			apperr.CodeProviderConfigInUse)
		w.call(w.dev(), http.MethodDelete, "/connections/github-eu/acme", nil).want(w, http.StatusNoContent)
		w.call(w.user(w.env), http.MethodDelete, "/provider-configs/github-eu", nil).want(w, http.StatusNoContent)
		w.call(w.user(w.env), http.MethodGet, "/provider-configs/github", nil).refused(w, http.StatusNotFound,
			apperr.CodeNotFound)
	})
}

// Types can be written as the provider writes them, also for a configuration whose key is not the provider's slug: in
// patterns of subscriptions, in filters of lists, for published events, samples and tests.
func TestTypesOfAConfig(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.configure("shopify", "shopify-eu")
		w.connect(w.dev(), object{"provider": "shopify-eu", "connection_id": "acme",
			"webhook_secret": "hush, it is a secret"})
		one, all := newReceiver(w.t, status(http.StatusOK)), newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(one.url, object{"provider_config_key": "shopify-eu", "event_types": []string{"orders/create"}})
		w.subscribe(all.url, object{"event_types": []string{"orders/*"}})
		w.call(w.dev(), http.MethodPost, "/connections/shopify-eu/acme/webhook-sample", object{
			"event_type": "orders/create"}).want(w, http.StatusCreated)
		w.call(w.dev(), http.MethodPost, "/webhook-events", object{"event_type": "orders/create", "connection_id": "acme",
			"provider_config_key": "shopify-eu", "data": object{}}).want(w, http.StatusCreated)
		one.wait(w.t, 2)
		all.wait(w.t, 2)
		var list []struct {
			EventUUID string `json:"event_uuid"`
			EventType string `json:"event_type"`
		}
		w.call(w.dev(), http.MethodGet, "/webhook-events?event_type=orders/create", nil).want(w, http.StatusOK).into(w, &list)
		require.Len(w.t, list, 2)
		for _, e := range list {
			require.Equal(w.t, "orders.create", e.EventType)
			require.Contains(w.t, string(w.call(w.dev(), http.MethodGet, "/webhook-events/"+e.EventUUID+"/explain", nil).
				want(w, http.StatusOK).body), `"pattern":"orders/create"`)
		}
		require.Contains(w.t, string(w.call(w.dev(), http.MethodPost, "/webhook-subscriptions/"+sub.ID+"/test", object{
			"event_type": "orders/create", "dry_run": true}).want(w, http.StatusOK).body), `"event_type":"orders.create"`)
	})
}

// configure creates provider configurations of a provider.
func (w *world) configure(provider string, keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		w.call(w.user(w.env), http.MethodPost, "/provider-configs", object{"provider": provider,
			"provider_config_key": key}).want(w, http.StatusCreated)
	}
}
