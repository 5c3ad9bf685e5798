package sso_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"maps"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

func engineer(groups ...string) map[string]any {
	return map[string]any{"sub": "person-1", "email": "Grace@Example.test", "email_verified": true, "groups": groups}
}

// The groups that a person is in when they sign in decide which roles the provider gives them: a group that is
// gone takes its role along, in sessions that there are too, and what people gave stays.
func TestGroupsGiveRoles(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		environments, err := f.identity.Team.Environments(t.Context(), access.System("test"))
		require.NoError(t, err)
		development := environments[0].ID
		p := f.provider(t, func(s *sso.Settings) {
			s.RoleMappings = []sso.RoleMapping{
				{Group: "engineering", Role: access.Developer, Environment: development}, {Group: "leads", Role: access.Admin},
				{Group: sso.AllUsers, Role: access.Viewer},
			}
		})
		f.person(engineer("engineering", "leads", "unknown"))
		first, err := f.signIn(t, p)
		require.NoError(t, err)
		require.ElementsMatch(t, []access.Role{access.Developer, access.Admin, access.Viewer}, roles(first))
		require.Equal(t, "grace@example.test", first.User.Email)
		require.Equal(t, []string{"sso"}, first.Session.Methods())
		for _, b := range first.Bindings {
			require.Equal(t, b.Role == access.Developer, b.Environment == development, b.Role)
		}
		who, err := f.identity.Principals.Bearer(t.Context(), first.Token.Reveal())
		require.NoError(t, err)
		require.True(t, who.Has(access.TeamWrite))

		// A user gives the person a role that a group gives too, and another that none gives.
		f.bind(t, first.User.ID, access.Auditor)
		f.person(engineer())
		second, err := f.signIn(t, p)
		require.NoError(t, err)
		require.ElementsMatch(t, []access.Role{access.Viewer, access.Auditor}, roles(second))
		who, err = f.identity.Principals.Bearer(t.Context(), first.Token.Reveal())
		require.NoError(t, err)
		require.False(t, who.Has(access.TeamWrite), "the other session has lost the role too")

		f.person(engineer("leads"))
		_, err = f.signIn(t, p)
		require.NoError(t, err)
		require.Equal(t, 1, f.count(t, "user_identities"))
		require.NoError(t, f.Delete(t.Context(), f.owner, p.ID))
		who, err = f.identity.Principals.Bearer(t.Context(), second.Token.Reveal())
		require.NoError(t, err)
		require.False(t, who.Has(access.TeamWrite), "the provider is gone, and so are its roles")
		require.True(t, who.Has(access.AuditExport), "what people gave stays")
		require.Subset(t, f.actions(t), []string{"sso_provider.create", "user.create", "role_binding.create",
			"role_binding.delete", "session.create", "sso_provider.delete"})
	})
}

// bind gives a role as a person would.
func (f fixture) bind(t *testing.T, user string, role access.Role) {
	t.Helper()
	_, err := f.store.DB.Write().ExecContext(t.Context(), `INSERT INTO role_bindings (id, team_id, principal_type,
			principal_id, role, created_ms)
		VALUES ('rbd_00000000000000000000000000', $1, 'user', $2, $3, 1)`, f.owner.Team, user, role)
	require.NoError(t, err)
}

