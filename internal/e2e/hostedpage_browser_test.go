package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/config"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// atlas is a provider with a sign-in of its own, and with a key.
const atlas = `schema: 1
slug: atlas
display_name: Atlas CRM
categories: [crm]
docs_url: https://atlas.example/docs
connection_config:
  base_url: {type: url, title: URL, example: "https://api.atlas.example"}
  region:
    title: Region
    description: The region where your account is.
    enum: [Europe, United States]
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
request: {headers: {X-Region: "${config.region}"}}
auth:
  - mode: oauth2
    title: Sign in at Atlas
    description: You decide there what is allowed.
    authorize_url: "${config.base_url}/authorize"
    token_url: "${config.base_url}/token"
    default_scopes: [contacts.read, "https://www.atlas.example/auth/invoices.readonly"]
  - mode: api_key
    title: API key
    description: For accounts without sign-in.
    fields: {api_key: {title: API key, description: "You find it under Settings, API keys.", example: atl_0123456789}}
    request: {headers: {X-Key: "${cred.api_key}"}}
health:
  probes: [{path: /me, account: {id: /id, label: /login}}]
errors: {message: /message}
`

// newAtlas starts the provider and a page of the operator's own, at different addresses, and returns their URLs.
func newAtlas(t *testing.T) (provider, app string) {
	t.Helper()
	const look = `<!doctype html><meta name="viewport" content="width=device-width"><title>Atlas</title><main>`
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/authorize":
			q, back := r.URL.Query(), r.URL.Query().Get("redirect_uri")
			yes := url.Values{"state": {q.Get("state")}, "code": {"c"}}
			no := url.Values{"state": {q.Get("state")}, "error": {"access_denied"},
				"error_description": {"You did not allow the access"}}
			//nolint:gosec // only the gateway of the test asks
			_, _ = fmt.Fprintf(w, look+`<h1>Atlas asks you</h1><a href="%s?%s">Allow</a> <a href="%s?%s">Deny</a></main>`, back,
				yes.Encode(), back, no.Encode())
		case "/token":
			_ = json.NewEncoder(w).Encode(object{"access_token": "good", "token_type": "Bearer", "expires_in": 3600,
				"scope": "contacts.read https://www.atlas.example/auth/invoices.readonly"})
		default:
			if r.Header.Get("X-Key") != "good" && r.Header.Get("Authorization") != "Bearer good" {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, `{"message":"This API key does not exist."}`)
				return
			}
			_, _ = io.WriteString(w, `{"id":7,"login":"ada"}`)
		}
	}))
	await.Close(t, api)
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, look+"<h1>Back in the app</h1></main>")
	}))
	await.Close(t, own)
	return api.URL, strings.Replace(own.URL, "127.0.0.1", "localhost", 1)
}

// seenPages is what connect.mjs has seen.
type seenPages struct {
	Error    string
	Messages []string
	Pages    map[string]struct {
		Title, Text, URL      string
		Width, Spill, Pressed float64
	}
}

