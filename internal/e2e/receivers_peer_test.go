package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
)

// Receivers that were written for a provider work behind a subscription to raw webhooks, as they work behind the
// provider itself. GitHub's own library verifies GitHub's signature and passes each event on under its type; with
// another secret it refuses. The library of the CloudEvents project reads the event that was sent, in binary mode from
// its headers. Slack's own library verifies its requests, whose bodies have the token that the signature replaced, and
// calls the listener of each, and takes samples of interactions and commands as well.
func TestRealReceivers(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	dir := nodePeer(t, "receivers")
	each(t, func(w *world) {
		peer := startPeer(w.t, dir, "peer.mjs")
		var at struct {
			URL  string `json:"url"`
			Sent []struct {
				Event   json.RawMessage   `json:"event"`
				Headers map[string]string `json:"headers"`
				Body    string            `json:"body"`
			} `json:"sent"`
		}
		peer.hear(&at)
		type given struct {
			Receiver      string          `json:"receiver"`
			ID            string          `json:"id"`
			Type          string          `json:"type"`
			Event         json.RawMessage `json:"event"`
			Authorization string          `json:"authorization"`
		}
		next := func() (g given) {
			peer.hear(&g)
			return g
		}

		w.run("github", func(w *world) {
			c := w.connectGitHub("acme")
			scope := object{"payload_mode": "raw", "connection_id": "acme", "retry_schedule_seconds": []float64{}}
			w.subscribe(at.URL+"/github", scope)
			w.subscribe(at.URL+"/stranger", scope, object{"event_types": []string{"push"}})
			for _, example := range octokitExamples(w.t) {
				delivery := id.NewUUID()
				body := string(example.Examples[0])
				uuid := w.deliver(c.pathToken(), githubAs(githubSecret, example.Name, delivery, body)).EventUUID
				g := next()
				require.Equal(w.t, given{"/github", delivery, example.Name, g.Event, ""}, g)
				require.JSONEq(w.t, body, string(g.Event))
				if example.Name != "push" {
					w.awaitEvent(uuid, "forwarded")
					continue
				}
				e := w.awaitEvent(uuid, "dead_letter")
				require.Equal(w.t, http.StatusBadRequest, *e.LastError.HTTPStatus, "the signature is of another secret")
			}
		})
		w.run("sample", func(w *world) {
			var sample sampleSent
			w.call(w.dev(), http.MethodPost, "/connections/github/acme/webhook-sample", object{"event_type": "issues.opened"}).
				want(w, http.StatusCreated).into(w, &sample)
			g := next()
			require.Equal(w.t, given{"/github", sample.SampleID, "issues", g.Event, ""}, g, "GitHub's library verifies it")
		})
		w.run("cloudevents", func(w *world) {
			const token = "a token of thirty-two characters"
			c := w.connect(w.dev(), object{"provider": "cloudevents", "connection_id": "bus", "webhook_secret": token})
			w.subscribe(at.URL+"/cloudevents", object{"payload_mode": "raw", "connection_id": "bus"})
			for _, sent := range at.Sent {
				m := message{http.Header{"Authorization": {"Bearer " + token}}, []byte(sent.Body)}
				for name, value := range sent.Headers {
					m = m.with(name, value)
				}
				w.post(c.pathToken(), m).want(w, http.StatusAccepted)
				g := next()
				require.Equal(w.t, "/cloudevents", g.Receiver)
				require.JSONEq(w.t, string(sent.Event), string(g.Event))
				require.Empty(w.t, g.Authorization)
			}
			for _, e := range w.events("&connection_id=bus") {
				w.awaitEvent(e.EventUUID, "forwarded")
			}
		})
		w.run("slack", func(w *world) {
			const secret = "a secret shared with Slack"
			c := w.connect(w.dev(), object{"provider": "slack", "connection_id": "chat", "webhook_secret": secret})
			w.subscribe(at.URL+"/slack", object{"payload_mode": "raw", "connection_id": "chat",
				"retry_schedule_seconds": []float64{}})
			shapes := slackShapes()
			type taken struct {
				Receiver, Event, Listener string
				Verified                  bool
			}
			hear := func() (got taken) {
				peer.hear(&got)
				return got
			}
			for listener, body := range shapes {
				m := slackSends(w.clk.Now(), secret, body)
				w.post(c.pathToken(), m).want(w, http.StatusOK)
				require.Equal(w.t, taken{"/slack", body, listener, true}, hear())
			}
			for eventType, listener := range map[string]string{
				"app_mention": "event app_mention", "block_actions": "action sample_action",
				"block_suggestion": "options sample_action", "view_submission": "view sample_view",
				"view_closed": "view closed sample_view", "shortcut": "shortcut sample_shortcut",
				"message_action": "shortcut sample_shortcut", "interactive_message": "message sample_action",
				"dialog_submission": "dialog sample_callback", "dialog_suggestion": "options sample_callback",
				"slash_command./deploy": "command /deploy",
			} {
				var sample sampleSent
				w.call(w.dev(), http.MethodPost, "/connections/slack/chat/webhook-sample", object{"event_type": eventType}).
					want(w, http.StatusCreated).into(w, &sample)
				got := hear()
				require.Equal(w.t, taken{"/slack", got.Event, listener, true}, got)
				require.Equal(w.t, eventType == "app_mention", sample.MinimalBody, eventType)
				shapes[sample.SampleID] = got.Event
			}
			list := w.events("&connection_id=chat")
			require.Len(w.t, list, len(shapes))
			for _, e := range list {
				w.awaitEvent(e.EventUUID, "forwarded")
			}
		})
	})
}

// slackShapes are bodies as Slack sends them: an event, an interaction and a command. Each has a verification token.
// The keys are what Slack's library calls.
func slackShapes() map[string]string {
	return map[string]string{
		"event app_mention": `{"token":"XXYYZZ","team_id":"T123ABC456","api_app_id":"A123ABC456",` +
			`"event":{"type":"app_mention",` +
			`"user":"U123ABC456","text":"<@U0LAN0Z89> hello","ts":"1515449522.000016","channel":"C123ABC456",` +
			`"event_ts":"1515449522000016"},"type":"event_callback","event_id":"Ev123ABC456","event_time":1515449522}`,
		"action approve": "payload=" + url.QueryEscape(`{"type":"block_actions","token":"XXYYZZ",`+
			`"trigger_id":"12466734323.1395872398",`+
			`"team":{"id":"T123ABC456"},"user":{"id":"U123ABC456"},"actions":[{"action_id":"approve","type":"button"}]}`),
		"command /weather": "token=XXYYZZ&team_id=T123ABC456&command=%2Fweather&text=94070&user_name=Steve&" +
			"trigger_id=13345224609.738474920",
	}
}

// slackSends makes a request as Slack does.
func slackSends(at time.Time, secret, body string) message {
	kind := "application/x-www-form-urlencoded"
	if strings.HasPrefix(body, "{") {
		kind = "application/json"
	}
	seconds := strconv.FormatInt(at.Unix(), 10)
	return message{http.Header{"Content-Type": {kind}, "User-Agent": {"Slackbot 1.0 (+https://api.slack.com/robots)"},
		"X-Slack-Request-Timestamp": {seconds},
		"X-Slack-Signature":         {"v0=" + hexHMAC(secret, "v0:", seconds, ":", body)}}, []byte(body)}
}
