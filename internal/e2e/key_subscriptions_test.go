package e2e_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/reference"
)

// overheard is an event that a bounded key may see, and its delivery to a subscription that the key may not see.
type overheard struct {
	w *world
	// event has a dead delivery to hidden, whose receiver responds with status 418 and the text said.
	event, hidden, said string
	// status finds 418 as a number of its own, and not the same digits within a random id.
	status   *regexp.Regexp
	receiver *receiver
	// own is the gateway's own event about that delivery, and disabled that about another such subscription.
	own, disabled string
	// alerts receives the gateway's own events about globex.
	alerts *receiver
}

// overhear delivers an event of globex to a subscription to the events of all connections.
func (w *world) overhear() (overheard, map[string]apiKey) {
	w.t.Helper()
	o := overheard{w: w, said: "for those who may see the receiver", status: regexp.MustCompile(`\b418\b`)}
	o.receiver = newReceiver(w.t, func(rw http.ResponseWriter, _ int) {
		rw.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(rw, o.said)
	})
	o.hidden = w.subscribe(o.receiver.url, object{"retry_schedule_seconds": []float64{}}).ID
	emitted := newReceiver(w.t, status(http.StatusOK))
	w.subscribe(emitted.url, object{"event_types": []string{"sallyport.delivery.*", "sallyport.subscription.*"}})
	w.subscribe(newReceiver(w.t, status(http.StatusGone)).url, object{"event_types": []string{"issues.closed"}})
	event, _, keys := w.neighbours()
	o.event = event
	o.alerts = newReceiver(w.t, status(http.StatusOK))
	w.subscribe(o.alerts.url, object{"event_types": []string{"sallyport.*"}, "connection_id": "globex"})
	w.awaitDelivery(o.event, o.hidden, "dead")
	w.fresh("globex", github(`{"action":"closed"}`))
	w.ticking("the gateway's own events", func() bool { return emitted.count() >= 4 })
	for _, r := range emitted.all() {
		uuid := r.header.Get("Webhook-Id")
		switch {
		case r.header.Get("Sallyport-Event-Type") == "sallyport.subscription.disabled":
			o.disabled = uuid
		case strings.Contains(string(r.body), o.hidden) && strings.Contains(string(r.body), o.event):
			o.own = uuid
		}
	}
	require.NotEmpty(w.t, o.disabled)
	require.Contains(w.t, string(w.call(w.dev(), http.MethodGet, "/webhook-events/"+o.own, nil).body), o.hidden)
	attempts := string(w.call(w.dev(), http.MethodGet, "/webhook-events/"+o.event+"/attempts", nil).body)
	require.Contains(w.t, attempts, o.said)
	require.Regexp(w.t, o.status, attempts)
	require.Equal(w.t, o.hidden, w.event(o.event).LastError.SubscriptionID)
	return o, keys
}

// nothing requires that a response shows nothing of the subscription and its receiver.
func (o *overheard) nothing(a response) response {
	o.w.t.Helper()
	for _, secret := range []string{o.hidden, o.said, o.receiver.url} {
		require.NotContains(o.w.t, string(a.body), secret, "%s %s", a.method, a.path)
	}
	require.NotRegexp(o.w.t, o.status, string(a.body), "%s %s", a.method, a.path)
	return a
}

// get requests a path and requires that it succeeds and shows nothing of the subscription.
func (o *overheard) get(c credentials, path string) response {
	o.w.t.Helper()
	return o.nothing(o.w.call(c, http.MethodGet, path, nil).want(o.w, http.StatusOK))
}

// unknown requires that the events about hidden subscriptions do not exist for the caller.
func (o *overheard) unknown(c credentials, method, path string, body any) {
	o.w.t.Helper()
	for _, uuid := range []string{o.own, o.disabled} {
		o.nothing(o.w.call(c, method, "/webhook-events/"+uuid+path, body)).refused(o.w, http.StatusNotFound,
			apperr.CodeNotFound)
	}
}

// empty is get for a list that has no rows.
func (o *overheard) empty(c credentials, path string) {
	o.w.t.Helper()
	var rows []object
	o.get(c, path).into(o.w, &rows)
	require.Empty(o.w.t, rows, path)
}

