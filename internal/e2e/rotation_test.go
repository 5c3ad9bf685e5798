package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

// verifies reports whether a receiver that holds the secret accepts the forward.
func verifies(w *world, secret string, got received) bool {
	w.t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(w.t, err)
	return verifier.VerifyIgnoringTimestamp(got.body, got.header) == nil
}

// While a replaced secret still signs, a receiver with either secret verifies every forward, retry, replay and test.
// After its end only one with the new secret does. The reader of the subscription sees until when.
func TestRotationOfASigningSecret(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const older, newer = "whsec_b2xkZXIgb2xkZXIgb2xkZXIgb2xkZXIg", "whsec_bmV3ZXIgbmV3ZXIgbmV3ZXIgbmV3ZXIg"
		conn := w.connectGitHub("acme")
		sink := newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(sink.url, object{"signing_secret": older})
		item := "/webhook-subscriptions/" + sub.ID
		var read struct {
			Hint     string `json:"signing_secret_hint"`
			Retiring []struct {
				Hint       string    `json:"hint"`
				SignsUntil time.Time `json:"signs_until"`
			} `json:"retiring_signing_secrets"`
		}
		uuid := w.fresh(conn.pathToken(), github(issueOpened))
		got := sink.wait(w.t, 1)
		require.True(w.t, verifies(w, older, got[0]))
		w.awaitEvent(uuid, "forwarded")

		w.call(w.dev(), http.MethodPatch, item, object{"signing_secret": newer, "secret_grace_seconds": 600}).want(w,
			http.StatusOK).into(w, &read)
		require.Equal(w.t, newer[len(newer)-4:], read.Hint)
		require.Len(w.t, read.Retiring, 1)
		require.Equal(w.t, older[len(older)-4:], read.Retiring[0].Hint)
		require.Equal(w.t, w.clk.Now().Add(600*time.Second).Truncate(time.Millisecond), read.Retiring[0].SignsUntil)

		w.call(w.dev(), http.MethodPost, "/webhook-events/"+uuid+"/replay", object{"force": true}).want(w,
			http.StatusAccepted)
		sink.wait(w.t, 2)
		w.fresh(conn.pathToken(), github(issueOpened))
		sink.wait(w.t, 3)
		w.call(w.dev(), http.MethodPost, item+"/test", object{}).want(w, http.StatusOK)
		for _, r := range sink.wait(w.t, 4)[1:] {
			signatures := strings.Split(r.header.Get("Webhook-Signature"), " ")
			require.Len(w.t, signatures, 2)
			require.True(w.t, verifies(w, older, r))
			require.True(w.t, verifies(w, newer, r))
			r.header.Set("Webhook-Signature", signatures[0])
			require.True(w.t, verifies(w, newer, r), "the newest comes first")
		}

		w.clk.Advance(600 * time.Second)
		w.fresh(conn.pathToken(), github(issueOpened))
		last := sink.wait(w.t, 5)[4]
		require.False(w.t, verifies(w, older, last))
		require.True(w.t, verifies(w, newer, last))
		w.call(w.dev(), http.MethodGet, item, nil).want(w, http.StatusOK).into(w, &read)
		require.Empty(w.t, read.Retiring)
		require.Equal(w.t, []string{"body.secret_grace_seconds unknown_field"}, w.call(w.dev(), http.MethodPost,
			"/webhook-subscriptions", object{"event_types": []string{"*"}, "forward_url": sink.url,
				"secret_grace_seconds": 1}).violations(w))

		// One that the server generates is in no later response.
		var generated struct {
			SigningSecret string `json:"signing_secret"`
		}
		a := w.call(w.dev(), http.MethodPatch, item, object{"signing_secret": nil, "secret_grace_seconds": 0})
		a.want(w, http.StatusOK).into(w, &generated)
		require.Equal(w.t, "no-store", a.header.Get("Cache-Control"))
		w.fresh(conn.pathToken(), github(issueOpened))
		last = sink.wait(w.t, 6)[5]
		require.True(w.t, verifies(w, generated.SigningSecret, last))
		require.False(w.t, verifies(w, newer, last))
		for _, later := range []response{w.call(w.dev(), http.MethodGet, item, nil),
			w.call(w.dev(), http.MethodPatch, item, object{"description": "d"})} {
			later.want(w, http.StatusOK)
			require.NotContains(w.t, string(later.body), `"signing_secret":`)
		}
		for _, text := range []string{older, newer, generated.SigningSecret} {
			require.NotContains(w.t, w.logs.String(), text[len("whsec_"):])
		}
	})
}
