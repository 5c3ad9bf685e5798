package e2e_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// custody is the real binary, with a marked secret in every place that takes one, and everything that came out of it.
type custody struct {
	*installation
	marks  *marks
	peer   string
	folder string
	key    credentials
	user   credentials

	environment string
	// urls are those of subscriptions, which responses about them show.
	urls []string

	mu   sync.Mutex
	seen map[string]*bytes.Buffer
}

// saw keeps what came out of the process.
func (c *custody) saw(source string, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[source] == nil {
		c.seen[source] = new(bytes.Buffer)
	}
	c.seen[source].Write(text)
	c.seen[source].WriteByte('\n')
}

// Write takes the lines of the server's output.
func (c *custody) Write(p []byte) (int, error) {
	c.saw("the log", p)
	return len(p), nil
}

// send makes a request and keeps the whole response, without the secrets that it is there to show.
func (c *custody) send(as credentials, method, path string, body any, shown ...string) (int, []byte) {
	c.t.Helper()
	var content []byte
	switch b := body.(type) {
	case nil:
	case raw:
		content = []byte(b)
	default:
		var err error
		content, err = json.Marshal(b)
		require.NoError(c.t, err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+prefix+path, bytes.NewReader(content))
	require.NoError(c.t, err)
	r.Header.Set("Content-Type", "application/json")
	as(r.Header)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, resp.Body.Close())
	var fields map[string]any
	_ = json.Unmarshal(text, &fields) // not every response is an object
	kept := string(text)
	for _, name := range shown {
		if secret, ok := fields[name].(string); ok && secret != "" {
			c.marks.made(method+" "+path+" "+name, secret)
			kept = strings.ReplaceAll(kept, secret, "")
		}
	}
	if strings.HasPrefix(path, "/webhook-subscriptions") {
		for _, url := range c.urls {
			kept = strings.ReplaceAll(kept, url, "")
		}
	}
	var header strings.Builder
	_ = resp.Header.Write(&header) // memory
	headers := header.String()
	for _, cookie := range resp.Cookies() {
		if len(cookie.Value) > 8 {
			c.marks.made("cookie of "+path, cookie.Value)
			headers = strings.ReplaceAll(headers, cookie.Value, "")
		}
	}
	c.saw(method+" "+path, []byte(headers+kept))
	return resp.StatusCode, text
}

// made requires that something was created, and returns a property of it.
func (c *custody) made(as credentials, path string, body any, property string, shown ...string) string {
	c.t.Helper()
	status, text := c.send(as, http.MethodPost, path, body, shown...)
	require.Equal(c.t, http.StatusCreated, status, "%s: %s", path, text)
	var fields map[string]any
	require.NoError(c.t, json.Unmarshal(text, &fields))
	return fmt.Sprint(fields[property])
}

// No secret that the service is given or makes leaves it but to the host that it is for: nothing that the process
// writes has one, or half of one, in any form. Not its responses, its logs at the level debug, its metrics and the dump
// of a crash, not the audit trail, events and streams, not its files, a dump of PostgreSQL or a backup. The peers of
// the process quote everything that they get. Excepted are responses that show a secret once, when it is made.
func TestCustody(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		c := newCustody(t, databaseURL, dir)
		_ = c.serve()
		c.enter()
		stream := c.follow()
		c.plantConnections()
		c.plantLinks()
		c.plantConfigs()
		c.plantWebhooks()
		c.plantPeople()
		c.misplace()
		c.read()
		c.watch()
		stream()
		c.crash()
		c.readStores(databaseURL, dir)
		c.search()
	})
}