// probes returns, for each operation that a key reaches, what requires that it neither shows nor starts anything of the
// subscription; nil where an operation has nothing of deliveries and takes no subscription.
func (o *overheard) probes() map[string]func(c credentials) {
	w, event, sub := o.w, "/webhook-events/"+o.event, "/webhook-subscriptions/"+o.hidden
	missing := func(method, path string, body any) func(credentials) {
		return func(c credentials) {
			o.nothing(w.call(c, method, path, body)).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		}
	}
	return map[string]func(c credentials){
		"list-webhook-events": func(c credentials) {
			o.get(c, "/webhook-events?include=body,headers,deliveries")
			for _, filter := range []string{"subscription_id=" + o.hidden, "http_status=418", "error_code=unexpected_status"} {
				o.empty(c, "/webhook-events?"+filter)
				o.empty(c, "/webhook-events?q="+o.event+"&"+filter)
			}
			for _, filter := range []string{"q=" + o.own, "q=" + o.disabled, "q=sallyport.", "event_type=sallyport.*",
				"idempotency_key=" + o.own, "provider=sallyport"} {
				o.empty(c, "/webhook-events?include=body&"+filter)
			}
		},
		"get-webhook-event": func(c credentials) {
			o.get(c, event)
			o.unknown(c, http.MethodGet, "", nil)
		},
		"list-webhook-event-attempts": func(c credentials) {
			o.empty(c, event+"/attempts")
			o.unknown(c, http.MethodGet, "/attempts", nil)
		},
		"explain-webhook-event": func(c credentials) {
			o.get(c, event+"/explain")
			o.unknown(c, http.MethodGet, "/explain", nil)
		},
		"replay-webhook-event": func(c credentials) {
			o.unknown(c, http.MethodPost, "/replay", object{"force": true})
			o.nothing(w.call(c, http.MethodPost, event+"/replay", object{"force": true})).refused(w, http.StatusConflict,
				apperr.CodeNothingToReplay)
			require.Contains(w.t, w.call(c, http.MethodPost, event+"/replay", object{"subscription_ids": []string{o.hidden}}).
				violations(w), "body.subscription_ids[0] exists")
		},
		"create-webhook-replay": func(c credentials) {
			for _, filter := range []object{{"event_uuids": []string{o.event}}, {"subscription_id": []string{o.hidden}},
				{"http_status": []int{http.StatusTeapot}}, {"event_uuids": []string{o.own, o.disabled}},
				{"provider": []string{"sallyport"}}} {
				order := object{"filter": filter, "force": true, "dry_run": true}
				var p replayPreview
				o.nothing(w.call(c, http.MethodPost, "/webhook-replays", order).want(w, http.StatusOK)).into(w, &p)
				require.Zero(w.t, p.Replayed, "%v", filter)
				delete(order, "dry_run")
				order["rate_per_second"] = 100
				job := w.startReplay(c, order)
				w.ticking("the end of the replay", func() bool { return w.replayJob(c, job.ID).Status == "completed" })
				require.Zero(w.t, w.replayJob(c, job.ID).Counts.Replayed, "%v", filter)
			}
			require.Contains(w.t, w.call(c, http.MethodPost, "/webhook-replays", object{"filter": object{"all": true},
				"to_subscription_id": o.hidden}).violations(w), "body.to_subscription_id exists")
		},
		"stream-webhook-events":          o.streams,
		"list-webhook-subscriptions":     func(c credentials) { o.get(c, "/webhook-subscriptions") },
		"get-webhook-subscription":       missing(http.MethodGet, sub, nil),
		"get-webhook-subscription-stats": missing(http.MethodGet, sub+"/stats", nil),
		"test-webhook-subscription":      missing(http.MethodPost, sub+"/test", object{"event_uuid": o.event}),
		"update-webhook-subscription":    missing(http.MethodPatch, sub, object{"description": "mine"}),
		"delete-webhook-subscription":    missing(http.MethodDelete, sub, nil),
		"list-webhook-rejections":        func(c credentials) { o.get(c, "/webhook-rejections") },
		"get-webhook-rejection":          nil, // no rejection concerns a subscription
		"download-webhook-event-payload": func(c credentials) {
			o.get(c, event+"/payload")
			o.unknown(c, http.MethodGet, "/payload", nil)
		},
		"create-webhook-subscription": nil,
		"list-webhook-event-types":    nil, // what definitions say
		"list-catalog":                nil, // the catalog has nothing of connections
		"get-catalog-provider":        nil,
		"search-actions":              nil,
		"get-action":                  nil,
		"check-action":                nil,
		"execute-action":              nil, // executions have nothing of subscriptions
		"list-executions":             nil,
		"get-execution":               nil,
		"get-execution-output":        nil,
		"publish-webhook-event":       nil,
		"expunge-webhook-event-payload": func(c credentials) { // else it removes what is the event's own
			o.unknown(c, http.MethodDelete, "/payload", nil)
		},
		"list-webhook-replays":               nil, // the orders of keys with the same bound, and their counts
		"get-webhook-replay":                 nil,
		"pause-webhook-replay":               nil,
		"resume-webhook-replay":              nil,
		"cancel-webhook-replay":              nil,
		"create-webhook-event-stream-ticket": nil, // the stream is bounded when it is opened
	}
}

