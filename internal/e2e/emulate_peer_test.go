package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// emulated is a provider that the peer emulates.
type emulated struct {
	slug, clientID, secret string
	// moved are texts of the shipped definition and what replaces them, so that it leads to the emulator.
	moved []string
	// seed is what the emulator has, without the OAuth client, which is in the list of that name.
	seed    object
	clients string
	// person marks the button of the account, and account is its name; empty if the emulator does not say its id.
	person, account string
	// refreshed is whether the emulator gives refresh tokens, and revoked whether it can revoke.
	refreshed, revoked bool
}

// atEmulator is where an emulator is, in a definition.
const atEmulator = "${config.emulator}"

func emulatedProviders() []emulated {
	ada := []object{{"email": "ada@example.test", "name": "Ada"}}
	return []emulated{
		{slug: "github", clientID: "gh-client", secret: "secret-of-github", clients: "oauth_apps", person: `value="octocat"`,
			account: "octocat",
			moved:   []string{"https://api.github.com", atEmulator, "https://github.com/login/", atEmulator + "/login/"},
			seed: object{"users": []object{{"login": "octocat", "email": "octocat@example.test"}},
				"apps": []object{{"app_id": 12345, "slug": "app", "name": "App",
					"installations": []object{{"installation_id": 100, "account": "octocat"}}}}}},
		{slug: "slack", clientID: "sl-client", secret: "secret-of-slack", clients: "oauth_apps", person: "ada@example.test",
			account: "Team",
			moved:   []string{"https://slack.com/", atEmulator + "/"},
			seed: object{"team": object{"name": "Team", "domain": "team"},
				"users": []object{{"name": "ada", "real_name": "Ada", "email": "ada@example.test"}}}},
		{slug: "google", clientID: "go-client", secret: "secret-of-google", clients: "oauth_clients",
			person: `value="ada@example.test"`, seed: object{"users": ada}, refreshed: true, revoked: true,
			moved: []string{"https://oauth2.googleapis.com/", atEmulator + "/oauth2/", "https://accounts.google.com/",
				atEmulator + "/", "https://www.googleapis.com/oauth2/", atEmulator + "/oauth2/",
				"base_url: https://www.googleapis.com", `base_url: "` + atEmulator + `"`,
				"https://gmail.googleapis.com", atEmulator, "https://sheets.googleapis.com", atEmulator}},
		{slug: "microsoft", clientID: "ms-client", secret: "secret-of-microsoft", clients: "oauth_clients",
			person: `value="ada@example.test"`, account: "ada@example.test", seed: object{"users": ada}, refreshed: true,
			// It has one tenant and one host, and settings have to be used.
			moved: []string{"https://${config.login_host}/${config.tenant}/", atEmulator + "/",
				"\nrequest:\n", "\nrequest:\n  headers: {X-Unused: \"${config.login_host} ${config.tenant}\"}\n",
				`base_url: "https://${config.graph_host}"`, `base_url: "` + atEmulator + `"`}},
		{slug: "linear", clientID: "li-client", secret: "secret-of-linear", clients: "oauth_apps", person: "ada@example.test",
			account: "Ada", seed: object{"users": ada}, refreshed: true, revoked: true,
			moved: []string{"https://api.linear.app", atEmulator, "https://linear.app/oauth/", atEmulator + "/oauth/"}},
	}
}

// definition returns the shipped definition, which leads to the emulator instead of the provider. Nothing else of it is
// changed.
func (e *emulated) definition(t *testing.T) string {
	t.Helper()
	shipped, err := os.ReadFile(filepath.Join("..", "..", "definitions", e.slug+".yaml"))
	require.NoError(t, err)
	text := string(shipped)
	for i := 0; i < len(e.moved); i += 2 {
		require.Contains(t, text, e.moved[i], e.slug)
		text = strings.ReplaceAll(text, e.moved[i], e.moved[i+1])
	}
	text = regexp.MustCompile(`(?m)^( *(?:[a-z]+_)?url): (\$\{config\.emulator\}\S*)$`).ReplaceAllString(text, `$1: "$2"`)
	text = regexp.MustCompile(`(?m)^allowed_hosts: .*$`).ReplaceAllString(text, `allowed_hosts: ["$${config.emulator}"]`)
	const setting = "connection_config:\n  emulator: {type: url, title: Emulator, example: \"https://example.com\"}\n"
	if strings.Contains(text, "\nconnection_config:\n") {
		text = strings.Replace(text, "connection_config:\n", setting, 1)
	} else {
		text = strings.Replace(text, "\nbase_url:", "\n"+setting+"base_url:", 1)
	}
	return text + "replaces_builtin: true\n"
}