func newCustody(t *testing.T, databaseURL, dir string) *custody {
	t.Helper()
	m := &marks{}
	c := &custody{marks: m, peer: newQuotingPeer(t, m), folder: t.TempDir(), seen: map[string]*bytes.Buffer{}}
	require.NoError(t, os.Mkdir(filepath.Join(c.folder, "providers"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(c.folder, "providers", "custody.yaml"), []byte(custodyDefinition),
		0o600))
	c.installation = &installation{t: t, binary: testkit.Binary(t), output: c, environ: []string{"SALLYPORT_DATA=" + dir,
		"SALLYPORT_LISTEN=127.0.0.1:0", "SALLYPORT_EGRESS_ALLOW=127.0.0.0/8", "SALLYPORT_EGRESS_ALLOW_HTTP=true",
		"SALLYPORT_LOG_FORMAT=json", "SALLYPORT_LOG_LEVEL=debug", "SALLYPORT_ADMIN_LISTEN=127.0.0.1:0",
		"SALLYPORT_PROVIDERS_DIR=" + filepath.Join(c.folder, "providers"), "SALLYPORT_PUBLIC_URL=http://gateway.example.test",
		"SALLYPORT_SMTP_ADDRESS=" + newRefusingMailServer(t, c.folder), "SALLYPORT_SMTP_TLS=implicit",
		"SSL_CERT_FILE=" + filepath.Join(c.folder, "tls.crt"), "SALLYPORT_SMTP_USER=mailer",
		"SALLYPORT_SMTP_FROM=gateway@example.test", "SALLYPORT_SMTP_PASSWORD=" + c.marks.at("the mail server's password")}}
	// The test uses few keys, and a fast machine would exceed their limit.
	c.environ = append(c.environ, "SALLYPORT_RATE_LIMIT_KEY_PER_SECOND=0")
	if databaseURL != "" {
		c.environ = append(c.environ, "SALLYPORT_DATABASE_URL="+databaseURL)
	}
	c.command("", "keyset", "create")
	c.command("", "migrate")
	return c
}

// enter creates the owner and an API key, and signs the owner in.
func (c *custody) enter() {
	c.t.Helper()
	password := c.marks.at("the owner's password")
	c.saw("admin create", []byte(c.command(password+"\n", "admin", "create", "--email", ownerEmail)))
	var key apiKey
	require.NoError(c.t, json.Unmarshal([]byte(c.command("", "keys", "create", "--name", "k", "--environment",
		"production", "--routes", "connections,webhooks,events", "--json")), &key))
	c.marks.made("an API key", key.Key)
	c.key = byKey(key.Key)
	status, text := c.send(anonymous, http.MethodPost, "/team/login", object{"email": ownerEmail, "password": password},
		"access_token", "refresh_token")
	require.Equal(c.t, http.StatusOK, status, "%s", text)
	var in struct {
		AccessToken string `json:"access_token"`
	}
	require.NoError(c.t, json.Unmarshal(text, &in))
	var environments []struct {
		ID string `json:"id"`
	}
	_, text = c.send(byToken(in.AccessToken, ""), http.MethodGet, "/team/environments", nil)
	require.NoError(c.t, json.Unmarshal(text, &environments))
	require.NotEmpty(c.t, environments)
	c.environment = environments[0].ID
	c.user = byToken(in.AccessToken, c.environment)
	c.send(anonymous, http.MethodPost, "/team/login", object{"email": ownerEmail, "password": password + "x"})
	c.made(c.user, "/team/me/totp", object{"password": password}, "secret", "secret")
	c.send(c.user, http.MethodPost, "/team/me/totp/confirm", object{"code": "000000"})
	c.send(c.user, http.MethodPost, "/team/me/password", object{"current_password": c.marks.at("a wrong password"),
		"new_password": c.marks.at("a new password")})
}

// follow reads the stream of events until the returned function is called.
func (c *custody) follow() (end func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+prefix+streamPath, http.NoBody)
	require.NoError(c.t, err)
	c.key(r.Header)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusOK, resp.StatusCode)
	var text bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(&text, resp.Body) }) // ends with the context
	return func() {
		cancel()
		reading.Wait()
		_ = resp.Body.Close() // its end was wanted
		require.Contains(c.t, text.String(), "event:")
		c.saw("the stream", text.Bytes())
	}
}

