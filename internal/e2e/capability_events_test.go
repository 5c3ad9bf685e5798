package e2e_test

import (
	"net/http"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit/await"
)

type eventFixtures struct {
	// first is dead-lettered after two attempts; there is a second event.
	first, second string
}

func (f fixtures) event() string { return part[eventFixtures](f).first }

// Events covers events, their payloads and their stream.
func (capabilities) Events() capability {
	return capability{
		after: []string{"Subscriptions"},
		create: func(w *world, c credentials, f fixtures) {
			w.t.Helper()
			segment := f.connection().pathToken()
			own := eventFixtures{first: w.fresh(segment, github(issueOpened)),
				second: w.fresh(segment, github(`{"action":"closed"}`))}
			dead := func(uuid string, attempts int) {
				w.t.Helper()
				await.Condition(w.t, "a dead delivery", func() bool {
					var e event
					w.call(c, http.MethodGet, "/webhook-events/"+uuid, nil).want(w, http.StatusOK).into(w, &e)
					return e.AttemptCount == attempts && e.Status == "dead_letter"
				})
			}
			dead(own.first, 1)
			dead(own.second, 1)
			w.call(c, http.MethodPost, "/webhook-events/"+own.first+"/replay", nil).want(w, http.StatusAccepted)
			dead(own.first, 2)
			f.put(own)
		},
		samples: func(_ *world, f fixtures) []sample {
			path := map[string]string{"event_uuid": f.event()}
			return []sample{
				{id: "publish-webhook-event", body: object{"event_type": "invoice.paid", "data": object{"n": 1},
					"idempotency_key": "sample", "connection_id": f.name, "provider_config_key": "github"},
					status:     http.StatusCreated,
					unrecorded: "an event is what the service is for, and has its own record"},
				{id: "replay-webhook-event", path: path, body: object{"subscription_ids": []string{f.subscription().ID}},
					status: http.StatusAccepted},
				{id: "list-webhook-events", status: http.StatusOK},
				{id: "list-webhook-event-types", status: http.StatusOK, narrow: "provider=dropbox,calendly"},
				{id: "get-webhook-event", path: path, status: http.StatusOK},
				{id: "list-webhook-event-attempts", path: path, status: http.StatusOK},
				{id: "download-webhook-event-payload", path: path, status: http.StatusOK},
				{id: "explain-webhook-event", path: path, status: http.StatusOK},
				{id: "stream-webhook-events", status: http.StatusOK},
				{id: "create-webhook-event-stream-ticket", status: http.StatusCreated,
					unrecorded: "a ticket opens what its maker may read anyway, for a minute"},
				{id: "expunge-webhook-event-payload", path: path, status: http.StatusNoContent, stage: removes},
			}
		},
		lists: map[string]map[string]string{
			"list-webhook-events": {"status": "dead_letter", "provider": "github", "provider_config_key": "github",
				"connection_id": "acme", "event_type": "*", "subscription_id": id.New(id.PrefixSubscription),
				"idempotency_key": "k", "duplicate": "false", "control": "false", "received_after": "2020-01-01T00:00:00Z",
				"received_before": "2030-01-01T00:00:00Z", "http_status": "500", "error_code": "timeout", "q": "a"},
			"list-webhook-event-types":    {"provider": "shopify"},
			"list-webhook-event-attempts": {},
			"explain-webhook-event":       {},
		},
		references: map[string]func(r foreign, operation, field string){
			"replay-webhook-event subscription_ids": foreign.subscription,
			"publish-webhook-event connection_id":   foreign.connection,
		},
		private: func(f fixtures) []string {
			return []string{part[eventFixtures](f).first, part[eventFixtures](f).second}
		},
	}
}
