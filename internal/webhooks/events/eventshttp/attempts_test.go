package eventshttp_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/httpapitest"
	"sallyport/internal/webhooks/events"
)

// An attempt shows what was sent and what came back, and null where nothing did.
func TestAttempts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		uuid := s.event(t, nil)
		sub := s.delivery(t, uuid)
		record := func(status *int, body []byte, truncated bool, code, message *string) string {
			attempt := id.NewUUID()
			s.exec(t, `INSERT INTO delivery_attempts (id, event_uuid, subscription_id, environment_id, generation, number, `+
				`outcome, started_ms,
				dns_us, connect_us, tls_us, first_byte_us, total_us, request_headers, http_status, response_headers, `+
				`response_body, truncated,
				error_code, error_message) VALUES ($1, $2, $3, $4, 2, 3, 'failed', $5, 1, 2000, 3, 4, 5, '{"a":"b"}', $6, `+
				`'{"c":"d"}', $7, $8, $9, $10)`,
				attempt, uuid, sub, string(s.env), int64(started), status, body, truncated, code, message)
			return attempt
		}
		ids := []string{
			record(nil, nil, false, new("timeout"), new("Too slow")),
			record(new(500), []byte("n\xc3\xb6t now \xc3"), true, new("unexpected_status"), new("500")),
			record(new(200), []byte("\xff"), false, nil, nil),
		}
		var list []map[string]any
		s.get(t, path+"/"+uuid+"/attempts?order=asc").Into(t, &list)
		require.Len(t, list, 3)
		common := func(i int) map[string]any {
			return map[string]any{"id": ids[i], "subscription_id": sub, "generation": 2.0, "number": 3.0, "outcome": "failed",
				"started_at": "2025-06-15T15:06:40.123Z", "http_status": nil, "error": nil, "response": nil,
				"timings": map[string]any{"dns_ms": 0.001, "connect_ms": 2.0, "tls_ms": 0.003, "first_byte_ms": 0.004,
					"total_ms": 0.005},
				"request": map[string]any{"headers": map[string]any{"a": "b"}}}
		}
		first := common(0)
		first["error"] = map[string]any{"code": "timeout", "message": "Too slow"}
		require.Equal(t, first, list[0])
		second := common(1)
		second["http_status"], second["error"] = 500.0, map[string]any{"code": "unexpected_status", "message": "500"}
		second["response"] = map[string]any{"status": 500.0, "headers": map[string]any{"c": "d"}, "body": "nöt now ",
			"body_encoding": "text", "truncated": true}
		require.Equal(t, second, list[1])
		third := common(2)
		third["http_status"] = 200.0
		third["response"] = map[string]any{"status": 200.0, "headers": map[string]any{"c": "d"}, "body": "/w==",
			"body_encoding": "base64", "truncated": false}
		require.Equal(t, third, list[2])

		a := s.get(t, path+"/"+uuid+"/attempts?limit=2")
		a.Into(t, &list)
		require.Equal(t, []any{ids[2], ids[1]}, []any{list[0]["id"], list[1]["id"]})
		s.get(t, linked(t, a)).Into(t, &list)
		require.Equal(t, ids[0], list[0]["id"])
		other := s.event(t, nil)
		foreign := s.get(t, path+"/"+other+"/attempts?limit=2&cursor="+a.Header.Get("X-Next-Cursor"))
		require.Equal(t, http.StatusUnprocessableEntity, foreign.Status)
	})
}

// A replay restarts the failed deliveries and returns the event as it is afterwards. force restarts the rest.
func TestReplay(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		uuid := s.event(t, func(e *events.NewEvent) { e.Pending = 1 })
		sub := s.delivery(t, uuid)
		replay := func(body string) httpapitest.Response {
			return s.Do(t, "webhooks", http.MethodPost, path+"/"+uuid+"/replay", body)
		}

		for _, body := range []string{"", "{}", `{"force":false}`} {
			code := replay(body).Code(t)
			require.Equal(t, "nothing_to_replay", code, body)
		}
		a := replay(`{"force":true,"subscription_ids":["` + sub + `"]}`)
		require.Equal(t, http.StatusAccepted, a.Status, "%s", a.Body)
		require.Equal(t, path+"/"+uuid, a.Header.Get("Location"))
		o := a.Object(t)
		require.Equal(t, uuid, o["event_uuid"])
		require.Equal(t, "received", o["status"])
		require.Contains(t, string(a.Body), `"status":"pending","generation":2`)

		s.exec(t, `UPDATE deliveries SET status = 'dead'`)
		s.exec(t, `UPDATE webhook_events SET status = 'dead_letter', n_pending = 0, n_dead = 1, n_tried = 1`)
		a = replay("")
		require.Equal(t, http.StatusAccepted, a.Status, "%s", a.Body)
		require.Contains(t, string(a.Body), `"status":"pending","generation":3`)

		s.exec(t, `UPDATE deliveries SET status = 'sending', claim_id = 'x'`)
		a = replay(`{"force":true}`)
		require.Equal(t, http.StatusConflict, a.Status)
		code := a.Code(t)
		require.Equal(t, "delivery_in_flight", code)
	})
}

// A replay that names what cannot be is refused.
func TestRefusedReplays(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		uuid := s.event(t, nil)
		sub := s.delivery(t, uuid)
		for body, want := range map[string]string{
			`{"subscription_ids":[]}`:                                                      "body.subscription_ids min_items",
			`{"subscription_ids":["` + sub + `","` + sub + `"]}`:                           "body.subscription_ids unique",
			`{"subscription_ids":["` + sub + `","` + id.New(id.PrefixSubscription) + `"]}`: "body.subscription_ids[1] exists",
			`{"subscription_ids":["` + sub[:29] + `"]}`:                                    "body.subscription_ids[0] format",
			`{"force":"yes"}`: "body.force type",
			`{"speed":1}`:     "body.speed unknown_field",
			`[]`:              "body type",
			`{`:               "body json",
		} {
			a := s.Do(t, "webhooks", http.MethodPost, path+"/"+uuid+"/replay", body)
			require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s: %s", body, a.Body)
			_, _, details := a.Error(t)
			require.Equal(t, []string{want}, details, body)
		}
	})
}
