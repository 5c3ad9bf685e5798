package eventshttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/httpapitest"
	"sallyport/internal/webhooks/events"
)

// An event's detail has every documented field, in the documented form, and nothing else.
func TestDetail(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		uuid := s.event(t, func(e *events.NewEvent) { e.Pending = 1 })
		sub := s.delivery(t, uuid)

		o := s.get(t, path+"/"+uuid).Object(t)
		list, ok := o["deliveries"].([]any)
		require.True(t, ok)
		require.Len(t, list, 1)
		d, ok := list[0].(map[string]any)
		require.True(t, ok)
		require.True(t, id.IsUUID(fmt.Sprint(d["id"])))
		delete(d, "id")
		delete(o, "connection_uuid")
		const at = "2025-06-15T15:06:40.123Z"
		require.Equal(t, map[string]any{
			"event_uuid": uuid, "provider": "github", "provider_config_key": "github-eu", "connection_id": "acme",
			"environment_id": string(s.env), "event_type": "issues.opened", "status": "received", "idempotency_key": "a,b",
			"idempotency_source": "header:x-github-delivery", "duplicate_of": nil, "suspect": nil, "control": false,
			"attempt_count": 0.0, "delivery_count": 1.0, "held_count": 0.0,
			"last_error": nil, "headers": map[string]any{"x-a": "b"}, "body": map[string]any{},
			"body_encoding": "json", "content_type": "application/json", "body_size": 2.0, "payload_expired": false,
			"payload_expires_at": "2125-05-22T15:06:40.123Z", "expires_at": "2125-05-22T15:06:40.123Z", "received_at": at,
			"updated_at": at, "forwarded_at": nil, "verification": map[string]any{"result": "verified", "scheme": "hmac",
				"key_id": nil},
			"deliveries": []any{map[string]any{"subscription_id": sub, "status": "pending", "generation": 1.0,
				"attempt_count": 0.0, "next_attempt_at": at, "last_http_status": nil, "last_error": nil, "completed_at": nil}},
		}, o)
	})
}

// A failure is shown with its subscription on the event and without it on the delivery; a time of a next attempt only
// where there will be one.
func TestFailure(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		uuid := s.event(t, nil)
		sub := s.delivery(t, uuid)
		failure := `{"code":"gone","message":"Gone","http_status":410,"at":1750000000000}`
		s.exec(t, `UPDATE deliveries SET status = 'dead', last_http_status = 410, completed_ms = 1750000000000,
			last_error = $1`, failure)
		s.exec(t, `UPDATE webhook_events SET status = 'dead_letter', last_error = $1`,
			strings.Replace(failure, `"at"`, `"subscription_id":"`+sub+`","at"`, 1))

		o := s.get(t, path+"/"+uuid).Object(t)
		want := map[string]any{"code": "gone", "message": "Gone", "http_status": 410.0, "at": "2025-06-15T15:06:40.000Z"}
		list, ok := o["deliveries"].([]any)
		require.True(t, ok)
		d, ok := list[0].(map[string]any)
		require.True(t, ok)
		require.Equal(t, want, d["last_error"])
		require.EqualValues(t, 410, d["last_http_status"])
		require.Nil(t, d["next_attempt_at"])
		require.Equal(t, "2025-06-15T15:06:40.000Z", d["completed_at"])
		want["subscription_id"] = sub
		require.Equal(t, want, o["last_error"])
	})
}

// A body comes back as it was sent: JSON with its numbers, order, duplicate fields and characters, text as text, and
// anything else in base64. A duplicate has no body.
func TestBodies(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		for _, c := range []struct {
			body     string
			encoding events.Encoding
			shown    string
		}{
			{`{"b":1.0,"a":12345678901234567890,"a":"<é\u0026>"}`, events.JSON,
				`{"b":1.0,"a":12345678901234567890,"a":"<é\u0026>"}`},
			{"[1,\n 2]", events.JSON, "[1,2]"},
			{`null`, events.JSON, `null`},
			{`{"a":`, events.Text, `"{\"a\":"`},
			{"\xff\x00", events.Base64, `"/wA="`},
		} {
			uuid := s.event(t, func(e *events.NewEvent) { e.Payload.Body, e.Payload.Encoding = []byte(c.body), c.encoding })
			for _, a := range []httpapitest.Response{s.get(t, path+"/"+uuid), s.get(t, path+"?limit=1&include=body")} {
				text := strings.Trim(strings.TrimSpace(string(a.Body)), "[]")
				require.Contains(t, text, `"body":`+c.shown+`,"body_encoding":"`+string(c.encoding)+`"`)
			}
		}
		uuid := s.event(t, func(e *events.NewEvent) { e.Payload, e.DuplicateOf = nil, new(id.NewUUID()) })
		o := s.get(t, path+"/"+uuid).Object(t)
		require.Nil(t, o["body"])
		require.Nil(t, o["body_encoding"])
		require.Equal(t, map[string]any{}, o["headers"])
		require.NotNil(t, o["duplicate_of"])
	})
}