// choose submits the form of a page that has a text, as a person does who presses its button.
func (s *surfer) choose(at string, p page, marked string) page {
	s.t.Helper()
	for _, form := range regexp.MustCompile(`(?s)<form.*?</form>`).FindAllString(p.text, -1) {
		if !strings.Contains(form, marked) {
			continue
		}
		values := url.Values{}
		inputs := regexp.MustCompile(`<input[^>]* name="([^"]*)" value="([^"]*)"`)
		for _, input := range inputs.FindAllStringSubmatch(form, -1) {
			values.Set(input[1], input[2])
		}
		action := regexp.MustCompile(`action="([^"]*)"`).FindStringSubmatch(form)
		require.NotEmpty(s.t, action, form)
		from, err := url.Parse(at)
		require.NoError(s.t, err)
		to, err := from.Parse(action[1])
		require.NoError(s.t, err)
		return s.do(http.MethodPost, to.String(), values)
	}
	require.Fail(s.t, "the page has no such form", "%s: %s", marked, p.text)
	return page{}
}

// tested is the outcome of a test of a connection.
type tested struct{ Status, Code string }

// tested tests a connection that may be refused.
func (c *connector) tested(slug, id string) (out tested) {
	c.t.Helper()
	status, body := c.ask(c.key, http.MethodPost, "/connections/"+slug+"/"+id+"/test", object{})
	require.Equal(c.t, http.StatusOK, status, "%s", body)
	require.NoError(c.t, json.Unmarshal(body, &out))
	return out
}

// The shipped definitions of GitHub, Slack, Google, Microsoft and Linear work against the npm package emulate: a person
// connects on the hosted page, the account is found, and tokens are refreshed and revoked where the emulator can. It
// verifies the token of a GitHub App, and gives one for the installation. It gives no refresh tokens for GitHub and
// Slack, revokes neither their tokens nor Microsoft's nor those of installations, and leaves out the id of Google's
// account.
func TestEmulatedProviders(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	peerDir := nodePeer(t, "emulate")
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		all, definitions := emulatedProviders(), map[string]string{}
		for i := range all {
			definitions[all[i].slug] = all[i].definition(t)
		}
		c := newConnector(t, databaseURL, dir, definitions)
		seeds := object{}
		for _, e := range all {
			var config struct {
				OAuth struct {
					RedirectURI string `json:"redirect_uri"`
				} `json:"oauth"`
			}
			text := c.command(e.secret, "provider-configs", "create", "--environment", "production", "--provider", e.slug,
				"--client-id", e.clientID, "--client-secret-file", "-", "--json")
			require.NoError(t, json.Unmarshal([]byte(text), &config), text)
			e.seed[e.clients] = []object{{"client_id": e.clientID, "client_secret": e.secret, "name": "Gateway",
				"redirect_uris": []string{config.OAuth.RedirectURI}}}
			seeds[e.slug] = e.seed
		}
		peer := startPeer(t, peerDir, "peer.mjs")
		peer.say(seeds)
		var at map[string]struct {
			URL     string                             `json:"url"`
			Secrets []struct{ Kind, ID, Value string } `json:"secrets"`
		}
		peer.hear(&at)
		for _, e := range all {
			c.command(e.secret, "provider-configs", "update", e.slug, "--environment", "production", "--client-secret-file", "-",
				"--oauth-host", at[e.slug].URL)
		}
		github := at["github"]
		require.Len(t, github.Secrets, 1)
		c.command(github.Secrets[0].Value, "provider-configs", "create", "--environment", "production", "--provider",
			"github", "--key", "github-app", "--client-id", "12345", "--private-key-file", "-", "--oauth-host", github.URL)
		defer c.serve()()
		c.reach()
		for _, e := range all {
			emulator := at[e.slug].URL
			link := c.about("create", "--provider", e.slug, "--connection-id", "ada", "--auth-mode", "oauth2", "--connect",
				"--connection-config", "emulator="+emulator).ConnectURL
			browser := newSurfer(t, c.base)
			signIn := browser.authorize(link, "oauth2")
			connected := browser.choose(emulator, signIn, e.person)
			require.Contains(t, connected.text, "is connected", e.slug)
			made := c.about("show", e.slug, "ada")
			require.Equal(t, "active", made.Status, e.slug)
			require.Equal(t, e.account, made.Account.Label, e.slug)
			require.Equal(t, "healthy", c.tested(e.slug, "ada").Status, e.slug)
			if e.refreshed {
				c.pass(databaseURL, dir, false)
				refreshed := c.about("refresh", e.slug, "ada")
				require.NotEqual(t, made.Credentials.Fingerprint, refreshed.Credentials.Fingerprint, e.slug)
				require.Equal(t, "active", refreshed.Status)
			}
			if e.revoked {
				c.command("", "connections", "revoke", e.slug, "ada", "--yes")
			}
			c.command("", "connections", "delete", e.slug, "ada")
		}

		made := c.withCredential("installation_id", "100", "create", "--provider", "github-app", "--connection-id", "app",
			"--auth-mode", "github_app", "--connection-config", "emulator="+github.URL)
		require.Equal(t, "active", made.Status)
		c.pass(databaseURL, dir, false)
		require.NotEqual(t, made.Credentials.Fingerprint, c.about("refresh", "github-app", "app").Credentials.Fingerprint)
	})
}