// Only people whom the provider's settings permit get in, and only into their own account. Issuer and subject identify
// a person. An address opens the account of a user only where an owner has permitted it, and once.
func TestPermittedSignIns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		ada := maps.Clone(engineer("engineering"))
		ada["email"] = "ada@example.test"
		closed := f.provider(t, func(s *sso.Settings) { s.JustInTime = false })
		open := f.provider(t)
		refused := func(code apperr.Code, p sso.Provider) {
			t.Helper()
			users, sessions := f.count(t, "users"), f.count(t, "sessions")
			_, err := f.signIn(t, p)
			require.True(t, apperr.Is(err, code), "%v", err)
			require.Equal(t, users, f.count(t, "users"))
			require.Equal(t, sessions, f.count(t, "sessions"))
			require.Zero(t, f.count(t, "user_identities"))
		}
		f.person(engineer("engineering"))
		refused(apperr.CodeSSONotMember, closed)
		f.person(engineer("sales"))
		refused(apperr.CodeSSONotMember, open) // there is no role for them
		f.person(ada)
		refused(apperr.CodeSSOAccountExists, closed)
		refused(apperr.CodeSSOAccountExists, open)

		linking := f.provider(t, func(s *sso.Settings) { s.LinkExisting = true })
		in, err := f.signIn(t, linking)
		require.NoError(t, err)
		require.Equal(t, f.owner.ID, in.User.ID)
		require.Contains(t, f.actions(t), "user.link_identity")
		_, err = f.signIn(t, closed)
		require.NoError(t, err, "who they are does not hang on the provider's settings")
		moved := maps.Clone(ada)
		moved["email"] = "ada.lovelace@example.test"
		f.person(moved)
		in, err = f.signIn(t, closed)
		require.NoError(t, err)
		require.Equal(t, f.owner.ID, in.User.ID, "another address is the same person")
		successor := maps.Clone(ada)
		successor["sub"] = "person-2"
		f.person(successor)
		_, err = f.signIn(t, linking)
		require.True(t, apperr.Is(err, apperr.CodeSSOAccountExists), "who has the address now is somebody else: %v", err)

		admin := f.admin(t)
		_, err = f.store.DB.Write().ExecContext(t.Context(), "DELETE FROM memberships WHERE user_id = $1", f.owner.ID)
		require.NoError(t, err)
		f.person(ada)
		_, err = f.signIn(t, open)
		require.True(t, apperr.Is(err, apperr.CodeSSONotMember), "who was removed does not come back by themselves: %v", err)

		off := false
		p, err := f.Update(t.Context(), admin, open.ID, sso.Change{Apply: func(s *sso.Settings) { s.Enabled = off }})
		require.NoError(t, err)
		_, err = f.Start(t.Context(), p.ID, "/docs")
		require.True(t, apperr.Is(err, apperr.CodeNotFound), "%v", err)
	})
}

// A person who signs in for the first time in many windows at the same time becomes one user.
func TestSimultaneousFirstSignIns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		var all sync.WaitGroup
		errs := make(chan error, 5)
		for range cap(errs) {
			begun, err := f.Start(t.Context(), p.ID, "/docs")
			require.NoError(t, err)
			callback := browse(t, begun)
			all.Go(func() {
				_, _, err := f.Finish(t.Context(), client(), p.ID, begun.Browser, callback, "")
				errs <- err
			})
		}
		all.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, 2, f.count(t, "users"))
		require.Equal(t, 5, f.count(t, "sessions"))
		require.Equal(t, 2, f.count(t, "role_bindings"))
	})
}

// A sign-in creates a session of its own, also when the browser brought a refresh token. It ends that token's session,
// and leaves a user who has no password.
func TestSessionsOfSignIns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		before, err := f.identity.SignIn.Login(t.Context(), client(), signin.Credentials{Email: "ada@example.test",
			Password: "correct horse battery"}, "")
		require.NoError(t, err)
		begun, err := f.Start(t.Context(), p.ID, "/docs")
		require.NoError(t, err)
		in, _, err := f.Finish(t.Context(), client(), p.ID, begun.Browser, browse(t, begun), before.Refresh)
		require.NoError(t, err)
		require.NotEqual(t, before.Session.ID, in.Session.ID)
		_, err = f.identity.Principals.Bearer(t.Context(), before.Token.Reveal())
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "%v", err)
		_, err = f.identity.SignIn.Refresh(t.Context(), client(), in.Refresh)
		require.NoError(t, err)
		for _, password := range []secretbox.Secret{"", "correct horse battery", "\x00"} {
			_, err = f.identity.SignIn.Login(t.Context(), client(), signin.Credentials{Email: "grace@example.test",
				Password: password}, "")
			require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "%v", err)
		}
	})
}