// In a real browser without JavaScript a person chooses a way to connect, corrects a form, declines and allows at the
// provider, and comes back to the operator's page, on a screen and on a telephone. The policy of the pages blocks
// nothing, no page is wider than the screen, and what is pressed is large enough for a finger.
func TestHostedPageInABrowser(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	dir, chromium := browserPeer(t)
	provider, app := newAtlas(t)
	onSQLite(t, func(w *world) {
		back := app + "/connected?tab=1"
		w.call(w.user(""), http.MethodPatch, "/team/environments/"+w.env, object{"connect_redirect_urls": []string{back}}).
			want(w, http.StatusOK)
		w.call(w.user(w.env), http.MethodPost, "/provider-configs", object{"provider": "atlas", "oauth": object{
			"client_id": "gateway", "client_secret": "a secret", "hosts": []string{provider}}}).want(w, http.StatusCreated)
		link := func(id, mode string) string {
			body := object{"provider": "atlas", "connection_id": id, "connect": object{"redirect_url": back, "state": "s-1"},
				"connection_config": object{"base_url": provider}}
			if mode != "" {
				body["auth_mode"] = mode
			}
			var made struct {
				ConnectURL string `json:"connect_url"`
			}
			w.call(w.dev(), http.MethodPost, "/connections", body).want(w, http.StatusCreated).into(w, &made)
			return made.ConnectURL
		}
		for kind, task := range map[string]object{"screen": {}, "telephone": {"telephone": true, "dark": true}} {
			byKey, bySignIn := link("key-"+kind, ""), link("oauth-"+kind, "oauth2")
			region := object{"Region": "Europe"}
			steps := []object{
				{"name": "choice", "open": byKey, "heading": "Connect Atlas CRM"},
				{"name": "form", "press": "API key", "heading": "API key"},
				{"name": "missing", "press": "Connect", "heading": "API key"},
				{"name": "refused", "choose": region, "fill": object{"API key": "wrong"}, "press": "Connect", "heading": "API key"},
				{"name": "connected", "fill": object{"API key": "good"}, "press": "Connect", "heading": "Back in the app"},
				{"name": "used", "open": byKey, "heading": "Atlas CRM is connected"},
				{"name": "oauth", "open": bySignIn, "heading": "Connect Atlas CRM"},
				{"name": "provider", "choose": region, "press": "Continue to Atlas CRM", "heading": "Atlas asks you"},
				{"name": "declined", "press": "Deny", "heading": "Not connected"},
				{"name": "back", "press": "Back to", "heading": "Back in the app"},
				{"name": "again", "open": bySignIn, "choose": region, "press": "Continue to Atlas CRM",
					"heading": "Atlas asks you"},
				{"name": "allowed", "press": "Allow", "heading": "Back in the app"},
			}
			task["chromium"], task["folder"], task["steps"] = chromium, os.Getenv("SALLYPORT_SCREENSHOTS"), steps
			peer := startPeer(w.t, dir, "connect.mjs")
			peer.say(task)
			var seen seenPages
			peer.hear(&seen)
			require.Empty(w.t, seen.Error)
			require.Empty(w.t, seen.Messages, "errors and warnings in the console, such as those of the policy")
			width := 1280.0
			if kind == "telephone" {
				width = 390
			}
			for _, s := range steps {
				p := seen.Pages[text(s["name"])]
				require.LessOrEqual(w.t, p.Width, width, "%s: %s is wider than the screen", kind, s["name"])
				require.LessOrEqual(w.t, p.Spill, 0.0, "%s: %s reaches over its card", kind, s["name"])
				// WCAG 2.2, 2.5.8: at least 24 CSS pixels.
				if s["press"] != nil && s["press"] != "Allow" && s["press"] != "Deny" { // those are the provider's
					require.GreaterOrEqual(w.t, p.Pressed, 24.0, "%s: %s", kind, s["name"])
				}
			}
			for name, wants := range map[string][]string{
				"choice":  {"Sign in at Atlas", "For accounts without sign-in.", "Default asks for access to your account"},
				"missing": {"API key is missing.", "Region is missing."},
				"refused": {"This API key does not exist."},
				"used":    {"now has access to your account"},
				"oauth": {"contacts.read", "https://www.atlas.example/auth/invoices.readonly",
					"Afterwards you return to localhost"},
				"declined": {"You did not allow the access", "Try again"},
			} {
				for _, want := range wants {
					require.Contains(w.t, seen.Pages[name].Text, want, "%s: %s", kind, name)
				}
			}
			require.True(w.t, strings.HasPrefix(seen.Pages["missing"].Title, "Error: "), seen.Pages["missing"].Title)
			for name, want := range map[string]string{"connected": "connected", "allowed": "connected", "back": "failed"} {
				at, err := url.Parse(seen.Pages[name].URL)
				require.NoError(w.t, err)
				require.Equal(w.t, want, at.Query().Get("status"), "%s: %s", kind, at)
				require.Equal(w.t, "s-1", at.Query().Get("state"))
				require.Equal(w.t, "1", at.Query().Get("tab"))
			}
		}
	}, func(c *config.Config) {
		// The pages have to be where the browser takes its address for trustworthy.
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		c.Listen, c.PublicURL = l.Addr().String(), "http://"+l.Addr().String()
		require.NoError(t, l.Close())
		c.ProvidersDir = t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(c.ProvidersDir, "atlas.yaml"), []byte(atlas), 0o600))
	})
}
