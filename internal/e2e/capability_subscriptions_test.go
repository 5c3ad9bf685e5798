package e2e_test

import (
	"net/http"
	"strings"
)

type subscriptionFixtures struct {
	// first takes the events of the first connection, and its receiver refuses them all; disabled takes none.
	first, disabled subscription
}

func (f fixtures) subscription() subscription { return part[subscriptionFixtures](f).first }

// Subscriptions covers subscriptions and their trials.
func (capabilities) Subscriptions() capability {
	return capability{
		after: []string{"Connections"},
		create: func(w *world, c credentials, f fixtures) {
			w.t.Helper()
			never := object{"retry_schedule_seconds": []float64{}}
			f.put(subscriptionFixtures{
				first:    w.subscribeAs(c, fixtureServers().refusing, never, object{"connection_id": f.name}),
				disabled: w.subscribeAs(c, fixtureServers().refusing, never, object{"enabled": false}),
			})
		},
		samples: func(_ *world, f fixtures) []sample {
			path := map[string]string{"id": f.subscription().ID}
			return []sample{
				{id: "create-webhook-subscription", body: object{"event_types": []string{"*"},
					"forward_url": fixtureServers().refusing, "enabled": false, "provider_config_key": "github",
					"connection_id": f.name}, status: http.StatusCreated},
				{id: "list-webhook-subscriptions", status: http.StatusOK},
				{id: "get-webhook-subscription", path: path, status: http.StatusOK},
				{id: "get-webhook-subscription-stats", path: path, status: http.StatusOK},
				{id: "test-webhook-subscription", path: path, body: object{"event_type": "a.b", "body": object{"n": 1},
					"dry_run": true}, status: http.StatusOK, unrecorded: "the sample is a dry run"},
				{id: "update-webhook-subscription", path: path, body: object{"description": "sample"}, status: http.StatusOK},
				{id: "delete-webhook-subscription", path: path, status: http.StatusNoContent, stage: removes},
			}
		},
		lists: map[string]map[string]string{
			"list-webhook-subscriptions": {"provider_config_key": "github", "connection_id": "acme", "enabled": "true"},
		},
		references: map[string]func(r foreign, operation, field string){
			"create-webhook-subscription connection_id": foreign.connection,
			"update-webhook-subscription connection_id": foreign.connection,
		},
		private: func(f fixtures) []string { return []string{f.subscription().ID} },
	}
}

// subscription requires that a field that names subscriptions finds none of another environment.
func (r foreign) subscription(operation, field string) {
	r.w.t.Helper()
	if strings.HasSuffix(field, "_ids") {
		r.missing(operation, field, []string{r.own.subscription().ID})
		return
	}
	r.missing(operation, field, r.own.subscription().ID)
}