// plantConnections gives connections credentials of each mode, against a provider that responds in each way, and uses
// them.
func (c *custody) plantConnections() {
	c.t.Helper()
	key := c.privateKey("a key of connections")
	c.made(c.user, "/provider-configs", object{"provider": "custody", "provider_config_key": "custody-oauth",
		"oauth": object{"client_id": "client-0", "client_secret": c.marks.at("the secret of the client that refreshes"),
			"hosts": []string{c.peer}}}, "provider_config_key")
	c.made(c.user, "/provider-configs", object{"provider": "custody", "provider_config_key": "custody-app",
		"oauth": object{"client_id": "Iv1.0", "private_key": c.privateKey("the key of the app"), "hosts": []string{c.peer}}},
		"provider_config_key")
	credential := func(mode, name, place string) string {
		switch {
		case name == "installation_id":
			return "4242"
		case name == "key" && mode == "service_account":
			file, err := json.Marshal(object{"type": "service_account", "client_email": "a@b.example", "private_key": key,
				"private_key_id": c.marks.at(place)})
			require.NoError(c.t, err)
			return string(file)
		case name == "key":
			return key
		default:
			return c.marks.at(place)
		}
	}
	var work sync.WaitGroup
	for mode, names := range custodyModes() {
		config := custodyConfig(mode)
		work.Go(func() {
			for _, reply := range repliesTo(mode) {
				id, values := strings.ReplaceAll(mode, "_", "-")+"-"+reply, object{}
				for _, name := range names {
					values[name] = credential(mode, name, mode+" "+name+" "+reply)
				}
				body := object{"provider": config, "connection_id": id, "auth_mode": mode, "credentials": values,
					"connection_config": object{"base_url": c.peer + "/" + reply, "tenant": c.marks.at("a secret setting " + id)}}
				c.send(c.key, http.MethodPost, "/connections", body) // the provider may refuse it
				body["test"], body["on_conflict"] = false, "update"
				status, text := c.send(c.key, http.MethodPost, "/connections", body)
				if status != http.StatusCreated && status != http.StatusOK {
					c.t.Errorf("%s: %d %s", id, status, text)
					return
				}
				path := "/connections/" + config + "/" + id
				if exchanges(mode) { // the token endpoint quotes the refresh token and the client
					want := http.StatusConflict
					if reply == "granting" {
						want = http.StatusOK
					}
					status, text := c.send(c.key, http.MethodPost, path, object{"operation": "refresh"})
					if status != want {
						c.t.Errorf("%s: %d %s", id, status, text)
					}
				}
				for range 2 { // two refusals in a row change the state
					c.send(c.key, http.MethodPost, path+"/test", nil)
				}
				c.send(c.key, http.MethodGet, path, nil)
				for _, name := range names {
					values[name] = credential(mode, name, mode+" new "+name+" "+reply)
				}
				c.send(c.key, http.MethodPatch, path, object{"credentials": values})
				c.send(c.key, http.MethodPatch, path, object{"connection_config": object{"base_url": c.peer + "/elsewhere"},
					"tags": object{"a": "b"}})
			}
			c.send(c.key, http.MethodPost, "/connections/"+config+"/"+strings.ReplaceAll(mode, "_", "-")+"-quoting",
				object{"operation": "revoke"})
			c.send(c.key, http.MethodDelete, "/connections/"+config+"/"+strings.ReplaceAll(mode, "_", "-")+"-text", nil)
		})
	}
	work.Wait()
}

// privateKey returns a new key of RSA in PEM.
func (c *custody) privateKey(place string) string {
	c.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(c.t, err)
	text, _ := keyPair(c.t, key)
	c.marks.made(place, strings.Split(text.Reveal(), "\n")[1])
	return text.Reveal()
}

