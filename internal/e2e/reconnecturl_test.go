package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A connection that a person has to connect again shows the URL of a page for that, to callers who may write
// connections and to no one else: the one who has it gives the connection an account. The page keeps the connection's
// id.
func TestReconnectURL(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		type shown struct {
			UUID         string  `json:"uuid"`
			Status       string  `json:"status"`
			ReconnectURL *string `json:"reconnect_url"`
			ExpiresAt    *string `json:"reconnect_expires_at"`
		}
		const path = "/connections/http/c"
		seenBy := func(by credentials) (of shown) {
			w.t.Helper()
			w.call(by, http.MethodGet, path, nil).want(w, http.StatusOK).into(w, &of)
			var list []shown
			w.call(by, http.MethodGet, "/connections?provider=http", nil).want(w, http.StatusOK).into(w, &list)
			require.Equal(w.t, []shown{of}, list)
			require.Equal(w.t, of.ReconnectURL == nil, of.ExpiresAt == nil)
			return of
		}
		w.call(w.dev(), http.MethodPost, "/connections", object{"provider": "http", "connection_id": "c",
			"auth_mode": "bearer", "connection_config": object{"base_url": "https://api.example.com"},
			"credentials": object{"token": "the-first-token"}}).want(w, http.StatusCreated)
		require.Nil(w.t, seenBy(w.dev()).ReconnectURL, "it works")
		w.call(w.dev(), http.MethodPost, path, object{"operation": "revoke"}).want(w, http.StatusOK)

		before := seenBy(w.dev())
		require.Equal(w.t, "revoked", before.Status)
		require.NotNil(w.t, before.ReconnectURL)
		require.True(w.t, strings.HasPrefix(*before.ReconnectURL, publicURL+"/connect/"), *before.ReconnectURL)
		require.Equal(w.t, before, seenBy(w.user(w.env)))
		bounded := object{"effect": "allow", "routes": []string{"connections"}, "connections": []string{"c"}}
		require.Equal(w.t, before, seenBy(byKey(w.newKey(w.env, bounded).Key)))
		for _, role := range []string{"viewer", "auditor"} {
			token := w.member(w.team(), role+"@example.test", role)
			require.Nil(w.t, seenBy(byToken(token, w.env)).ReconnectURL, role)
		}

		b := w.browser()
		require.Contains(w.t, b.post(*before.ReconnectURL+"?mode=bearer").text, asksForKey)
		page := b.post(*before.ReconnectURL, "mode", "bearer", "credential.token", "the-second-token")
		require.Equal(w.t, http.StatusOK, page.status, page.text)
		after := seenBy(w.dev())
		require.Equal(w.t, shown{UUID: before.UUID, Status: "active"}, after)
	})
}