// Keys that a provider has changed are asked for when a token names one, and not at every token that names
// any.
func TestKeysThatRotate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		_, err := f.signIn(t, p)
		require.NoError(t, err)
		require.Equal(t, 1, f.idp.Asked("/keys"))
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		f.idp.Rotate(key, "second")
		_, err = f.signIn(t, p)
		require.Error(t, err, "asked for just now")
		f.clk.Advance(31 * time.Second)
		_, err = f.signIn(t, p)
		require.NoError(t, err)
		require.Equal(t, 2, f.idp.Asked("/keys"))
	})
}

// Claims that are missing in the ID token come from the userinfo endpoint, where many providers put them.
func TestUserinfo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		f.idp.Set(func(b *testkit.Behaviour) {
			b.Claims = func(c map[string]any) {
				delete(c, "email")
				delete(c, "email_verified")
				delete(c, "groups")
			}
		})
		in, err := f.signIn(t, p)
		require.NoError(t, err)
		require.Equal(t, []access.Role{access.Developer}, roles(in))
		require.Equal(t, 1, f.idp.Asked("/userinfo"))

		// The address of one place is not verified by the other.
		f.idp.Set(func(b *testkit.Behaviour) {
			b.Person["email_verified"] = false
			b.Claims = func(c map[string]any) { delete(c, "email"); c["email_verified"] = true }
		})
		_, err = f.signIn(t, p)
		require.ErrorContains(t, err, "has not verified")
	})
}

// No one grants rights through a provider that they do not have. No provider can grant the role owner, and only a user
// with every right can let a provider sign in existing users, also by changing one that may.
func TestProvidersEscalateNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		admin := f.admin(t)
		settings := func(change func(s *sso.Settings)) sso.Settings {
			s := f.settings()
			change(&s)
			return s
		}
		escalates := func(err error) {
			t.Helper()
			require.True(t, apperr.Is(err, apperr.CodePrivilegeEscalation), "%v", err)
		}
		_, err := f.Create(t.Context(), admin, f.settings())
		require.NoError(t, err)
		auditors := settings(func(s *sso.Settings) { s.RoleMappings = []sso.RoleMapping{{Group: "g", Role: access.Auditor}} })
		_, err = f.Create(t.Context(), admin, auditors)
		escalates(err) // an admin may not export the trail
		linking := settings(func(s *sso.Settings) { s.LinkExisting = true })
		_, err = f.Create(t.Context(), admin, linking)
		escalates(err)
		for _, s := range []sso.Settings{auditors, linking} {
			p, err := f.Create(t.Context(), f.owner, s)
			require.NoError(t, err)
			_, err = f.Update(t.Context(), admin, p.ID, sso.Change{Apply: func(s *sso.Settings) {
				s.Issuer = "https://mine.example.test"
			}})
			escalates(err)
		}
		_, err = f.Create(t.Context(), f.owner, settings(func(s *sso.Settings) {
			s.RoleMappings = []sso.RoleMapping{{Group: "g", Role: access.Owner}}
		}))
		require.True(t, apperr.Is(err, apperr.CodeValidation), "%v", err)
		for _, m := range []sso.RoleMapping{{Group: "g", Role: "emperor"}, {Group: "g", Role: access.Viewer,
			Environment: "env_00000000000000000000000000"}} {
			_, err = f.Create(t.Context(), f.owner, settings(func(s *sso.Settings) { s.RoleMappings = []sso.RoleMapping{m} }))
			require.True(t, apperr.Is(err, apperr.CodeValidation), "%v", err)
		}
	})
}