// plantConfigs stores secrets of OAuth clients and of identity providers.
func (c *custody) plantConfigs() {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(c.t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(c.t, err)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	c.marks.made("a private key", strings.Split(text, "\n")[1])
	// Refused as long as no mode with a client can be used; then these are stored.
	c.send(c.user, http.MethodPost, "/provider-configs", object{"provider": "custody", "provider_config_key": "custody-2",
		"oauth": object{"client_id": "client-1", "client_secret": c.marks.at("a client secret"), "private_key": text}})
	c.made(c.user, "/provider-configs", object{"provider": "custody", "provider_config_key": "custody-3"},
		"provider_config_key")
	c.send(c.user, http.MethodPatch, "/provider-configs/custody-3", object{"oauth": object{"client_id": "client-2",
		"client_secret": c.marks.at("a replaced client secret"), "private_key": text}})
	c.send(c.user, http.MethodGet, "/provider-configs/custody-3", nil)
	sso := c.made(c.user, "/team/sso", object{"name": "Company", "issuer": "https://login.example.test",
		"client_id": "sallyport", "client_secret": c.marks.at("an SSO client secret"), "enabled": true}, "id")
	c.send(c.user, http.MethodPost, "/team/sso/"+sso+"/test", nil)
	c.send(anonymous, http.MethodGet, "/team/sso/"+sso+"/start", nil)
	c.send(anonymous, http.MethodGet, "/team/sso/"+sso+"/callback?code="+c.marks.at("an SSO code")+"&state=x", nil)
}

// plantWebhooks stores secrets of webhooks and subscriptions, and sends webhooks that verify and some that do not, to
// receivers that quote what they get.
func (c *custody) plantWebhooks() {
	c.t.Helper()
	secret := c.marks.at("a webhook secret")
	c.made(c.key, "/connections", object{"provider": "gitlab", "connection_id": "repo", "webhook_secret": secret}, "uuid")
	c.made(c.key, "/connections/gitlab/repo/webhook-secrets", object{"secret": c.marks.at("a second webhook secret")},
		"id")
	c.made(c.key, "/connections", object{"provider": "generic-token", "connection_id": "token",
		"webhook_secret": c.marks.at("a token of webhooks")}, "uuid")
	for _, reply := range []string{"text", "headers", "failing", "gone"} {
		url := c.peer + "/" + reply + "/" + c.marks.at("a path, "+reply) + "?token=" + c.marks.at("a token in a URL, "+reply)
		c.urls = append(c.urls, url)
		c.made(c.key, "/webhook-subscriptions", object{"event_types": []string{"*", "sallyport.*"}, "forward_url": url,
			"signing_secret": c.marks.at("a signing secret, " + reply), "retry_schedule_seconds": []float64{},
			"headers": object{"X-Token": c.marks.at("a header, " + reply), "Authorization": "Bearer " +
				c.marks.at("a token, "+reply)}}, "id")
	}
	var list []struct {
		ID string `json:"id"`
	}
	status, text := c.send(c.key, http.MethodGet, "/webhook-subscriptions", nil)
	require.Equal(c.t, http.StatusOK, status)
	require.NoError(c.t, json.Unmarshal(text, &list))
	for _, s := range list {
		path := "/webhook-subscriptions/" + s.ID
		c.send(c.key, http.MethodPatch, path, object{"signing_secret": c.marks.at("a replaced signing secret")})
		c.send(c.key, http.MethodPost, path+"/test", object{"event_type": "a.b", "body": object{"n": 1}})
	}
	body := raw(`{"object_kind":"push","n":1}`)
	as := func(values ...string) credentials {
		return func(h http.Header) {
			h.Set("X-Gitlab-Event", "Push Hook")
			for i := 0; i < len(values); i += 2 {
				h.Set(values[i], values[i+1])
			}
		}
	}
	status, text = c.send(as("X-Gitlab-Token", secret), http.MethodPost, "/webhook/repo", body)
	require.Equal(c.t, http.StatusOK, status, "%s", text)
	var got struct {
		EventUUID string `json:"event_uuid"`
	}
	require.NoError(c.t, json.Unmarshal(text, &got))
	c.send(as("X-Gitlab-Token", secret+"x"), http.MethodPost, "/webhook/repo", body)
	c.send(as("X-Gitlab-Token", secret, "Authorization", "Bearer "+secret), http.MethodPost, "/webhook/repo?token="+secret,
		raw(`{"object_kind":"push","n":2}`))
	c.send(as("X-Gitlab-Token", secret), http.MethodPost, "/webhook/token?token="+secret, body)
	c.send(as("X-Token", secret), http.MethodPost, "/webhook/nothing-here?token="+secret, body)
	await.Condition(c.t, "the receivers have got the event", func() bool {
		_, text := c.send(c.key, http.MethodGet, "/webhook-events/"+got.EventUUID+"/attempts", nil)
		return strings.Count(string(text), `"number":`) >= len(list) || strings.Count(string(text), `"started_at"`) >=
			len(list)
	})
	c.send(c.key, http.MethodPost, "/webhook-events/"+got.EventUUID+"/replay", object{"force": true})
	c.send(c.key, http.MethodGet, "/webhook-events/"+got.EventUUID, nil)
	c.send(c.key, http.MethodGet, "/webhook-events/"+got.EventUUID+"/explain", nil)
}

// plantPeople makes keys, links and mails.
func (c *custody) plantPeople() {
	c.t.Helper()
	for i := range 2 {
		c.made(c.user, "/team/invitations", object{"email": fmt.Sprintf("invited-%d@example.test", i), "role": "viewer",
			"scope": object{"team": true}}, "id", "token")
		c.send(anonymous, http.MethodPost, "/team/password-reset", object{"email": ownerEmail})
	}
	once := func(h http.Header) {
		c.user(h)
		h.Set("Idempotency-Key", "once")
	}
	for range 2 { // the second response is the stored one
		c.made(once, "/api-keys", object{"name": "custody", "environment_id": c.environment,
			"grants": []object{{"effect": "allow", "routes": []string{"events"}}}}, "id", "key", "secret")
	}
	c.send(anonymous, http.MethodPost, "/team/password-reset/complete", object{
		"token": "spr_" + c.marks.at("a reset token"), "new_password": c.marks.at("a password after a reset")})
	c.send(anonymous, http.MethodPost, "/team/invitations/"+c.marks.at("an invitation's token")+"/accept",
		object{"password": c.marks.at("a password of an invitation")})
}

// misplace sends secrets where they do not belong.
func (c *custody) misplace() {
	c.t.Helper()
	at := func(place string) string { return c.marks.at("misplaced: " + place) }
	custodyBody := func(change object) object {
		body := object{"provider": "custody", "connection_id": "misplaced", "auth_mode": "bearer"}
		for name, value := range change {
			body[name] = value
		}
		return body
	}
	for _, body := range []any{
		custodyBody(object{"token": at("an unknown field")}),
		custodyBody(object{"credentials": at("instead of an object")}),
		custodyBody(object{"credentials": []string{at("in a list")}}),
		custodyBody(object{"credentials": object{"token": []string{at("a list as value")}}}),
		custodyBody(object{"credentials": object{"token": object{"x": at("an object as value")}}}),
		custodyBody(object{"credentials": object{"password": at("a credential of another mode")}}),
		custodyBody(object{"credentials": object{"token": at("without a setting")}}),
		custodyBody(object{"credentials": object{"token": strings.Repeat(at("far too long"), 5000)}}),
		custodyBody(object{"credentials": object{"token": at("with a line break") + "\r\nX: y"}, "connection_config": object{
			"base_url": c.peer + "/ok", "tenant": at("next to it")}}),
		custodyBody(object{"credentials": object{"token": at("next to a bad host")}, "connection_config": object{
			"base_url": "https://user:" + at("in user information") + "@evil.com", "tenant": at("next to a bad host")}}),
		custodyBody(object{"webhook_secret": at("for a provider without webhooks")}),
		custodyBody(object{"webhook_secret": 7, "credentials": object{"token": at("next to a wrong type")}}),
		custodyBody(object{"auth_mode": at("as the mode")}),
		custodyBody(object{"tags": at("as the tags")}),
		raw(`{"provider":"custody","credentials":{"token":"` + at("in broken JSON") + `"`),
		raw(`{"credentials":{"token":"` + at("with a bad escape") + `\x"}}`),
		raw(`token=` + at("a form instead of JSON")),
	} {
		status, text := c.send(c.key, http.MethodPost, "/connections", body)
		require.GreaterOrEqual(c.t, status, 400, "%s", text)
	}
	c.send(byKey(at("as the API key")), http.MethodGet, "/connections", nil)
	c.send(byToken(at("as the access token"), ""), http.MethodGet, "/connections", nil)
	c.send(c.key, http.MethodGet, "/connections?token="+at("in the query"), nil)
	c.send(c.key, http.MethodPost, "/webhook-subscriptions", object{"event_types": []string{"*"},
		"forward_url": "ftp://user:" + at("in a bad URL") + "@x", "headers": object{"X Token": at("a bad header")},
		"signing_secret": []string{at("a list of secrets")}})
	c.send(c.user, http.MethodPost, "/provider-configs", object{"provider": "custody", "oauth": object{
		"client_secret": []string{at("a list as client secret")}}})
	c.send(c.user, http.MethodPost, "/team/sso", object{"name": "x", "issuer": "nowhere",
		"client_secret": at("next to a bad issuer")})
	c.send(anonymous, http.MethodPost, "/team/login", object{"email": at("as the address"), "password": at("as password")})
}