// streams requires that streams show the event and nothing of the subscription, with and without a filter by it.
func (o *overheard) streams(c credentials) {
	w := o.w
	before := o.receiver.count()
	all, whole := w.stream(c, ""), w.stream(w.dev(), "")
	filtered := []*stream{w.stream(c, "?subscription_id="+o.hidden), w.stream(c, "?http_status=418")}
	uuid := w.fresh("globex", github(`{"action":"labeled"}`))
	require.Equal(w.t, []string{uuid}, all.waits(1))
	o.receiver.wait(w.t, before+1)
	w.ticking("the attempt", func() bool { return len(whole.of("webhook_attempt.completed")) > 0 })
	w.ticking("the change of the event", func() bool { return len(all.of("webhook_event.updated")) > 0 })
	last := w.fresh("globex", github(`{"action":"unlabeled"}`)) // which comes after anything else that was to come
	require.Equal(w.t, []string{uuid, last}, all.waits(2))
	require.Empty(w.t, all.of("webhook_attempt.completed"))
	for _, m := range all.messages() {
		require.NotContains(w.t, string(m.Data), o.hidden)
		require.NotRegexp(w.t, o.status, string(m.Data))
	}
	for _, s := range filtered {
		require.Empty(w.t, s.messages())
		s.quit()
	}
	all.quit()
	whole.quit()
}

// Everything that belongs to an event and to a subscription, such as an attempt with the receiver's response, exists
// only for those who may see both: a key for one connection that sees the connection's events sees, filters by and
// replays nothing of the deliveries to subscriptions of the whole environment. Operations come from the route table,
// and each says here how it keeps this, so that a new one is thought of.
func TestBoundedKeysSeeNothingOfOtherSubscriptions(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, _ fixtures) {
		o, keys := w.overhear()
		probes := o.probes()
		for _, op := range reference.API().Operations() {
			probe, known := probes[op.ID]
			if op.Route == "" || op.Tag == "Connections" {
				require.False(w.t, known, "%s needs no probe", op.ID)
				continue
			}
			require.True(w.t, known, "what does %s show a bounded key of others' subscriptions?", op.ID)
			delete(probes, op.ID)
			if probe == nil {
				continue
			}
			for _, k := range keys {
				before := o.receiver.count()
				probe(byKey(k.Key))
				if op.ID == "stream-webhook-events" { // which delivers two events
					before += 2
					o.receiver.wait(w.t, before)
				}
				require.Equal(w.t, before, o.receiver.count(), "%s has sent something", op.ID)
			}
		}
		require.Empty(w.t, probes, "operations that are no more")
		require.Zero(w.t, o.alerts.count(), "no event about a hidden subscription was forwarded")

		// An unbounded key, and one whose bound comes to cover the subscription, see and replay it.
		w.patchSubscription(o.hidden, object{"connection_id": "globex"})
		for _, k := range keys {
			c := byKey(k.Key)
			require.Contains(w.t, string(w.call(c, http.MethodGet, "/webhook-events/"+o.event+"/attempts", nil).body), o.said)
			before := o.receiver.count()
			w.call(c, http.MethodPost, "/webhook-events/"+o.event+"/replay", nil).want(w, http.StatusAccepted)
			o.receiver.wait(w.t, before+1)
			await.Condition(w.t, "the end of the replay", func() bool {
				return w.event(o.event).delivery(w, o.hidden).Status == "dead"
			})
		}
	})
}
