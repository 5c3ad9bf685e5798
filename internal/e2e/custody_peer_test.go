package e2e_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// custodyDefinition is a provider whose connections have a secret setting and credentials of every mode that they can
// use. A mode that gets tokens from the provider is one more here, and one more row of custodyModes.
const custodyDefinition = `schema: 1
slug: custody
display_name: Custody
categories: [crm]
docs_url: https://example.com/docs
connection_config:
  base_url: {type: url, title: URL, example: "https://api.example.com"}
  tenant: {title: Tenant, secret: true}
  region: {title: Region, optional: true, source: probe}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
request: {headers: {X-Tenant: "${config.tenant}"}}
auth:
  - mode: bearer
  - {mode: api_key, request: {headers: {X-Key: "Key ${cred.api_key}"}}}
  - {mode: api_key, name: api_key_query, request: {query: {key: "${cred.api_key}"}}}
  - mode: basic
  - {mode: aws_sigv4, aws: {region: eu, service: s3}}
  - mode: hmac
    request: {headers: {X-Key-Id: "${cred.key_id}"}}
    signature: {algorithm: sha256, content: "${request.body}", header: X-Signature}
  - mode: oauth2
    authorize_url: "${config.base_url}/authorize"
    token_url: "${config.base_url}/token"
    revoke_url: "${config.base_url}/revoke"
  - mode: oauth1
    request_token_url: "${config.base_url}/request_token"
    authorize_url: "${config.base_url}/authorize"
    token_url: "${config.base_url}/access_token"
  - mode: oauth2_client_credentials
    token_url: "${config.base_url}/token"
    client_auth: basic
    revoke_url: "${config.base_url}/revoke"
  - mode: oauth2_client_credentials
    name: client_body
    token_url: "${config.base_url}/token"
  - mode: oauth2_client_credentials
    name: client_key
    token_url: "${config.base_url}/token"
    client_auth: private_key_jwt
  - mode: jwt_bearer
    token_url: "${config.base_url}/token"
    jwt: {algorithm: RS256, key_id: "${cred.key_id}", iss: custody, sub: "${cred.subject}", aud: "https://example.com"}
  - {mode: service_account, token_url: "${config.base_url}/token"}
  - mode: github_app
    token_url: "${config.base_url}/app/installations/${cred.installation_id}/access_tokens"
    token: {access: /token, default_ttl: 1h}
    revoke:
      method: DELETE
      url: "${config.base_url}/installation/token"
      headers: {Authorization: "Bearer ${cred.access_token}"}
  - mode: session_token
    login: {url: "${config.base_url}/login", json: {username: "${cred.username}", password: "${cred.password}"}}
    token: {default_ttl: 1h}
health:
  probes: [{path: /me, account: {id: /id, label: /login}, config: {region: /region}}]
errors:
  message: /message
  request_id_header: x-request-id
  auth_failed_when: [{status: 401}]
  scope_missing_when: [{status: 403}]
`

// custodyModes are the modes of custodyDefinition with the credentials that a connection is given.
func custodyModes() map[string][]string {
	return map[string][]string{
		"bearer": {"token"}, "api_key": {"api_key"}, "api_key_query": {"api_key"}, "basic": {"username", "password"},
		"aws_sigv4": {"access_key_id", "secret_access_key", "session_token"}, "hmac": {"key_id", "secret"},
		"oauth2": {"access_token", "refresh_token"}, "oauth1": {"token", "token_secret"},
		"oauth2_client_credentials": {"client_id", "client_secret"}, "client_body": {"client_id", "client_secret"},
		"client_key": {"client_id", "key", "key_id"}, "jwt_bearer": {"key", "key_id", "subject"},
		"service_account": {"key", "subject"}, "github_app": {"installation_id"},
		"session_token": {"username", "password"},
	}
}

// exchanges reports whether connections of a mode get their tokens from the provider.
func exchanges(mode string) bool {
	return !slices.Contains([]string{"bearer", "api_key", "api_key_query", "basic", "aws_sigv4", "hmac", "oauth1"}, mode)
}

// custodyConfig is the provider configuration of a mode.
func custodyConfig(mode string) string {
	switch mode {
	case "oauth2", "oauth1":
		return "custody-oauth"
	case "github_app":
		return "custody-app"
	default:
		return "custody"
	}
}

// custodyReplies are how the provider responds, by the first part of the path of its base URL.
func custodyReplies() []string {
	return []string{"ok", "refused", "forbidden", "failing", "redirecting", "quoting", "headers", "text", "broken", "gone"}
}

