package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

// keyed is a provider that signs with a key of its own, so that its connections need no secret.
const keyed = `schema: 1
slug: keyed
display_name: Keyed
categories: [crm]
docs_url: https://keyed.example/docs
webhooks:
  setup: Paste the URL.
  params:
    - {name: account, description: The account., pattern: ".+", required: true, example: acct_1}
  scheme: jwt
  body_unsigned: true
  keys: {jwks: {url: "https://keys.example/certs", ttl_s: 600}}
  jwt: {from: "header:x-jwt", algs: [ES256], aud: ["{param:account}"], max_age_s: 300}
  event:
    type: ["{json:/type}"]
`

// The list shows what a connection is good for: its account and mode, and a missing secret only where all webhooks are
// rejected for it. A healthy connection to a provider without webhooks does not look broken.
func TestConnectionsList(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		apiURL, folder := newAcme(t)
		write(t, folder, "keyed.yaml", keyed)
		s := in.serve(t, clock.System(), "--providers-dir", folder)
		r := in.remote(t, s, "connections")
		made := r.run("good-token", "connections", "create", "--provider", "acme", "--connection-id", "octo",
			"--connection-config", "base_url="+apiURL, "--credentials", "token=-")
		require.Equal(t, exitOK, made.code, made.stderr)
		require.NotContains(t, made.stderr, "secret")
		require.Contains(t, r.run("", "connections", "create", "--provider", "github", "--connection-id", "repo").stderr,
			"secrets add github repo")
		made = r.run("", "connections", "create", "--provider", "keyed", "--connection-id", "key",
			"--param", "account=a")
		require.Equal(t, exitOK, made.code, made.stderr)
		require.NotContains(t, made.stderr, "secret")
		r.run("", "connections", "create", "--provider", "acme", "--connection-id", "off",
			"--connection-config", "base_url="+apiURL, "--connect", "--no-wait")
		r.do("connections", "disable", "acme/off")

		listed := r.do("connections", "list")
		for _, want := range []string{`^PROVIDER +CONNECTION +STATUS +AUTH MODE +ACCOUNT +SECRET +WEBHOOK URL$`,
			`^acme +octo +active +bearer +octo$`, `^github +repo +active +none +missing +http\S+$`,
			`^keyed +key +active +none +http\S+$`, `^acme +off +disabled \(.+\) +none$`} {
			require.Regexp(t, "(?m)"+want, listed)
		}
	})
}

// A connection shows its scopes with those that the provider has not granted, failures of refreshes and the next one.
func TestConnectionsShow(t *testing.T) {
	t.Parallel()
	const at = "2026-03-04T05:06:07.000Z"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"provider_config_key": "acme", "connection_id": "octo",
			"status": "error", "status_reason": "token_endpoint_failing", "auth_mode": "oauth2",
			"credentials": map[string]any{"fields": []string{"access_token"}, "stored_at": at, "expires_at": at,
				"last_refreshed_at": at, "next_refresh_at": at, "refresh_failures": 2,
				"last_refresh_error": "the endpoint responded with 503"},
			"scopes": map[string]any{"requested": []string{"read", "write"}, "granted": []string{"read"},
				"missing": []string{"write"}}})
	}))
	await.Close(t, s)
	r := call(command{ctx: t.Context(), clock: clock.System(), args: []string{"connections", "show", "acme/octo"}},
		[]string{"SALLYPORT_SERVER=" + s.URL, "SALLYPORT_API_KEY=k"})
	require.Equal(t, exitOK, r.code, r.stderr)
	for _, want := range []string{"Status         error", "Status reason  token_endpoint_failing",
		"Scopes         read write", "Granted        read", "Not granted    write",
		"Failures       2 refreshes since the last that succeeded",
		"Last failure   the endpoint responded with 503",
		"Refreshed      " + at, "Next refresh   " + at} {
		require.Contains(t, r.out, want+"\n")
	}
}

// A page that cannot offer the provider's first mode, because there is no OAuth client, asks for something else than
// its maker expects. The command says so before the link is sent to anyone.
func TestConnectWithoutClient(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		r := in.remote(t, s, "connections")
		connect := []string{"connections", "create", "--provider", "google", "--connect", "--no-wait"}
		out := r.run("", connect...)
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Contains(t, out.stderr, "warning: the provider configuration google has no OAuth client for oauth2, so the "+
			"page does not offer that. It offers: service_account (")
		require.Contains(t, out.stderr, "sallyport provider-configs create --provider google --client-id ID")
		require.NotContains(t, r.run("", append(connect, "--auth-mode", "service_account")...).stderr, "warning")

		secret := write(t, t.TempDir(), "s", "client-secret") + "/s"
		in.do(t, "provider-configs", "create", "--environment", "production", "--provider", "google", "--key", "mine",
			"--client-id", "c", "--client-secret-file", secret)
		out = r.run("", "connections", "create", "--provider", "mine", "--connect", "--no-wait")
		require.Equal(t, exitOK, out.code, out.stderr)
		require.NotContains(t, out.stderr, "warning")

		// A mode that is none is refused with those that there are.
		out = r.run("", append(connect, "--auth-mode", "oauth")...)
		require.Equal(t, exitUsage, out.code)
		require.Contains(t, out.stderr, "must be a mode of the provider that has credentials: oauth2, service_account")
		require.Equal(t, 1, strings.Count(out.stderr, "auth-mode"), out.stderr)
	})
}
