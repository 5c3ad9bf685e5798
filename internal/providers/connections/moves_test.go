package connections_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/connections"
)

// Credentials that were given for https are not sent over http, also not to the same host and port.
func TestUnencryptedIsAnotherHost(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		in := acmeConnection("acme-1", strings.Replace(p.URL, "http:", "https:", 1), bearer("good-token"))
		in.Untested = true
		require.Equal(t, connections.Active, w.create(t, w.a, in).Status)
		c, err := w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
			ConnectionConfig: patch.To(map[string]*string{"base_url": &p.URL})})
		require.NoError(t, err)
		require.Equal(t, connections.ReasonHostChanged, c.StatusReason)
		_, err = connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.Zero(t, p.requests())
	})
}

// Credentials are not sent to a host that another request has set while they were tested.
func TestCredentialsDoNotFollowAnother(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p, other := newWorld(t, s).withAPI(t), newProvider(t), newProvider(t)
		var once sync.Once
		second := w.newFolder(t, api).svc // as another process has it
		slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Authorization"), "new-token") {
				once.Do(func() { //nolint:contextcheck // the change is another request's
					_, err := second.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
						ConnectionConfig: patch.To(map[string]*string{"base_url": &other.URL})})
					require.NoError(t, err)
				})
			}
			p.ServeHTTP(rw, r)
		}))
		await.Close(t, slow)
		w.create(t, w.a, acmeConnection("acme-1", slow.URL, bearer("good-token")))
		p.set(func(p *provider) { p.token = "new-token" })
		_, err := w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
			Credentials: patch.To(connections.Credentials{Values: bearer("new-token")})})
		requireCode(t, apperr.CodePreconditionFailed, err)
		require.Zero(t, other.requests())
		c, err := w.svc.Get(t.Context(), w.a.View(), "acme", "acme-1")
		require.NoError(t, err)
		require.Equal(t, connections.ReasonHostChanged, c.StatusReason)
	})
}

// Refused credentials stay refused when a setting leads elsewhere and back.
func TestRefusalOutlivesAMove(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p, other := newWorld(t, s).withAPI(t), newProvider(t), newProvider(t)
		w.create(t, w.a, acmeConnection("acme-1", p.URL, bearer("good-token")))
		p.set(func(p *provider) { p.token = "another" })
		for range 2 {
			w.clock.Advance(time.Minute)
			_, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
			require.NoError(t, err)
		}
		for _, to := range []string{other.URL, p.URL} {
			_, err := w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
				ConnectionConfig: patch.To(map[string]*string{"base_url": &to})})
			require.NoError(t, err)
		}
		c, err := w.svc.Get(t.Context(), w.a.View(), "acme", "acme-1")
		require.NoError(t, err)
		require.Equal(t, connections.NeedsReauth, c.Status)
		require.Equal(t, connections.ReasonCredentialsRefused, c.StatusReason)
	})
}

// Settings can be changed while a secret among them is stored, and it stays with the credentials.
func TestSettingsNextToAStoredSecret(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s), newProvider(t)
		w.svc = w.newFolder(t, strings.Replace(api, "optional: true, secret: true", "secret: true", 1)).svc
		in := acmeConnection("acme-1", p.URL, map[string]secretbox.Secret{"username": "me", "password": "good-token"})
		in.ConnectionConfig.Value["tenant"] = ptr("tenant-secret")
		w.create(t, w.a, in)
		c, err := w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{
			ConnectionConfig: patch.To(map[string]*string{"region": ptr("us")})})
		require.NoError(t, err)
		require.Equal(t, connections.Active, c.Status)
		require.Equal(t, "us", c.Config["region"])
		require.NotContains(t, c.Config, "tenant")
		require.Contains(t, c.Credentials.Fields, "config.tenant")
		mode := connections.NoAuth
		_, err = w.svc.Update(t.Context(), w.a, "acme", "acme-1", connections.Change{AuthMode: &mode})
		require.Contains(t, violations(t, err), "auth_mode coherent")
	})
}

// A test of credentials that are replaced meanwhile changes nothing, and says so.
func TestTestOfReplacedCredentials(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p := newWorld(t, s).withAPI(t), newProvider(t)
		testing, failed := false, error(nil)
		slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if testing {
				_, failed = w.svc.Update(r.Context(), w.a, "acme", "acme-1", connections.Change{
					Credentials: patch.To(connections.Credentials{Values: bearer("good-token")}), Untested: true})
			}
			p.ServeHTTP(rw, r)
		}))
		await.Close(t, slow)
		w.create(t, w.a, acmeConnection("acme-1", slow.URL, bearer("good-token")))
		w.clock.Advance(time.Minute)
		testing = true
		_, err := connections.NewTester(w.svc).Test(t.Context(), w.a, "acme", "acme-1")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.NoError(t, failed)
		c, err := w.svc.Get(t.Context(), w.a.View(), "acme", "acme-1")
		require.NoError(t, err)
		require.Nil(t, c.Health)
	})
}