// repliesTo are the replies to connections of a mode. Those of token endpoints that come to the same are left out.
func repliesTo(mode string) []string {
	if exchanges(mode) {
		return []string{"refused", "forbidden", "failing", "quoting", "headers", "text", "granting"}
	}
	return custodyReplies()
}

// quotes returns everything that the request had, in every form.
func quotes(r *http.Request, body []byte) string {
	var all strings.Builder
	all.WriteString(r.Method + " " + r.URL.RequestURI() + "\n")
	_ = r.Header.Write(&all) // memory
	all.Write(body)
	text := all.String()
	if user, password, ok := r.BasicAuth(); ok {
		text += user + ":" + password + " " + password
	}
	for _, values := range r.Header {
		for _, value := range values {
			_, token, _ := strings.Cut(value, " ")
			text += "\n" + token + "\n" + hex.EncodeToString([]byte(value)) + "\n" + hex.EncodeToString([]byte(token))
			for _, around := range []string{"", "a", "ab"} {
				text += "\n" + base64.StdEncoding.EncodeToString([]byte(around+value)) + "\n" +
					base64.URLEncoding.EncodeToString([]byte(around+token+around))
			}
		}
	}
	return text + "\n" + base64.StdEncoding.EncodeToString([]byte(text)) + url.QueryEscape(text)
}

// newQuotingPeer starts a provider and receiver that quotes everything that it gets, and grants marked tokens.
func newQuotingPeer(t *testing.T, m *marks) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		signatures := m.signed(r, body)
		text := quotes(r, body)
		oneLine := strings.Join(strings.Fields(text), " ")
		reply, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		status := map[string]int{"refused": http.StatusUnauthorized, "forbidden": http.StatusForbidden,
			"failing": http.StatusInternalServerError, "redirecting": http.StatusFound, "broken": http.StatusBadGateway,
			"gone": http.StatusUnauthorized}[reply]
		if status == 0 {
			status = http.StatusOK
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		short := r.Header.Get("Authorization") + " " + r.Header.Get("X-Tenant") + " " + r.URL.RawQuery
		switch reply {
		case "gone":
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 "+short+"\r\n"+oneLine[:min(200, len(oneLine))]+"\r\n\r\n")
				_ = conn.Close()
			}
			return
		case "headers", "redirecting":
			for _, name := range []string{"X-Request-Id", "Www-Authenticate", "X-Debug", "Retry-After"} {
				h.Set(name, short)
			}
			h.Set("Location", "/"+url.QueryEscape(short))
		case "text":
			h.Set("Content-Type", "text/plain")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text) //nolint:gosec // it quotes, as a careless server does
			return
		case "broken":
			h.Set("Content-Length", "1000000")
		}
		w.WriteHeader(status)
		reading := map[string]any{"message": text, "id": 7, "login": "octo", "region": "eu"}
		if reply == "quoting" {
			reading = map[string]any{"message": short, "id": short, "login": oneLine, "region": short}
		}
		if strings.HasSuffix(r.URL.Path, "/me") {
			_ = json.NewEncoder(w).Encode(reading)
			return
		}
		if reply == "granting" {
			token := m.at("a token that the provider has granted")
			maps.Copy(reading, map[string]any{"access_token": token, "token": token, "expires_in": 3600,
				"refresh_token": m.at("a refresh token that the provider has granted"), "scope": "read"})
		} else {
			// Which error it is decides what the gateway does, and how it words it.
			maps.Copy(reading, map[string]any{"error": map[string]string{"refused": "invalid_grant",
				"forbidden": "invalid_client"}[reply], "error_description": signatures + string(body) + short, "error_uri": short})
		}
		_ = json.NewEncoder(w).Encode(reading)
	}))
	await.Close(t, server)
	return server.URL
}

// newRefusingMailServer starts a mail server that refuses every password and quotes it. Its certificate is tls.crt in
// the folder.
func newRefusingMailServer(t *testing.T, folder string) string {
	t.Helper()
	certificate(t, folder)
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	require.NoError(t, err)
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return quotingSession{}, nil }))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}))
	}()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, await.Value(t, "the end of the mail server", ended))
	})
	return l.Addr().String()
}

type quotingSession struct{ mailSession }

// AuthMechanisms names the one that sends the password.
func (quotingSession) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth refuses the password.
func (quotingSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		plain := "\x00" + user + "\x00" + password
		return errors.New("bad password " + password + " of " + base64.StdEncoding.EncodeToString([]byte(plain)))
	}), nil
}
