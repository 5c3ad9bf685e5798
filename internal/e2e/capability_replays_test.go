package e2e_test

import (
	"net/http"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

type replayFixtures struct {
	// paused is one of two paused bulk replays.
	paused string
}

func (f fixtures) replay() string { return part[replayFixtures](f).paused }

// Replays covers bulk replays.
func (capabilities) Replays() capability {
	return capability{
		after: []string{"Events"},
		create: func(w *world, c credentials, f fixtures) {
			w.t.Helper()
			var own replayFixtures
			for range 2 { // what they replay is held, and slower than the clock
				own.paused = w.startReplay(c, object{"filter": object{"event_uuids": []string{f.event(),
					part[eventFixtures](f).second}}, "force": true,
					"to_subscription_id": part[subscriptionFixtures](f).disabled.ID, "rate_per_second": 1}).ID
				await.Condition(w.t, "the first step of a replay", func() bool {
					return w.replayJob(c, own.paused).Counts.Replayed == 1
				})
				w.call(c, http.MethodPost, "/webhook-replays/"+own.paused+"/pause", nil).want(w, http.StatusOK)
			}
			f.put(own)
		},
		samples: func(_ *world, f fixtures) []sample {
			path := map[string]string{"id": f.replay()}
			return []sample{
				{id: "create-webhook-replay", body: object{"filter": object{"event_uuids": []string{f.event()}},
					"to_subscription_id": f.subscription().ID, "rate_per_second": 10, "force": false, "dry_run": true},
					status: http.StatusOK, unrecorded: "the sample is a dry run"},
				{id: "list-webhook-replays", status: http.StatusOK},
				{id: "get-webhook-replay", path: path, status: http.StatusOK},
				{id: "pause-webhook-replay", path: path, status: http.StatusOK, unrecorded: "the sample's is paused"},
				{id: "resume-webhook-replay", path: path, status: http.StatusOK},
				{id: "cancel-webhook-replay", path: path, status: http.StatusOK},
			}
		},
		lists: map[string]map[string]string{"list-webhook-replays": {"status": "paused"}},
		references: map[string]func(r foreign, operation, field string){
			"create-webhook-replay to_subscription_id": foreign.subscription,
			"create-webhook-replay subscription_id": selectsNothing(func(own fixtures) string {
				return own.subscription().ID
			}),
			"create-webhook-replay connection_id": selectsNothing(func(own fixtures) string {
				return own.connection().ConnectionID
			}),
		},
	}
}

// selectsNothing returns what requires that a filter that names a resource of another environment selects nothing.
func selectsNothing(resource func(own fixtures) string) func(r foreign, operation, field string) {
	return func(r foreign, _, field string) {
		r.w.t.Helper()
		var p replayPreview
		r.w.call(r.inside, http.MethodPost, "/webhook-replays", object{"filter": object{field: []string{resource(r.own)}},
			"force": true, "dry_run": true}).want(r.w, http.StatusOK).into(r.w, &p)
		require.Zero(r.w.t, p.Matched)
	}
}