// emulatedKey is a mode of a shipped definition with credentials that the emulator of its provider has.
type emulatedKey struct {
	slug, mode string
	// account is its name; empty if none is shown.
	account string
	// given are the credentials, and config the settings besides the emulator.
	given, config object
	// wrong are credentials that the emulator refuses; nil if it takes any.
	wrong object
}

func emulatedKeys() []emulatedKey {
	const sid, key = "AC0000000000000000000000000000000a", "SK0000000000000000000000000000000a"
	return []emulatedKey{
		{slug: "linear", mode: "api_key", account: "Ada", given: object{"api_key": "lin_api_00000000000000sample"}},
		// The account has the user name as its id, and nothing is shown of a response that has a credential in it.
		{slug: "twilio", mode: "basic", given: object{"username": sid, "password": "token-of-twilio"},
			wrong: object{"username": sid, "password": "another-token"}},
		{slug: "twilio", mode: "api_key", given: object{"username": key, "password": "secret-of-key"},
			config: object{"account_sid": sid}, wrong: object{"username": key, "password": "another-secret"}},
	}
}

// The probes of the shipped definitions of Linear and Twilio find that good keys are healthy, and that keys which the
// provider refuses with 401 are not: these are not stored, and a connection that has them
// all the same is unhealthy. The emulator takes any token for Linear. It has AWS and Stripe, too, without the requests
// of their probes.
func TestEmulatedKeys(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	peerDir := nodePeer(t, "emulate")
	twilio := emulated{slug: "twilio", moved: []string{`base_url: "https://${config.host}"`,
		`base_url: "` + atEmulator + `"`,
		"https://oauth.twilio.com/", atEmulator + "/oauth/",
		"\nhealth:\n", "\nrequest: {headers: {X-Unused: \"${config.host}\"}}\nhealth:\n"}}
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		definitions := map[string]string{"twilio": twilio.definition(t)}
		for _, e := range emulatedProviders() {
			if e.slug == "linear" {
				definitions[e.slug] = e.definition(t)
			}
		}
		c := newConnector(t, databaseURL, dir, definitions)
		peer := startPeer(t, peerDir, "peer.mjs")
		keys := emulatedKeys()
		peer.say(object{
			"linear": object{"users": []object{{"email": "ada@example.test", "name": "Ada", "admin": true}},
				"tokens": []object{{"token": keys[0].given["api_key"], "user": "ada@example.test", "scopes": []string{"read"}}}},
			"twilio": object{"account": object{"sid": keys[1].given["username"], "auth_token": keys[1].given["password"],
				"friendly_name": "Local"}, "phone_numbers": []object{{"phone_number": "+15551234567"}},
				"api_keys": []object{{"sid": keys[2].given["username"], "secret": keys[2].given["password"]}}},
		})
		var at map[string]struct {
			URL string `json:"url"`
		}
		peer.hear(&at)
		defer c.serve()()
		c.reach()
		for _, k := range keys {
			config := object{"emulator": at[k.slug].URL}
			for name, value := range k.config {
				config[name] = value
			}
			body := object{"provider": k.slug, "connection_id": k.mode, "auth_mode": k.mode, "connection_config": config,
				"credentials": k.given}
			status, text := c.ask(c.key, http.MethodPost, "/connections", body)
			require.Equal(t, http.StatusCreated, status, "%s %s: %s", k.slug, k.mode, text)
			var made connectable
			require.NoError(t, json.Unmarshal(text, &made))
			require.Equal(t, "active", made.Status)
			require.Equal(t, k.account, made.Account.Label, "%s", k.slug)
			require.Equal(t, tested{"healthy", "ok"}, c.tested(k.slug, k.mode), "%s %s", k.slug, k.mode)
			if k.wrong == nil {
				continue
			}
			body["connection_id"], body["credentials"] = k.mode+"-wrong", k.wrong
			status, text = c.ask(c.key, http.MethodPost, "/connections", body)
			require.Equal(t, http.StatusUnprocessableEntity, status, "%s", text)
			require.Contains(t, string(text), "invalid_credentials")
			body["test"] = false
			status, text = c.ask(c.key, http.MethodPost, "/connections", body)
			require.Equal(t, http.StatusCreated, status, "%s", text)
			require.Equal(t, "unhealthy", c.tested(k.slug, k.mode+"-wrong").Status, "%s %s", k.slug, k.mode)
		}
	})
}
