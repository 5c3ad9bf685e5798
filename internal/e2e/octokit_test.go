package e2e_test

import (
	"compress/gzip"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
)

// octokitExample holds webhooks of one event.
type octokitExample struct {
	Name     string            `json:"name"`
	Examples []json.RawMessage `json:"examples"`
}

// octokitExamples returns webhooks that GitHub sent.
func octokitExamples(t *testing.T) (list []octokitExample) {
	t.Helper()
	file, err := os.Open("testdata/octokit-webhooks-examples.json.gz")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	unpacked, err := gzip.NewReader(file)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(unpacked).Decode(&list))
	return list
}

// GitHub's real webhooks, 329 of 58 events, are verified, get the type and id that its documentation names, and come
// out of the gateway byte for byte.
func TestRealGitHubWebhooks(t *testing.T) {
	t.Parallel()
	events := octokitExamples(t)
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(sink.url, object{"payload_mode": "raw"})
		conn := w.connectGitHub("acme")
		type sent struct{ kind, delivery, body string }
		all := map[string]sent{}
		for _, event := range events {
			for _, example := range event.Examples {
				var fields struct {
					Action string `json:"action"`
				}
				require.NoError(w.t, json.Unmarshal(example, &fields))
				s := sent{event.Name, id.NewUUID(), string(example)}
				if fields.Action != "" {
					s.kind += "." + fields.Action
				}
				a := w.deliver(conn.pathToken(), githubAs(githubSecret, event.Name, s.delivery, s.body))
				require.False(w.t, a.Duplicate)
				all[a.EventUUID] = s
			}
		}
		require.Len(w.t, all, 329)
		for _, got := range sink.wait(w.t, len(all)) {
			s := all[got.header.Get("Webhook-Id")]
			require.Equal(w.t, s.body, string(got.body))
			require.Equal(w.t, s.kind, got.header.Get("Sallyport-Event-Type"))
		}
		for uuid, s := range all {
			e := w.event(uuid)
			require.Equal(w.t, s.kind, e.EventType)
			require.Equal(w.t, s.delivery, e.IdempotencyKey)
			require.Equal(w.t, "header:x-github-delivery", e.IdempotencySource)
		}
	})
}
