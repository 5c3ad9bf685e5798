package connections_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/probes"
)

// api is a definition without webhooks. Its API is where the connection says.
const api = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
connection_config:
  base_url: {type: url, title: URL, example: "https://api.acme.example"}
  region: {title: Region, optional: true, source: probe}
  tenant: {title: Tenant, optional: true, secret: true}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth:
  - mode: bearer
  - mode: basic
    request: {headers: {X-Tenant: "${config.tenant}"}}
  - mode: api_key
    request: {headers: {X-Key: "${cred.api_key}"}}
health:
  probes: [{path: /me, account: {id: /id, label: /login}, config: {region: /region}}]
errors: {message: /message}
`

// provider is a server of the provider that accepts one token.
type provider struct {
	*httptest.Server

	mu     sync.Mutex
	token  string
	status int // instead of what follows from the token, unless 0
	header http.Header
	calls  []http.Header
	before func() // is called before each response, unless it is nil
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{token: "good-token"}
	p.Server = httptest.NewServer(p)
	await.Close(t, p.Server)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	before := p.before
	p.mu.Unlock()
	if before != nil {
		before()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, r.Header.Clone())
	for name, values := range p.header {
		w.Header()[name] = values
	}
	given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if given == r.Header.Get("Authorization") {
		given = r.Header.Get("X-Key")
		if _, password, ok := r.BasicAuth(); ok {
			given = password
		}
	}
	switch {
	case p.status != 0:
		w.WriteHeader(p.status)
	case given != p.token:
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]string{"message": "bad token " + given})
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"id": 7, "login": "octo", "region": "eu"})
	}
}

func (p *provider) set(change func(p *provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *provider) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

// withAPI gives the world a definition of a provider whose API can be called.
func (w *world) withAPI(t testing.TB) *world {
	t.Helper()
	w.svc = w.newFolder(t, api).svc
	return w
}

func acmeConnection(connectionID, baseURL string, values map[string]secretbox.Secret) connections.NewConnection {
	slug := "acme"
	return connections.NewConnection{Provider: &slug, ConnectionID: &connectionID, Change: connections.Change{
		Credentials:      patch.To(connections.Credentials{Values: values}),
		ConnectionConfig: patch.To(map[string]*string{"base_url": &baseURL})}}
}

// violations returns the validation errors of an error, each as its location and rule.
func violations(t *testing.T, err error) []string {
	t.Helper()
	requireCode(t, apperr.CodeValidation, err)
	var e *apperr.Error
	require.ErrorAs(t, err, &e)
	var out []string
	for _, d := range e.Details {
		out = append(out, d.Location+" "+d.Rule)
	}
	return out
}

func bearer(token string) map[string]secretbox.Secret {
	return map[string]secretbox.Secret{"token": secretbox.Secret(token)}
}

// Credentials are tested before they are stored, and the connection shows the account and never the values.
func TestCreateWithCredentials(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		c := w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		require.Equal(t, connections.Active, c.Status)
		require.Equal(t, "bearer", c.AuthMode)
		require.Equal(t, outbound.Account{ID: "7", Label: "octo"}, c.Account)
		require.Equal(t, map[string]string{"base_url": p.URL, "region": "eu"}, c.Config)
		require.Equal(t, []string{"token"}, c.Credentials.Fields)
		require.Equal(t, []string{p.URL}, c.Credentials.Hosts)
		require.Equal(t, probes.Healthy, c.Health.Status)
		require.Nil(t, c.Alias, "nothing can be delivered to it")

		got, err := w.svc.Get(t.Context(), w.a.View(), "acme", "acme-1")
		require.NoError(t, err)
		require.Equal(t, c, got)
		list, err := w.svc.List(t.Context(), w.a.View(), connections.Filter{}, page.Request{Limit: 10})
		require.NoError(t, err)
		require.Equal(t, []connections.Connection{c}, list)
		require.Equal(t, 1, p.requests())
	})
}

// Refused credentials leave nothing behind. The words of the provider are shown without the credentials that it quotes.
func TestRefusedCredentialsAreNotStored(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		_, _, err := w.svc.Create(t.Context(), w.a, acmeConnection("acme-1", p.URL, bearer("wrong-token")))
		requireCode(t, apperr.CodeInvalidCredentials, err)
		require.NotContains(t, err.Error(), "wrong-token")
		require.Contains(t, err.Error(), "[redacted]")
		require.Zero(t, count(t, w, "SELECT count(*) FROM connections"))
		require.Zero(t, count(t, w, "SELECT count(*) FROM connection_credential_values"))

		good := w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		_, err = w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
			Credentials: patch.To(connections.Credentials{Values: bearer("wrong-token")})})
		requireCode(t, apperr.CodeInvalidCredentials, err)
		got, err := w.svc.Get(t.Context(), w.a.View(), "acme", "acme-1")
		require.NoError(t, err)
		require.Equal(t, good, got)
	})
}

// A provider that is away proves nothing: credentials are stored, and their health says why it is not known.
func TestProviderThatIsAway(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		p.set(func(p *provider) { p.status = http.StatusBadGateway })
		c := w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		require.Equal(t, connections.Active, c.Status)
		require.Equal(t, probes.Degraded, c.Health.Status)
		require.Equal(t, probes.CodeProviderError, c.Health.Code)
		p.Close()
		c = w.create(t, w.a, acmeConnection("acme-2", p.URL, bearer("good-token")))
		require.Equal(t, probes.Code("connection_refused"), c.Health.Code)
		untested := acmeConnection("acme-3", p.URL, bearer("good-token"))
		untested.Untested = true
		c = w.create(t, w.a, untested)
		require.Nil(t, c.Health)
		require.NotNil(t, c.Credentials)
	})
}

// Credentials are for the mode that is named, or for the first that they fit.
func TestModes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		for mode, values := range map[string]map[string]secretbox.Secret{
			"bearer": bearer("good-token"), "api_key": {"api_key": "good-token"},
			"basic": {"username": "me", "password": "good-token"},
		} {
			require.Equal(t, mode, w.create(t, w.a, acmeConnection(mode, p.URL, values)).AuthMode)
		}
		for name, change := range map[string]struct {
			mode   string
			values map[string]secretbox.Secret
			want   []string
		}{
			"unknown mode":    {"oauth2", bearer("x"), []string{"auth_mode enum"}},
			"none":            {"none", bearer("x"), []string{"auth_mode coherent"}},
			"another's names": {"api_key", bearer("x"), []string{"credentials.api_key required", "credentials.token outbound"}},
			"missing":         {"", map[string]secretbox.Secret{"username": "me"}, []string{"credentials.password required"}},
			"nothing":         {"", nil, []string{"credentials.token required"}},
		} {
			in := acmeConnection("bad", p.URL, change.values)
			if change.mode != "" {
				in.AuthMode = &change.mode
			}
			_, _, err := w.svc.Create(t.Context(), w.a, in)
			require.ElementsMatch(t, change.want, violations(t, err), name)
		}
		slug := "acme"
		_, _, err := w.svc.Create(t.Context(), w.a, connections.NewConnection{Provider: &slug})
		require.Equal(t, []string{"credentials required"}, violations(t, err))
		require.Equal(t, 3, p.requests())
	})
}

// Values of connection_config that would lead credentials to another host are refused, and nothing is sent anywhere.
func TestHostileSettings(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		for _, text := range []string{"", "evil.com#", "a.b@c", p.URL + "@evil.example", "https://a b", "ftp://x.example",
			"https://user@x.example", "https://[::1", "https://x.example/../y", "https://例え.example", "https://x.example?q",
			"javascript:alert(1)"} {
			_, _, err := w.svc.Create(t.Context(), w.a, acmeConnection("bad", text, bearer("good-token")))
			require.NotEmpty(t, violations(t, err), text)
		}
		unknown := acmeConnection("bad", p.URL, bearer("good-token"))
		unknown.ConnectionConfig.Value["other"] = ptr("x")
		_, _, err := w.svc.Create(t.Context(), w.a, unknown)
		require.Equal(t, []string{"connection_config.other outbound"}, violations(t, err))
		require.Zero(t, p.requests())
	})
}

// Settings lead to no address to which no request may go: neither with credentials nor alone, as a change, or without a
// test. A name is accepted; where it leads shows with each request.
func TestSettingsLeadToNoPrivateAddress(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		get := func() connections.Connection {
			c, err := w.svc.Get(t.Context(), access.Whole(w.a.Environment), "acme", "acme-1")
			require.NoError(t, err)
			return c
		}
		before := get()
		for _, to := range []string{"http://169.254.169.254/latest", "https://10.0.0.1:8443", "https://[fd00::1]/v1",
			"https://[::ffff:192.168.0.1]"} {
			in := acmeConnection("acme-2", to, bearer("good-token"))
			in.Untested = true
			_, _, err := w.svc.Create(t.Context(), w.a, in)
			require.Equal(t, []string{"connection_config.base_url target_refused"}, violations(t, err), to)
			_, err = w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
				ConnectionConfig: patch.To(map[string]*string{"base_url": &to})})
			require.Equal(t, []string{"connection_config.base_url target_refused"}, violations(t, err), to)
		}
		require.Equal(t, before, get())
		in := acmeConnection("acme-3", "https://api.nowhere.invalid", bearer("good-token"))
		in.Untested = true
		w.create(t, w.a, in)
	})
}

// Stored credentials never go to another host than those they were given for: a connection whose settings would send
// them elsewhere needs them again, and its test makes no request.
func TestCredentialsBelongToTheirHosts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p, other := newWorld(t, s).withAPI(t), newProvider(t), newProvider(t)
		w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		move := func(to string) connections.Connection {
			c, err := w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
				ConnectionConfig: patch.To(map[string]*string{"base_url": &to})})
			require.NoError(t, err)
			return c
		}
		c := move(other.URL)
		require.Equal(t, connections.NeedsReauth, c.Status)
		require.Equal(t, connections.ReasonHostChanged, c.StatusReason)
		w.clock.Advance(time.Minute)
		_, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.Zero(t, other.requests())

		require.Equal(t, connections.Active, move(p.URL).Status, "they are for this host")
		require.Equal(t, connections.NeedsReauth, move(other.URL).Status)
		c, err = w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
			Credentials: patch.To(connections.Credentials{Values: bearer("good-token")})})
		require.NoError(t, err)
		require.Equal(t, connections.Active, c.Status)
		require.Equal(t, []string{other.URL}, c.Credentials.Hosts)
		require.Equal(t, 1, other.requests())
	})
}

// Credentials can be removed where the connection has another purpose, and secrets of the settings come and go with
// them.
func TestRemoveCredentials(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		in := acmeConnection("acme-1", p.URL, map[string]secretbox.Secret{"username": "me", "password": "good-token"})
		in.ConnectionConfig.Value["tenant"] = ptr("tenant-secret")
		c := w.create(t, w.a, in)
		require.Equal(t, []string{"config.tenant", "password", "username"}, c.Credentials.Fields)
		require.NotContains(t, c.Config, "tenant")
		p.set(func(p *provider) { require.Equal(t, "tenant-secret", p.calls[0].Get("X-Tenant")) })
		w.clock.Advance(time.Minute)
		_, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
		require.NoError(t, err)
		p.set(func(p *provider) { require.Equal(t, "tenant-secret", p.calls[1].Get("X-Tenant")) })

		_, err = w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
			ConnectionConfig: patch.To(map[string]*string{"tenant": ptr("another")})})
		require.Equal(t, []string{"connection_config.tenant coherent"}, violations(t, err))
		c, err = w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
			Credentials: patch.Clear[connections.Credentials]()})
		require.NoError(t, err)
		require.Nil(t, c.Credentials)
		require.Nil(t, c.Health)
		require.Equal(t, connections.NoAuth, c.AuthMode)
		require.Zero(t, count(t, w, "SELECT count(*) FROM connection_credential_values"))
		_, err = connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
		requireCode(t, apperr.CodeConnectionNotReady, err)
	})
}

// A change of another request during the test of credentials is not overwritten: the test is made again with it.
func TestChangeDuringTheTest(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		before := w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		var once sync.Once
		slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			once.Do(func() { //nolint:contextcheck // the change is another request's
				_, err := w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
					Tags: patch.To(map[string]*string{"team": ptr("billing")})})
				require.NoError(t, err)
			})
			p.ServeHTTP(rw, r)
		}))
		await.Close(t, slow)
		change := connections.Change{Credentials: patch.To(connections.Credentials{Values: bearer("good-token")}),
			ConnectionConfig: patch.To(map[string]*string{"base_url": &slow.URL})}
		c, err := w.svc.Update(t.Context(), w.a, "acme", "acme-1", change)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"team": "billing"}, c.Tags)
		require.Equal(t, slow.URL, c.Config["base_url"])
		require.Equal(t, 3, p.requests(), "one to create, and two tests")
		only, err := etag.Parse([]string{string(before.Version())})
		require.NoError(t, err)
		_, err = w.svc.Update(etag.WithIfMatch(t.Context(), only), w.a, "acme", "acme-1", change)
		requireCode(t, apperr.CodePreconditionFailed, err)
		require.Equal(t, 3, p.requests(), "nothing is sent for a version that is gone")
	})
}

// An environment neither sees nor tests nor changes the credentials of another, and a key only those of connections
// that it may use.
func TestCredentialsOfOthers(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		before := w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		bounded := w.a
		bounded.Connections = access.Only("other")
		for _, who := range []access.Principal{w.b, bounded} {
			w.clock.Advance(time.Minute)
			_, err := connections.NewTester(w.svc).Test(t.Context(), who, "acme", "acme-1")
			requireCode(t, apperr.CodeNotFound, err)
			_, err = w.svc.Update(t.Context(), who, "acme", "acme-1", connections.Change{
				Credentials: patch.To(connections.Credentials{Values: bearer("good-token")})})
			requireCode(t, apperr.CodeNotFound, err)
		}
		after, err := w.svc.Get(t.Context(), w.a.View(), "acme", "acme-1")
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.Equal(t, 1, p.requests())
	})
}
