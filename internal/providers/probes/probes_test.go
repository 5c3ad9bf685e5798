package probes_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/probes"
)

const definition = `
connection_config:
  base_url: {type: url, title: URL, example: "https://api.example.com"}
  app: {title: App, secret: true, optional: true}
  site: {title: Site, optional: true, source: probe}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth:
  - {mode: bearer, request: {headers: {X-App: "${config.app}"}}}
  - mode: basic
health:
  probes: [{path: /me, account: {id: /id, label: /login}, config: {site: /site}}]
errors: {message: /message}
`

// run tests credentials at a server with the given responses.
func run(t *testing.T, mode string, values map[string]secretbox.Secret, respond http.HandlerFunc) probes.Report {
	t.Helper()
	var d outbound.Declaration
	require.NoError(t, yaml.UnmarshalWithOptions([]byte(definition), &d, yaml.Strict()))
	engine, err := outbound.Compile(d)
	require.NoError(t, err)
	server := httptest.NewServer(respond)
	await.Close(t, server)
	config, problems := engine.ResolveConfig(mode, map[string]string{"base_url": server.URL, "app": "app-secret-55"})
	require.Empty(t, problems)
	prober := probes.New(probes.Config{Clock: clock.System(),
		Client: egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{})})
	return prober.Run(t.Context(), engine, outbound.Values{Credentials: values,
		Target: outbound.Target{Mode: mode, Config: config, AllowHTTP: true}})
}

const token = "TOKEN-4f1c9a7e-mark"

func bearer() map[string]secretbox.Secret { return map[string]secretbox.Secret{"token": token} }

// No text of a report has a credential in it, in any form in which a provider may quote it: in the values that are
// taken over, in messages, also where a long message is cut, and in ids of requests.
func TestReportsShowNoCredential(t *testing.T) {
	t.Parallel()
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + token))
	forms := []string{token, hex.EncodeToString([]byte(token)), base64.StdEncoding.EncodeToString([]byte(token)),
		base64.RawURLEncoding.EncodeToString([]byte(token)), basic, "app-secret-55"}
	for name, text := range map[string]string{"plain": forms[0], "hex": forms[1], "base64": forms[2], "basic": basic,
		"setting": "app-secret-55", "long": strings.Repeat("x", 485) + token, "header": "Bearer " + token} {
		for _, status := range []int{http.StatusOK, http.StatusUnauthorized, http.StatusTeapot} {
			for mode, values := range map[string]map[string]secretbox.Secret{"bearer": bearer(),
				"basic": {"username": "me", "password": token}} {
				r := run(t, mode, values, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("X-Request-Id", text)
					w.WriteHeader(status)
					_ = json.NewEncoder(w).Encode(map[string]string{"id": text, "login": text, "site": text, "message": text})
				})
				shown := fmt.Sprintf("%+v", r)
				for _, form := range forms {
					for cut := len(form); cut > len(form)/2; cut-- {
						require.NotContains(t, shown, form[:cut], "%s in %s, status %d", name, mode, status)
					}
				}
			}
		}
	}
}

// Only a provider that refuses the credentials makes them unhealthy.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]probes.Status{http.StatusOK: probes.Healthy,
		http.StatusUnauthorized: probes.Unhealthy, http.StatusFound: probes.Degraded,
		http.StatusTooManyRequests: probes.Degraded,
		http.StatusBadGateway:      probes.Degraded, http.StatusNotFound: probes.Degraded} {
		r := run(t, "bearer", bearer(), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"id":7,"login":"octo"}`))
		})
		require.Equal(t, want, r.Status, status)
		require.Len(t, r.Checks, 1)
		require.Equal(t, "GET /me", r.Checks[0].Probe)
		require.Equal(t, status, r.Checks[0].HTTPStatus)
	}
	r := run(t, "bearer", bearer(), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Repeat("x", 2<<20)))
	})
	require.Equal(t, probes.Degraded, r.Status)
	require.Equal(t, probes.Code(egress.CodeResponseTooLarge), r.Code)
}
