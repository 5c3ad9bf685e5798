package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/testkit"
)

// filterResult is the part of a response about a filter.
type filterResult struct {
	Value *bool `json:"value"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Cost uint64 `json:"cost"`
}

// explained returns what is said of the event and the subscription.
func (w *world) explained(uuid, subscriptionID string) (matches bool, failed string, filter *filterResult) {
	w.t.Helper()
	var list []struct {
		SubscriptionID string        `json:"subscription_id"`
		Matches        bool          `json:"matches"`
		Failed         *string       `json:"failed_condition"`
		Filter         *filterResult `json:"filter"`
	}
	w.call(w.dev(), http.MethodGet, "/webhook-events/"+uuid+"/explain?limit=250", nil).want(w, http.StatusOK).into(w,
		&list)
	for _, row := range list {
		if row.SubscriptionID != subscriptionID {
			continue
		}
		if row.Failed != nil {
			failed = *row.Failed
		}
		return row.Matches, failed, row.Filter
	}
	require.FailNow(w.t, "no such subscription is explained")
	return false, "", nil
}

// took returns the subscriptions that the event has deliveries to, in the order of their ids.
func (w *world) took(uuid string) []string {
	w.t.Helper()
	ids := []string{}
	for _, d := range w.event(uuid).Deliveries {
		ids = append(ids, d.SubscriptionID)
	}
	return slices.Sorted(slices.Values(ids))
}

// An event goes to the subscriptions whose filter is true of it, and to those without one. A filter that fails does not
// match, keeps no event out, and every response about it gives the reason.
func TestFilters(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		sink := newReceiver(w.t, status(http.StatusOK))
		sub := func(filter any) string {
			return w.subscribe(sink.url, object{"event_types": []string{"issues.*"}, "filter": filter}).ID
		}
		none := sub(nil)
		opened := sub(`event.body.action == "opened" && event.headers["x-github-event"] == "issues"`)
		closed := sub(`event.body.action == "closed"`)
		fails := sub(`event.body.action.startsWith("o") && event.body.nothing.at.all == 1`)
		paused := w.subscribe(sink.url,
			object{"enabled": false, "filter": `event.connection_id == "acme" && event.provider == "github"`}).ID
		narrow := w.subscribe(sink.url, object{"event_types": []string{"push"}, "filter": "true"}).ID
		secret := sub(`event.headers["x-hub-signature-256"] == "[redacted]"`)

		uuid := w.fresh(conn.pathToken(), github(issueOpened))
		require.Equal(w.t, slices.Sorted(slices.Values([]string{none, opened, paused, secret})), w.took(uuid))

		for id, want := range map[string]struct {
			matches bool
			failed  string
		}{none: {true, ""}, opened: {true, ""}, closed: {false, "filter"}, fails: {false, "filter"}, paused: {true, ""},
			narrow: {false, "event_types"}} {
			matches, failed, _ := w.explained(uuid, id)
			require.Equal(w.t, want.matches, matches)
			require.Equal(w.t, want.failed, failed)
		}
		_, _, r := w.explained(uuid, opened)
		require.True(w.t, *r.Value)
		require.Nil(w.t, r.Error)
		require.Positive(w.t, r.Cost)
		_, _, r = w.explained(uuid, closed)
		require.False(w.t, *r.Value)
		_, _, r = w.explained(uuid, fails)
		require.Nil(w.t, r.Value)
		require.Equal(w.t, "evaluation_failed", r.Error.Code)
		require.Contains(w.t, r.Error.Message, "line 1, column ")
		require.Contains(w.t, r.Error.Message, "no such key: nothing")
		for _, id := range []string{none, narrow} {
			_, _, r = w.explained(uuid, id)
			require.Nil(w.t, r)
		}

		resp, err := w.http.Get("http://" + w.app.AdminAddr() + "/metrics") //nolint:noctx // a test's own request
		require.NoError(w.t, err)
		metrics, err := io.ReadAll(resp.Body)
		require.NoError(w.t, err)
		require.NoError(w.t, resp.Body.Close())
		for outcome, n := range map[string]string{"matched": "3", "not_matched": "1", "evaluation_failed": "1"} {
			require.Contains(w.t, string(metrics), `sallyport_filter_evaluations_total{outcome="`+outcome+`"} `+n+"\n")
		}
	}, func(c *config.Config) { c.AdminListen = "127.0.0.1:0" })
}

// A changed filter is asked of the next event, null takes it away, and what came before stays where it went.
func TestChangingAFilter(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		sink := newReceiver(w.t, status(http.StatusOK))
		id := w.subscribe(sink.url, object{"filter": `event.body.action == "closed"`}).ID
		path := "/webhook-subscriptions/" + id
		read := func() (s struct {
			Filter *string `json:"filter"`
		}) {
			w.call(w.dev(), http.MethodGet, path, nil).want(w, http.StatusOK).into(w, &s)
			return s
		}
		require.Equal(w.t, `event.body.action == "closed"`, *read().Filter)
		first := w.fresh(conn.pathToken(), github(issueOpened))
		require.Empty(w.t, w.took(first))
		w.call(w.dev(), http.MethodPatch, path, object{"description": "other"}).want(w, http.StatusOK)
		require.Equal(w.t, `event.body.action == "closed"`, *read().Filter)
		w.patchSubscription(id, object{"filter": `event.body.action != "closed"`})
		second := w.fresh(conn.pathToken(), github(issueOpened))
		require.Equal(w.t, []string{id}, w.took(second))
		w.patchSubscription(id, object{"filter": nil})
		require.Nil(w.t, read().Filter)
		third := w.fresh(conn.pathToken(), github(`{"action":"closed"}`))
		require.Equal(w.t, []string{id}, w.took(third))
		require.Empty(w.t, w.took(first))
		require.Len(w.t, sink.wait(w.t, 2), 2)
	})
}

// Everything that is wrong with a filter comes with its place, together with what else is wrong, and is not
// stored.
func TestFilterViolations(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		e := w.call(w.dev(), http.MethodPost, "/webhook-subscriptions", object{"event_types": []string{"a*"},
			"forward_url": "ftp://x", "timeout_ms": 1, "filter": "event.typ == 1 &&\n event.type > 2"}).refused(
			w, http.StatusUnprocessableEntity, apperr.CodeValidation)
		var filter, others []string
		for _, d := range e.Error.Details {
			if d.Location == "body.filter" {
				filter = append(filter, d.Rule+" "+d.Message)
			} else {
				others = append(others, d.Location)
			}
		}
		require.ElementsMatch(w.t, []string{"body.event_types[0]", "body.forward_url", "body.timeout_ms"}, others)
		require.Len(w.t, filter, 2)
		require.True(w.t, strings.HasPrefix(filter[0], "reference line 1, column 6: the event has no such field"), filter[0])
		require.Equal(w.t, "type line 2, column 13: > cannot take (string, int)", filter[1])

		sub := w.subscribe(newReceiver(w.t, status(http.StatusOK)).url)
		for _, bad := range []any{"", "event.type", 1, "event.body == ", strings.Repeat("(", 300),
			strings.Repeat("true || ", 2000) + "true"} {
			violations := w.call(w.dev(), http.MethodPatch, "/webhook-subscriptions/"+sub.ID, object{"filter": bad}).violations(
				w)
			require.Contains(w.t, violations[0], "body.filter ")
		}
	})
}

// The test of a subscription asks its filter too, of a made-up event and of a stored one.
func TestTrialAsksTheFilter(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		sub := w.subscribe(newReceiver(w.t, status(http.StatusOK)).url, object{"filter": `event.body.action == "opened"`})
		trial := func(body object) (matches bool, filter *filterResult) {
			var out struct {
				WouldMatch bool          `json:"would_match"`
				Filter     *filterResult `json:"filter"`
			}
			body["dry_run"] = true
			w.call(w.dev(), http.MethodPost, "/webhook-subscriptions/"+sub.ID+"/test", body).want(w, http.StatusOK).into(w, &out)
			return out.WouldMatch, out.Filter
		}
		matches, r := trial(object{"event_type": "issues.opened", "body": object{"action": "opened"}})
		require.True(w.t, matches)
		require.True(w.t, *r.Value)
		matches, r = trial(object{"body": object{"action": "closed"}})
		require.False(w.t, matches)
		require.False(w.t, *r.Value)
		matches, r = trial(object{"body": []int{1}})
		require.False(w.t, matches)
		require.Equal(w.t, "evaluation_failed", r.Error.Code)
		matches, _ = trial(object{"event_uuid": w.fresh(conn.pathToken(), github(issueOpened))})
		require.True(w.t, matches)
	})
}

// Bodies of every size and kind are filtered by what is in them.
func TestFiltersOfLargeAndOtherBodies(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		sink := newReceiver(w.t, status(http.StatusOK))
		json := w.subscribe(sink.url, object{"event_types": []string{"issues.*"},
			"filter": `event.body.action == "opened" && event.body.after.here == 1`}).ID
		other := w.subscribe(sink.url, object{"filter": `!has(event.body) && event.content_type == "text/plain"`}).ID
		large := `{"action":"opened","filler":[` + strings.Repeat(`{"a":"`+strings.Repeat("x", 1000)+`"},`, 4000) +
			`{}],"after":{"here":1}}`
		require.Equal(w.t, []string{json}, w.took(w.fresh(conn.pathToken(), github(large))))
		text := github("no json").with("Content-Type", "text/plain")
		require.Equal(w.t, []string{other}, w.took(w.fresh(conn.pathToken(), text)))
	})
}

// The filters of all subscriptions have one limit on an event. One that is left out does not match, explain says why,
// and a subscription with a cheap filter gets the event.
func TestFiltersOfAnEventHaveALimit(t *testing.T) {
	t.Parallel()
	testkit.NeedNoRace(t)
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		sink := newReceiver(w.t, status(http.StatusOK))
		var costly []string
		for i := range 12 {
			costly = append(costly, w.subscribe(sink.url, object{"filter": fmt.Sprintf(
				"event.body.list.exists(x, event.body.list.exists(y, x + y == %d))", 3+i)}).ID)
		}
		cheap := w.subscribe(sink.url, object{"filter": `event.body.action == "opened"`}).ID
		uuid := w.fresh(conn.pathToken(), github(`{"action":"opened","list":[`+strings.Repeat("1,", 100)+`1]}`))
		require.Equal(w.t, []string{cheap}, w.took(uuid))
		left := 0
		for _, subscriptionID := range costly {
			matches, failed, r := w.explained(uuid, subscriptionID)
			require.False(w.t, matches)
			require.Equal(w.t, "filter", failed)
			if r.Error != nil {
				require.Equal(w.t, "cost_exceeded", r.Error.Code)
				require.Contains(w.t, r.Error.Message, "was not evaluated")
				require.Zero(w.t, r.Cost)
				left++
			}
		}
		require.Positive(w.t, left)
		require.Less(w.t, left, len(costly))
		matches, _, _ := w.explained(uuid, cheap)
		require.True(w.t, matches)
	})
}