// A provider belongs to its team. Its secret is sealed, appears in no response and no trail, and goes to no other
// issuer than the one that it was given for.
func TestProvidersAndSecrets(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		require.Empty(t, p.ClientSecret)
		require.True(t, p.HasSecret())
		stored, err := f.Get(t.Context(), f.owner, p.ID)
		require.NoError(t, err)
		require.Equal(t, p, stored)
		stranger := f.owner
		stranger.Team = "team_00000000000000000000000000"
		nothing := sso.Change{Apply: func(*sso.Settings) {}}
		_, err = f.Get(t.Context(), stranger, p.ID)
		require.True(t, apperr.Is(err, apperr.CodeNotFound), "%v", err)
		_, err = f.Update(t.Context(), stranger, p.ID, nothing)
		require.True(t, apperr.Is(err, apperr.CodeNotFound), "%v", err)
		require.True(t, apperr.Is(f.Delete(t.Context(), stranger, p.ID), apperr.CodeNotFound))
		list, err := f.List(t.Context(), stranger, page.Request{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, list)

		events := f.count(t, "audit_events")
		_, err = f.Update(t.Context(), f.owner, p.ID, nothing)
		require.NoError(t, err)
		require.Equal(t, events, f.count(t, "audit_events"), "nothing has changed")
		_, err = f.Update(t.Context(), f.owner, p.ID, sso.Change{Apply: func(s *sso.Settings) {
			s.Issuer = "https://elsewhere.example.test"
		}})
		require.True(t, apperr.Is(err, apperr.CodeValidation), "%v", err)
		secret := secretbox.Secret("another")
		_, err = f.Update(t.Context(), f.owner, p.ID, sso.Change{Apply: func(s *sso.Settings) {
			s.Issuer = "https://elsewhere.example.test"
		}, Secret: &secret})
		require.NoError(t, err)
		var kept int
		require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(),
			"SELECT count(*) FROM audit_events WHERE changes LIKE '%the~client%' OR changes LIKE '%another\"%'").Scan(&kept))
		require.Zero(t, kept)

		for range sso.MaxProviders - 1 {
			f.provider(t)
		}
		_, err = f.Create(t.Context(), f.owner, f.settings())
		require.True(t, apperr.Is(err, apperr.CodeSSOProvidersLimit), "%v", err)

		fresh := f.node(egress.Policy{})
		_, err = fresh.Create(t.Context(), f.owner, sso.Settings{Issuer: "http://127.0.0.1", Scopes: []string{"a b"},
			GroupsClaim: "ü", JustInTime: true, LinkExisting: true, RoleMappings: []sso.RoleMapping{{Role: access.Viewer},
				{Role: access.Viewer}}})
		var invalid *apperr.Error
		require.ErrorAs(t, err, &invalid)
		var locations []string
		for _, d := range invalid.Details {
			locations = append(locations, d.Location)
		}
		require.Equal(t, []string{"name", "issuer", "client_id", "scopes", "scopes[0]", "groups_claim",
			"role_mappings[0].group", "role_mappings[1].group", "role_mappings[1]", "just_in_time", "link_existing"}, locations)
	})
}

// A sign-in leads back to a page of this service, regardless of the link: no accepted path names another host to any
// reader.
func TestReturnPaths(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/docs", "/console/?a=b&c=%2F#d", "/a/b%20c"} {
		require.True(t, sso.ValidReturnTo(path), path)
	}
	for _, path := range []string{
		"", "docs", "//example.test", "/\\example.test", "\\\\example.test", "https://example.test", "javascript:alert(1)",
		"/\t/example.test", "/ /x", "/a//b", "/../x", "/a/./b", "/%2e%2e/x", "/%5cexample.test", "/ü", "/a\nSet-Cookie: b=c",
		"/%zz", "/" + strings.Repeat("a", sso.MaxReturnTo),
	} {
		require.False(t, sso.ValidReturnTo(path), path)
	}
	base, err := url.Parse("https://gateway.example.test/api/v1/team/sso/x/callback")
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.StringOf(rapid.SampledFrom([]rune("/\\.:?#@%2f5ceaé\t "))).Draw(t, "path")
		if !sso.ValidReturnTo(path) {
			return
		}
		to, err := base.Parse(path)
		require.NoError(t, err)
		require.Equal(t, "https://gateway.example.test", to.Scheme+"://"+to.Host)
		// Browsers read a backslash as a slash.
		to, err = base.Parse(strings.ReplaceAll(path, `\`, "/"))
		require.NoError(t, err)
		require.Equal(t, "gateway.example.test", to.Host)
	})
}
