package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// trial is the response to a test of a subscription.
type trial struct {
	Delivered  bool   `json:"delivered"`
	WouldMatch bool   `json:"would_match"`
	EventType  string `json:"event_type"`
	WebhookID  string `json:"webhook_id"`
	Request    struct {
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	} `json:"request"`
	Response *struct {
		StatusCode int    `json:"status_code"`
		Body       string `json:"body"`
		Truncated  bool   `json:"truncated"`
	} `json:"response"`
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
	Warnings []struct {
		Rule string `json:"rule"`
	} `json:"warnings"`
}

// rules returns the rules of the warnings.
func (t *trial) rules() (list []string) {
	for _, warning := range t.Warnings {
		list = append(list, warning.Rule)
	}
	return list
}

func (w *world) trial(sub subscription, body any) trial {
	w.t.Helper()
	var out trial
	w.call(w.dev(), http.MethodPost, "/webhook-subscriptions/"+sub.ID+"/test", body).want(w, http.StatusOK).into(w, &out)
	return out
}

// A test sends one request that verifies as a forward does, reports the response, and leaves no trace: no event, no
// delivery, no change of the subscription.
func TestTrialOfASubscription(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, func(rw http.ResponseWriter, _ int) {
			rw.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(rw, "thanks")
		})
		sub := w.subscribeAs(w.dev(), sink.url+"?key=in-the-url",
			object{"enabled": false, "event_types": []string{"issues.*"}, "headers": object{"Authorization": "Bearer receiver"}})

		made := w.trial(sub, nil)
		require.True(w.t, made.Delivered)
		require.False(w.t, made.WouldMatch)
		require.True(w.t, id.IsUUID(made.WebhookID))
		require.Equal(w.t, sink.url+"?key=in-the-url", made.Request.URL)
		require.Equal(w.t, http.StatusAccepted, made.Response.StatusCode)
		require.Equal(w.t, "thanks", made.Response.Body)
		require.Nil(w.t, made.Error)
		require.Equal(w.t, secretbox.Redacted, made.Request.Headers["authorization"])
		got := sink.wait(w.t, 1)[0]
		verify(w, sub.SigningSecret, got)
		require.Equal(w.t, made.Request.Body, string(got.body))
		require.Equal(w.t, made.WebhookID, got.header.Get("Webhook-Id"))
		require.Equal(w.t, "true", got.header.Get("Sallyport-Test"))
		require.Equal(w.t, "false", got.header.Get("Sallyport-Will-Retry"))
		require.Equal(w.t, "Bearer receiver", got.header.Get("Authorization"))
		require.Equal(w.t, "webhook.test", got.header.Get("Sallyport-Event-Type"))

		own := w.trial(sub, object{"event_type": "issues.opened", "body": object{"n": 1},
			"headers": object{"X-Extra": "yes"}})
		require.True(w.t, own.WouldMatch)
		got = sink.wait(w.t, 2)[1]
		require.Equal(w.t, "yes", got.header.Get("X-Extra"))
		var envelope struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}
		require.NoError(w.t, json.Unmarshal(got.body, &envelope))
		require.Equal(w.t, "issues.opened", envelope.Type)
		require.JSONEq(w.t, `{"n":1}`, string(envelope.Data))

		dry := w.trial(sub, object{"dry_run": true})
		require.False(w.t, dry.Delivered)
		require.Nil(w.t, dry.Response)
		require.Nil(w.t, dry.Error)
		require.NotEmpty(w.t, dry.Request.Body)
		require.Equal(w.t, 2, sink.count(), "a dry run sends nothing")
		require.Empty(w.t, w.events(""), "a test stores no event")
		require.NotContains(w.t, w.logs.String(), "in-the-url")
	})
}

