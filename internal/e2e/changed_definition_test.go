package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit/await"
)

// deskDefinition is an operator's own definition with an API.
const deskDefinition = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
connection_config:
  base_url: {type: url, title: URL, example: "https://api.example.com"}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth:
  - mode: bearer
health:
  probes: [{path: /me, account: {id: /id, label: /name}}]
actions:
  inline:
    list_tickets: {title: List tickets, method: GET, path: /tickets}
`

// deskAPI is the API of the definition. It accepts one token, and says at which path it was called.
func deskAPI(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object{"id": 7, "name": "Support at " + r.URL.Path})
	}))
	await.Close(t, server)
	return server.URL
}

// Connections go on while the definition of their provider changes. A new version with another probe applies to them,
// and one that is not valid changes nothing. Where a version needs what a connection does not have, or no longer knows
// what it has, requests of the connection are refused and say which setting is meant, until one of them is changed.
// The credentials stay in all of that.
func TestDefinitionsChangeUnderConnections(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		api := deskAPI(t)
		w.call(w.dev(), http.MethodPost, "/connections", object{"provider": "acme", "connection_id": "shop",
			"connection_config": object{"base_url": api}, "credentials": object{"token": "good"}}).want(w, http.StatusCreated)
		test := func() response {
			w.t.Helper()
			w.clk.Advance(10 * time.Second) // so that the outcome is not that of the last test
			return w.call(w.dev(), http.MethodPost, "/connections/acme/shop/test", object{})
		}
		healthy := func(path string) {
			w.t.Helper()
			body := string(test().want(w, http.StatusOK).body)
			require.Contains(w.t, body, `"status":"healthy"`)
			require.Contains(w.t, body, `"label":"Support at `+path+`"`)
		}
		become := func(text, logged string) {
			w.t.Helper()
			before := len(w.logs.String())
			w.define(text)
			w.ticking(logged, func() bool { return strings.Contains(w.logs.String()[before:], logged) })
		}
		const replaced, rejected = "replaced by a new version", "provider definition rejected"
		changed := func(before, after string) string {
			w.t.Helper()
			require.Contains(w.t, deskDefinition, before)
			return strings.Replace(deskDefinition, before, after, 1)
		}
		healthy("/me")

		become(changed("path: /me", "path: /whoami"), replaced)
		healthy("/whoami")
		require.NotContains(w.t, w.logs.String(), "do not fit", "the provider has no webhooks that a version could verify")

		become(changed("method: GET", "method: FETCH"), rejected)
		require.Contains(w.t, w.logs.String(), `"field":"actions.inline.list_tickets.method","reason":"must be one of GET`)
		healthy("/whoami")

		team := strings.Replace(changed("connection_config:\n", "connection_config:\n  team: {title: Team, example: blue}\n"),
			`base_url: "${config.base_url}"`, `base_url: "${config.base_url}/${config.team}"`, 1)
		become(team, replaced)
		refused := test().refused(w, http.StatusConflict, apperr.CodeConnectionNotReady)
		require.Contains(w.t, refused.Error.Message, "do not fit the provider's definition: connection_config.team ")
		become(deskDefinition, replaced)
		healthy("/me")
		become(team, replaced)
		w.call(w.dev(), http.MethodPatch, "/connections/acme/shop",
			object{"connection_config": object{"base_url": api, "team": "blue"}}).want(w, http.StatusOK)
		healthy("/blue/me")

		become(changed("  - mode: bearer", "  - mode: bearer\n    name: token"), replaced)
		refused = test().refused(w, http.StatusConflict, apperr.CodeConnectionNotReady)
		require.Contains(w.t, refused.Error.Message, "mode is not a mode of this provider")

		become(deskDefinition, replaced)
		refused = test().refused(w, http.StatusConflict, apperr.CodeConnectionNotReady)
		require.Contains(w.t, refused.Error.Message, "connection_config.team is not a field of this provider")
		w.call(w.dev(), http.MethodPatch, "/connections/acme/shop",
			object{"connection_config": object{"team": nil}}).want(w, http.StatusOK)
		healthy("/me")
	}, definitionsFolder(deskDefinition))
}
