package connections_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/tokens"
)

// fixedAPI is a definition that names the hosts of its API itself: the base URL is at the first of them.
func fixedAPI(base string, allowed ...string) string {
	var hosts strings.Builder
	for _, url := range allowed {
		fmt.Fprintf(&hosts, "%q, ", strings.TrimPrefix(url, "http://"))
	}
	return fmt.Sprintf(`schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
connection_config:
  elsewhere: {type: url, title: URL, optional: true, example: "https://api.acme.example"}
base_url: %q
allowed_hosts: [%s"${config.elsewhere}"]
auth: [{mode: bearer}]
health:
  probes: [{path: /me, account: {id: /id, label: /login}}]
`, base, hosts.String())
}

// A new version of a definition that has its API at another host, which it names itself, takes the stored credentials
// there: operators choose definitions. A base URL of a provider configuration takes them nowhere, nor does its
// removal, and nor does a setting.
func TestNewVersionsOfDefinitionsMayAddHosts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, first, second, own := newWorld(t, s), newProvider(t), newProvider(t), newProvider(t)
		all := []string{first.URL, second.URL, own.URL}
		f := w.newFolder(t, fixedAPI(first.URL, all...))
		w.svc = f.svc
		_, err := f.configs.Create(t.Context(), w.a, configs.NewConfig{Provider: "acme", Key: ptr("acme-own"),
			Change: configs.Change{BaseURL: patch.To(own.URL)}})
		require.NoError(t, err)
		for _, key := range []string{"acme", "acme-own"} {
			in := fixedConnection(key)
			in.Provider = ptr(key)
			w.create(t, w.a, in)
		}
		test := func(key string) (connections.Tested, error) {
			w.clock.Advance(10 * time.Second)
			return connections.NewTester(w.svc).Test(t.Context(), w.a, key, key)
		}
		f.write(fixedAPI(second.URL, all...))
		f.follow()
		for _, key := range []string{"acme", "acme-own"} {
			tested, err := test(key)
			require.NoError(t, err)
			require.Equal(t, connections.Active, tested.Connection.Status)
			require.Equal(t, probes.Healthy, tested.Connection.Health.Status)
		}
		require.Equal(t, 1, second.requests())
		require.Equal(t, 2, own.requests(), "the base URL of the provider configuration stays")
		c, err := w.svc.Update(t.Context(), w.a, "acme", "acme", connections.Change{
			ConnectionConfig: patch.To(map[string]*string{"elsewhere": &own.URL})})
		require.NoError(t, err)
		require.Equal(t, connections.Active, c.Status)

		_, err = f.configs.Update(t.Context(), w.a, "acme-own", configs.Change{BaseURL: patch.Clear[string]()})
		require.NoError(t, err)
		_, err = test("acme-own")
		require.ErrorIs(t, err, tokens.ErrHosts)
		f.write(strings.Replace(fixedAPI(second.URL, all...), fmt.Sprintf("base_url: %q", second.URL),
			`base_url: "${config.elsewhere}"`, 1))
		f.follow()
		_, err = test("acme")
		require.ErrorIs(t, err, tokens.ErrHosts)
		require.Equal(t, 1, second.requests())
		require.Equal(t, 2, own.requests())
	})
}

// A change of a provider configuration's base URL shows with its connections as soon as the worker has looked at them,
// each with an event, whether anyone uses them or not. No byte of the credentials goes to the other host, and the
// former base URL makes them usable again.
func TestMovedBaseURLShows(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, p, other := newWorld(t, s), newProvider(t), newProvider(t)
		seen := w.record()
		f := w.newFolder(t, fixedAPI(p.URL, p.URL, other.URL))
		w.svc = f.svc
		_, err := f.configs.Create(t.Context(), w.a, configs.NewConfig{Provider: "acme"})
		require.NoError(t, err)
		off := w.create(t, w.a, fixedConnection("off"))
		_, err = w.svc.SetStatus(t.Context(), w.a, "acme", "off", connections.Disabled)
		require.NoError(t, err)
		on := w.create(t, w.a, fixedConnection("on"))
		move := func(to patch.Field[string]) {
			t.Helper()
			w.clock.Advance(time.Second)
			_, err := f.configs.Update(t.Context(), w.a, "acme", configs.Change{BaseURL: to})
			require.NoError(t, err)
			w.followConfigs(t)
		}
		move(patch.To(other.URL))
		c := w.read(t, "on")
		require.Equal(t, connections.NeedsReauth, c.Status)
		require.Equal(t, connections.ReasonHostChanged, c.StatusReason)
		require.ElementsMatch(t, []string{on.UUID, off.UUID}, seen(connections.LostCredentials))
		require.Equal(t, connections.Disabled, w.read(t, "off").Status)
		require.Zero(t, other.requests())
		move(patch.Clear[string]())
		require.Equal(t, connections.Active, w.read(t, "on").Status)
		require.ElementsMatch(t, []string{on.UUID, off.UUID}, seen(connections.Recovered))
		require.Equal(t, 2, p.requests(), "only the tests of new credentials have sent something")
	})
}

func fixedConnection(id string) connections.NewConnection {
	in := acmeConnection(id, "", map[string]secretbox.Secret{"token": "good-token"})
	in.ConnectionConfig = patch.Field[map[string]*string]{}
	return in
}