// A stored event can be tested on any subscription of its environment, with its own id and body, and its state stays as
// it is.
func TestTrialOfAStoredEvent(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret})
		w.connect(w.dev(), object{"provider": "github", "connection_id": "other", "webhook_secret": githubSecret})
		uuid := w.fresh(conn.pathToken(), github(issueOpened))
		sink := newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribeAs(w.dev(), sink.url, object{"payload_mode": "raw", "provider_config_key": "github",
			"connection_id": "acme"})
		made := w.trial(sub, object{"event_uuid": uuid})
		require.True(w.t, made.WouldMatch)
		require.Equal(w.t, uuid, made.WebhookID)
		require.Equal(w.t, issueOpened, string(sink.wait(w.t, 1)[0].body))
		elsewhere := w.subscribeAs(w.dev(), sink.url, object{"provider_config_key": "github", "connection_id": "other"})
		require.False(w.t, w.trial(elsewhere, object{"event_uuid": uuid}).WouldMatch, "the event is another connection's")
		e := w.event(uuid)
		require.Equal(w.t, "received", e.Status)
		require.Zero(w.t, e.AttemptCount)
		require.Empty(w.t, w.attempts(uuid))

		duplicate := w.deliver(conn.pathToken(), githubAs(githubSecret, "issues", w.event(uuid).IdempotencyKey, issueOpened))
		require.True(w.t, duplicate.Duplicate)
		duplicates := w.events("&duplicate=true")
		require.Len(w.t, duplicates, 1)
		a := w.call(w.dev(), http.MethodPost, "/webhook-subscriptions/"+sub.ID+"/test",
			object{"event_uuid": duplicates[0].EventUUID}).
			want(w, http.StatusUnprocessableEntity)
		require.Contains(w.t, string(a.body), "body.event_uuid")
	})
}

// For any behaviour of the target the status is 200 and the body says what went wrong. Nothing is disabled and there is
// no retry.
func TestTrialOfABadTarget(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		for code, want := range map[int]string{http.StatusInternalServerError: "unexpected_status",
			http.StatusFound: "redirect_refused", http.StatusGone: "gone"} {
			sink := newReceiver(w.t, status(code))
			sub := w.subscribe(sink.url)
			made := w.trial(sub, nil)
			require.False(w.t, made.Delivered)
			require.Equal(w.t, code, made.Response.StatusCode)
			require.Equal(w.t, want, made.Error.Code)
			require.Equal(w.t, 1, sink.count())
			var now struct {
				Enabled bool `json:"enabled"`
			}
			w.call(w.dev(), http.MethodGet, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusOK).into(w, &now)
			require.True(w.t, now.Enabled)
		}
		large := newReceiver(w.t, func(rw http.ResponseWriter, _ int) {
			_, _ = io.WriteString(rw, strings.Repeat("x", 100<<10))
		})
		made := w.trial(w.subscribe(large.url), nil)
		require.True(w.t, made.Delivered)
		require.True(w.t, made.Response.Truncated)
		require.Len(w.t, made.Response.Body, 16<<10)

		made = w.trial(w.subscribe("http://127.0.0.1:1/nobody-listens-here"), nil)
		require.Nil(w.t, made.Response)
		require.Equal(w.t, "connection_refused", made.Error.Code)

		// It has the time of a delivery, and says that there would be none.
		held := make(chan struct{})
		defer close(held)
		slow := newReceiver(w.t, func(http.ResponseWriter, int) { <-held })
		sub := w.subscribe(slow.url, object{"timeout_ms": 1000, "enabled": false})
		made = w.trial(sub, nil)
		require.Equal(w.t, "timeout", made.Error.Code)
		require.Equal(w.t, []string{"disabled"}, made.rules())
	})
}

