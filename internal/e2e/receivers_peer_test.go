package e2e_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
)

// Receivers that were written for a provider work behind a subscription to raw webhooks, as they work behind the
// provider itself. GitHub's own library verifies GitHub's signature and passes each event on under its type; with
// another secret it refuses. The library of the CloudEvents project reads the event that was sent, in binary mode from
// its headers.
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
	})
}