// A list's rows hold bodies, headers and deliveries only where the caller asks for them.
func TestInclude(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		s.delivery(t, s.event(t, nil))
		s.event(t, func(e *events.NewEvent) { e.Payload = nil })
		row := func(query string) (first, second map[string]json.RawMessage) {
			var rows []map[string]json.RawMessage
			s.get(t, path+"?order=asc&"+query).Into(t, &rows)
			require.Len(t, rows, 2)
			return rows[0], rows[1]
		}
		parts := []string{"headers", "body", "body_encoding", "deliveries"}
		with, without := row("")
		for _, p := range parts {
			require.NotContains(t, with, p)
			require.NotContains(t, without, p)
		}
		with, without = row("include=deliveries&include=body,headers")
		for _, p := range parts {
			require.Contains(t, with, p)
			require.Contains(t, without, p)
		}
		require.JSONEq(t, `{}`, string(without["headers"]))
		require.JSONEq(t, `null`, string(without["body"]))
		require.JSONEq(t, `null`, string(without["body_encoding"]))
		require.JSONEq(t, `[]`, string(without["deliveries"]))
		with, _ = row("include=headers")
		require.Contains(t, with, "headers")
		require.NotContains(t, with, "body")
		require.NotContains(t, with, "deliveries")
	})
}

// Every filter of a list reaches the store, with multiple and comma-separated values as alternatives.
func TestFilters(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		plain := s.event(t, nil)
		sub := s.delivery(t, plain)
		const failure = `'{"code":"unexpected_status","message":"","http_status":503,"at":1}'`
		s.exec(t, "UPDATE deliveries SET last_http_status = 503, last_error = "+failure)
		s.exec(t, "UPDATE webhook_events SET last_error = "+failure)
		s.clock.Advance(time.Second)
		other := s.event(t, func(e *events.NewEvent) {
			e.Provider, e.ProviderConfigKey, e.ConnectionID, e.Type = "stripe", "stripe-eu", "globex", "charge.succeeded"
			e.IdempotencyKey, e.Control, e.DuplicateOf, e.Sending = "k", true, new(id.NewUUID()), 1
		})
		for query, want := range map[string][]string{
			"":                                          {other, plain},
			"status=received":                           {plain},
			"status=failed,forwarding":                  {other},
			"provider=github":                           {plain},
			"provider=github&provider=stripe":           {other, plain},
			"provider_config_key=stripe-eu":             {other},
			"connection_id=globex,nobody":               {other},
			"event_type=issues.*":                       {plain},
			"event_type=issues":                         {},
			"event_type=charge.succeeded,issues.opened": {other, plain},
			"event_type=*":                              {other, plain},
			"event_type=*.opened":                       {plain},
			"event_type=*.*":                            {other, plain},
			"event_type=*.succeeded.*":                  {},
			"idempotency_key=a,b":                       {plain},
			"idempotency_key=a":                         {},
			"idempotency_key=k":                         {},
			"q=" + plain:                                {plain},
			"q=" + plain[:30]:                           {},
			"q=a,b":                                     {plain},
			"q=issues":                                  {plain},
			"q=Issues":                                  {},
			"q=issues%25":                               {},
			"q=issues.opened2":                          {},
			"q=charge.&provider=stripe":                 {other},
			"q=charge.&provider=github":                 {},
			"duplicate=true":                            {other},
			"duplicate=false":                           {plain},
			"duplicate=true,false":                      {other, plain},
			"control=true":                              {other},
			"received_after=2025-06-15T15:06:40.123Z":   {other},
			"received_before=2025-06-15T17:06:41.123%2B02:00": {plain},
			"received_before=0001-01-01T00:00:00Z":            {}, // Go's zero time is a time like any other
			"subscription_id=" + sub:                          {plain},
			"http_status=500,503":                             {plain},
			"http_status=500":                                 {},
			"error_code=unexpected_status":                    {plain},
			"error_code=unexpected":                           {},
			"provider=github&control=true":                    {},
		} {
			require.Equal(t, want, uuidsOf(t, s.get(t, path+"?"+query)), query)
		}
	})
}