// A wrong test is refused at its place, and sends nothing.
func TestTrialViolations(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(sink.url)
		for body, location := range map[string]string{
			`{"event_type":"a.*"}`: "body.event_type",
			`{"event_type":""}`:    "body.event_type",
			`{"event_type":"a","event_uuid":"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"}`: "body.event_type",
			`{"body":1,"event_uuid":"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"}`:         "body.body",
			`{"headers":{"Webhook-Id":"x"}}`:                                         "body.headers.Webhook-Id",
			`{"headers":{"X-A":"a\nb"}}`:                                             "body.headers.X-A",
			`{"dry":true}`:                                                           "body.dry",
		} {
			a := w.call(w.dev(), http.MethodPost, "/webhook-subscriptions/"+sub.ID+"/test", raw(body)).want(w,
				http.StatusUnprocessableEntity)
			require.Contains(w.t, string(a.body), `"location":"`+location+`"`, body)
		}
		w.call(w.dev(), http.MethodPost, "/webhook-subscriptions/"+sub.ID+"/test", object{"event_uuid": id.NewUUID()}).want(w,
			http.StatusNotFound)
		w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusNoContent)
		w.call(w.dev(), http.MethodPost, "/webhook-subscriptions/"+sub.ID+"/test", nil).want(w, http.StatusNotFound)
		require.Zero(w.t, sink.count())
	})
}

// An explanation names, for every subscription, the pattern that matched the event or the first condition that failed,
// and whether the subscription existed, in this form, when the event came.
func TestExplanation(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret})
		w.connect(w.dev(), object{"provider": "github", "connection_id": "other", "webhook_secret": githubSecret})
		w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "g", "webhook_secret": githubSecret})
		sink := newReceiver(w.t, status(http.StatusOK))
		sub := func(more object) string { return w.subscribeAs(w.dev(), sink.url, more).ID }
		takes := sub(object{"event_types": []string{"push", "issues.*"}})
		paused := sub(object{"enabled": false})
		elsewhere := sub(object{"provider_config_key": "github", "connection_id": "other"})
		generic := sub(object{"provider_config_key": "generic-hmac"})
		types := sub(object{"event_types": []string{"push"}})
		uuid := w.fresh(conn.pathToken(), github(issueOpened))
		w.awaitEvent(uuid, "forwarded")
		w.clk.Advance(time.Minute)
		late := sub(nil)

		type row struct {
			SubscriptionID  string  `json:"subscription_id"`
			Matches         bool    `json:"matches"`
			FailedCondition *string `json:"failed_condition"`
			Pattern         *string `json:"pattern"`
			Enabled         bool    `json:"enabled"`
			DeliveryStatus  *string `json:"delivery_status"`
			CreatedAfter    bool    `json:"created_after_event"`
			ChangedAfter    bool    `json:"changed_after_event"`
		}
		explain := func(uuid string) map[string]row {
			var list []row
			w.call(w.dev(), http.MethodGet, "/webhook-events/"+uuid+"/explain", nil).want(w, http.StatusOK).into(w, &list)
			out := map[string]row{}
			for _, r := range list {
				out[r.SubscriptionID] = r
			}
			return out
		}
		text := func(s string) *string { return &s }
		require.Equal(w.t, map[string]row{
			takes:     {takes, true, nil, text("issues.*"), true, text("succeeded"), false, false},
			paused:    {paused, true, nil, text("*"), false, text("held"), false, false},
			elsewhere: {elsewhere, false, text("connection_id"), text("*"), true, nil, false, false},
			generic:   {generic, false, text("provider_config_key"), text("*"), true, nil, false, false},
			types:     {types, false, text("event_types"), nil, true, nil, false, false},
			late:      {late, true, nil, text("*"), true, nil, true, true},
		}, explain(uuid))

		duplicate := w.deliver(conn.pathToken(), githubAs(githubSecret, "issues", w.event(uuid).IdempotencyKey, issueOpened))
		require.True(w.t, duplicate.Duplicate)
		duplicates := w.events("&duplicate=true")
		require.Len(w.t, duplicates, 1)
		for _, r := range explain(duplicates[0].EventUUID) {
			require.Equal(w.t, "duplicate", *r.FailedCondition)
			require.False(w.t, r.Matches)
		}
		w.call(w.dev(), http.MethodGet, "/webhook-events/"+id.NewUUID()+"/explain", nil).want(w, http.StatusNotFound)
	})
}
