package sso_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

// fixture is a Service over a fresh database, with a provider and the owner of the team.
type fixture struct {
	*sso.Service
	store    testkit.Store
	clk      *clock.Manual
	box      *secretbox.Box
	identity *identity.Services
	idp      *testkit.IdP
	owner    access.Principal
}

func each(t *testing.T, fn func(t *testing.T, f fixture)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		t.Helper()
		fn(t, newFixture(t, store))
	})
}

func newFixture(t *testing.T, store testkit.Store) fixture {
	t.Helper()
	f := fixture{store: store, clk: clock.NewManual(time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC))}
	path := filepath.Join(t.TempDir(), "keyset.json")
	require.NoError(t, secretbox.Create(path))
	var err error
	f.box, err = secretbox.Open(secretbox.Source{Path: path})
	require.NoError(t, err)
	f.identity, err = identity.Open(t.Context(), identity.Config{DB: store.DB, Box: f.box, Clock: f.clk,
		Issuer: "https://gateway.example.test"}, false)
	require.NoError(t, err)
	p, err := f.identity.Setup.CreateOwner(t.Context(), access.System("test"), "", "ada@example.test",
		"correct horse battery")
	require.NoError(t, err)
	f.owner = access.Principal{Kind: access.KindUser, ID: p.User.ID, Name: p.User.Email, Team: p.Team.ID, Rights: p.Rights}
	f.Service = f.node(egress.Policy{AllowLoopback: true, AllowHTTP: true})
	f.idp = testkit.NewIdP(t, f.clk.Now)
	return f
}

// admin makes another user, who is an admin.
func (f fixture) admin(t *testing.T) access.Principal {
	t.Helper()
	made, err := f.identity.Setup.CreateOwner(t.Context(), access.System("test"), "", "admin@example.test",
		"correct horse battery")
	require.NoError(t, err)
	list, err := f.identity.Members.ListBindings(t.Context(), f.owner,
		members.BindingFilter{PrincipalIDs: []string{made.User.ID}}, page.Request{Limit: 2})
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, err = f.identity.Members.CreateBinding(t.Context(), f.owner, made.User.ID, members.RoleGrant{Role: access.Admin})
	require.NoError(t, err)
	require.NoError(t, f.identity.Members.DeleteBinding(t.Context(), f.owner, list[0].ID))
	return access.Principal{Kind: access.KindUser, ID: made.User.ID, Name: made.User.Email, Team: made.Team.ID,
		Rights: access.Admin.Rights()}
}

// node is another process on the same database.
func (f fixture) node(p egress.Policy) *sso.Service {
	return f.hasty(p, 0)
}

// hasty is a node that waits for providers that long.
func (f fixture) hasty(p egress.Policy, timeout time.Duration) *sso.Service {
	return sso.New(sso.Config{DB: f.store.DB, Box: f.box, Clock: f.clk, Members: f.identity.Members,
		SignIn: f.identity.SignIn, Egress: egress.New(p, egress.Options{}), Timeout: timeout,
		CallbackURL: func(id string) string {
			return "https://gateway.example.test/callback/" + id
		}})
}

// settings are those of the fixture's provider, under which any person of example.test who is in engineering becomes a
// developer.
func (f fixture) settings() sso.Settings {
	s := sso.Defaults()
	s.Name, s.Issuer, s.ClientID, s.ClientSecret = "Company account", f.idp.URL, f.idp.ClientID,
		secretbox.Secret("a+secret%of:the~client")
	f.idp.ClientSecret = s.ClientSecret.Reveal()
	s.RoleMappings = []sso.RoleMapping{{Group: "engineering", Role: access.Developer}}
	s.AllowedDomains, s.JustInTime = []string{"example.test"}, true
	return s
}

func (f fixture) provider(t *testing.T, change ...func(s *sso.Settings)) sso.Provider {
	t.Helper()
	s := f.settings()
	for _, c := range change {
		c(&s)
	}
	p, err := f.Create(t.Context(), f.owner, s)
	require.NoError(t, err)
	return p
}

func client() access.Client {
	return access.Client{IP: "192.0.2.17", UserAgent: "browser/1.0", RequestID: "request-1"}
}

// browse goes where a sign-in sends the browser, and returns the response with which the provider sends it back.
func browse(t *testing.T, begun sso.Begun) sso.Callback {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, begun.URL, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusFound, resp.StatusCode)
	back, err := url.Parse(resp.Header.Get("Location"))
	require.NoError(t, err)
	q := back.Query()
	return sso.Callback{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error")}
}

// signIn goes all the way.
func (f fixture) signIn(t *testing.T, p sso.Provider) (signin.SignIn, error) {
	t.Helper()
	begun, err := f.Start(t.Context(), p.ID, "/docs")
	require.NoError(t, err)
	in, returnTo, err := f.Finish(t.Context(), client(), p.ID, begun.Browser, browse(t, begun), "")
	if err == nil {
		require.Equal(t, "/docs", returnTo)
	}
	return in, err
}

// person changes who signs in.
func (f fixture) person(claims map[string]any) {
	f.idp.Set(func(b *testkit.Behaviour) { b.Person = claims })
}

func (f fixture) count(t *testing.T, table string) int {
	t.Helper()
	var n int
	require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// roles are those of a person who has signed in.
func roles(in signin.SignIn) []access.Role {
	list := []access.Role{}
	for _, b := range in.Bindings {
		list = append(list, b.Role)
	}
	return list
}

// actions are those of the trail, oldest first.
func (f fixture) actions(t *testing.T) []string {
	t.Helper()
	rows, err := f.store.DB.Read().QueryContext(t.Context(), "SELECT action FROM audit_events ORDER BY id")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var list []string
	for rows.Next() {
		var a string
		require.NoError(t, rows.Scan(&a))
		list = append(list, a)
	}
	require.NoError(t, rows.Err())
	return list
}