// A query that cannot be meant is refused with all its validation errors, and never reaches a database that would choke
// on it.
func TestRefusedQueries(t *testing.T) {
	t.Parallel()
	s := newServer(t, testkit.Store{DB: &db.DB{}})
	many := strings.TrimSuffix(strings.Repeat("a,", 51), ",")
	for query, want := range map[string][]string{
		"status=nope":        {"query.status[0] enum"},
		"event_type=a.**.b":  {"query.event_type[0] pattern"},
		"event_type=a..*":    {"query.event_type[0] pattern"},
		"event_type=a.b,is*": {"query.event_type[1] pattern"},
		"event_type=.*":      {"query.event_type[0] pattern"},
		"event_type=*." + strings.Repeat("a", 255): {"query.event_type[0] max_length"},
		"provider=" + many:                         {"query.provider max_items"},
		"provider=" + strings.Repeat("a", 257):     {"query.provider[0] max_length"},
		"connection_id=%00":                        {"query.connection_id[0] text"},
		"idempotency_key=%ff":                      {"query.idempotency_key text"},
		"duplicate=maybe":                          {"query.duplicate[0] enum"},
		"http_status=99":                           {"query.http_status[0] minimum"},
		"http_status=600":                          {"query.http_status[0] maximum"},
		"http_status=ok":                           {"query.http_status[0] type"},
		"error_code=A%22":                          {"query.error_code[0] pattern"},
		"received_after=yesterday":                 {"query.received_after format"},
		"received_after=":                          {"query.received_after empty"},
		"received_before=2026-03-04T5:06:07Z":      {"query.received_before format"},
		"received_before=0000-00-00T00:00:00Z":     {"query.received_before format"},
		"http_status=,%2B200,0200,200": {"query.http_status[0] empty", "query.http_status[1] type",
			"query.http_status[2] type"},
		"include=payload":                   {"query.include[0] enum"},
		"limit=251":                         {"query.limit maximum"},
		"q=":                                {"query.q empty"},
		"q=%00":                             {"query.q text"},
		"q=" + strings.Repeat("a", 2049):    {"query.q max_length"},
		"q=a&q=b":                           {"query.q single"},
		"Q=x":                               {"query.Q unknown_parameter"},
		"status=nope&limit=0&event_type=*a": {"query.limit minimum", "query.status[0] enum", "query.event_type[0] pattern"},
	} {
		a := s.get(t, path+"?"+query)
		require.Equal(t, http.StatusUnprocessableEntity, a.Status, "%s: %s", query, a.Body)
		_, _, details := a.Error(t)
		require.ElementsMatch(t, want, details, query)
	}
}

// Following the links walks every event once in either order, and a cursor works with its own filters only, written in
// any order.
func TestPaging(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		var all []string
		for range 7 {
			all = append(all, s.event(t, nil))
		}
		for _, order := range []string{"asc", "desc"} {
			var seen []string
			for next := path + "?provider=github,gitlab&limit=3&order=" + order; next != ""; {
				a := s.get(t, next)
				seen = append(seen, uuidsOf(t, a)...)
				next = linked(t, a)
			}
			want := append([]string{}, all...)
			if order == "desc" {
				for i, j := 0, len(want)-1; i < j; i, j = i+1, j-1 {
					want[i], want[j] = want[j], want[i]
				}
			}
			require.Equal(t, want, seen)
		}
		cursor := s.get(t, path+"?provider=github,gitlab&limit=3").Header.Get("X-Next-Cursor")
		require.Len(t, uuidsOf(t, s.get(t, path+"?provider=gitlab,github&cursor="+cursor)), 4)
		for _, query := range []string{"provider=github", "", "provider=gitlab,github&order=asc"} {
			require.Equal(t, http.StatusUnprocessableEntity, s.get(t, path+"?"+query+"&cursor="+cursor).Status, query)
		}
		_, _, details := s.get(t, path+"?cursor=AAAA").Error(t)
		require.Equal(t, []string{"query.cursor cursor"}, details)
		foreign := s.Do(t, "foreign", http.MethodGet, path+"?provider=gitlab,github&cursor="+cursor, "")
		require.Equal(t, http.StatusUnprocessableEntity, foreign.Status)
	})
}

// linked returns the target of the response's link to the next page.
func linked(t *testing.T, a httpapitest.Response) string {
	t.Helper()
	link := a.Header.Get("Link")
	require.Equal(t, link == "", a.Header.Get("X-Next-Cursor") == "")
	if link == "" {
		return ""
	}
	target, found := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	require.True(t, found, link)
	_, err := url.Parse(target)
	require.NoError(t, err)
	return target
}

// A page with many deliveries ends early as well: they are counted before they are read.
func TestPageOfManyDeliveries(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		// The event counts its deliveries, so the test need not store that many.
		for _, n := range []int64{10_000, 5000, 5000, 1} {
			s.exec(t, "UPDATE webhook_events SET n_succeeded = $1 WHERE event_uuid = $2", n, s.event(t, nil))
		}
		var pages []int
		for next := path + "?order=asc&limit=4&include=deliveries"; next != ""; {
			a := s.get(t, next)
			pages = append(pages, len(uuidsOf(t, a)))
			next = linked(t, a)
		}
		require.Equal(t, []int{1, 1, 2}, pages)
		require.Len(t, uuidsOf(t, s.get(t, path+"?limit=4")), 4)
	})
}

// A page with large bodies ends early, and its link asks for whole pages again.
func TestPageOfLargeBodies(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		// The budget uses the stored size, so the test need not store that much.
		for _, size := range []int64{20 << 20, 9 << 20, 9 << 20, 1} {
			s.event(t, func(e *events.NewEvent) { e.BodySize = size })
		}
		var pages []int
		for next := path + "?order=asc&limit=4&include=body"; next != ""; {
			a := s.get(t, next)
			pages = append(pages, len(uuidsOf(t, a)))
			if next = linked(t, a); next != "" {
				require.Contains(t, next, "limit=4")
			}
		}
		require.Equal(t, []int{1, 1, 2}, pages)
		require.Len(t, uuidsOf(t, s.get(t, path+"?limit=4")), 4)
	})
}

// Another environment's events do not exist, and an id that cannot exist is not looked up.
func TestNotFound(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		uuid := s.event(t, nil)
		for _, c := range []struct{ method, suffix string }{
			{http.MethodGet, ""}, {http.MethodGet, "/attempts"}, {http.MethodPost, "/replay"},
		} {
			for as, target := range map[string]string{"foreign": uuid, "webhooks": id.NewUUID(), "developer": "%00'",
				"viewer": "UPPER"} {
				if c.method == http.MethodPost && as == "viewer" {
					continue
				}
				a := s.Do(t, as, c.method, path+"/"+target+c.suffix, "")
				require.Equal(t, http.StatusNotFound, a.Status, "%s %s %s: %s", c.method, c.suffix, as, a.Body)
			}
		}
		require.Empty(t, uuidsOf(t, s.Do(t, "foreign", http.MethodGet, path, "")))
	})
}

// Reading takes the events grant or the read permission, replaying the webhooks grant or the replay permission.
func TestAccess(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		uuid := s.event(t, nil)
		for as, want := range map[string][2]int{
			"events": {200, 403}, "webhooks": {200, 409}, "connections": {403, 403}, "viewer": {200, 403},
			"developer": {200, 409},
		} {
			require.Equal(t, want[0], s.Do(t, as, http.MethodGet, path+"/"+uuid, "").Status, as)
			require.Equal(t, want[0], s.Do(t, as, http.MethodGet, path, "").Status, as)
			require.Equal(t, want[0], s.Do(t, as, http.MethodGet, path+"/"+uuid+"/attempts", "").Status, as)
			require.Equal(t, want[1], s.Do(t, as, http.MethodPost, path+"/"+uuid+"/replay", "").Status, as)
		}
	})
}
