package sso_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/members"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit"
)

// One identity provider has no say about the people of another. Neither the address nor the subject of a person who
// signed in with the first opens their account through the second, not even in letters that only look alike, and its
// keys sign nothing for the first.
func TestOneProviderSpeaksForItselfAlone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		kim := map[string]any{"sub": "person-1", "email": "kim@example.test", "email_verified": true,
			"groups": []string{"engineering"}}
		company := f.provider(t)
		f.person(kim)
		in, err := f.signIn(t, company)
		require.NoError(t, err)

		theirs := testkit.NewIdP(t, f.clk.Now)
		settings := f.settings()
		settings.Issuer, theirs.ClientSecret = theirs.URL, settings.ClientSecret.Reveal()
		other, err := f.Create(t.Context(), f.owner, settings)
		require.NoError(t, err)
		trusted := settings
		trusted.LinkExisting = true
		linking, err := f.Create(t.Context(), f.owner, trusted)
		require.NoError(t, err)
		says := func(sub, email string) {
			theirs.Set(func(b *testkit.Behaviour) {
				b.Person = maps.Clone(kim)
				b.Person["sub"], b.Person["email"] = sub, email
			})
		}
		says("person-1", "kim@example.test")
		_, err = f.signIn(t, other)
		require.True(t, apperr.Is(err, apperr.CodeSSOAccountExists), "%v", err)
		// Two letters whose lower case is inside ASCII: the kelvin sign, and the capital I with a dot.
		for _, alike := range []string{"\u212aim@example.test", "k\u0130m@example.test"} {
			says("person-9", alike)
			_, err = f.signIn(t, linking)
			require.True(t, apperr.Is(err, apperr.CodeSSONotMember), "%v", err)
		}
		says("person-1", "mallory@example.test")
		stranger, err := f.signIn(t, other)
		require.NoError(t, err)
		require.NotEqual(t, in.User.ID, stranger.User.ID, "a subject is somebody only together with its issuer")

		// A token that the second provider has made in the name of the first.
		theirs.Set(func(b *testkit.Behaviour) { b.Claims = func(c map[string]any) { c["iss"] = f.idp.URL } })
		_, err = f.signIn(t, other)
		require.ErrorContains(t, err, "another issuer")
		f.idp.Set(func(b *testkit.Behaviour) { b.Sign = theirs.Signed })
		_, err = f.signIn(t, company)
		require.ErrorContains(t, err, "signature")
	})
}

// An owner who signs in by an identity provider whose groups give nothing any more stays an owner, and so does
// the team's last one: what people gave is none of the provider's business.
func TestProvidersTakeNoOwner(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t, func(s *sso.Settings) { s.LinkExisting = true })
		f.person(map[string]any{"sub": "person-1", "email": "ada@example.test", "email_verified": true,
			"groups": []string{"engineering"}})
		in, err := f.signIn(t, p)
		require.NoError(t, err)
		require.ElementsMatch(t, []access.Role{access.Owner, access.Developer}, roles(in))
		f.person(map[string]any{"sub": "person-1", "email": "ada@example.test", "email_verified": true, "groups": []string{}})
		in, err = f.signIn(t, p)
		require.NoError(t, err)
		require.Equal(t, []access.Role{access.Owner}, roles(in))
		require.NoError(t, f.Delete(t.Context(), f.owner, p.ID))
		in, err = f.identity.SignIn.Login(t.Context(), client(), signin.Credentials{Email: "ada@example.test",
			Password: "correct horse battery"}, "")
		require.NoError(t, err)
		require.Equal(t, []access.Role{access.Owner}, roles(in))
	})
}

// A removed mapping takes its role from everyone immediately, in existing sessions too. A mapping whose role is gone
// gives nothing, and blocks no change. A disabled user cannot sign in with a provider.
func TestMappingsEnd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		own, err := f.identity.Members.CreateRole(t.Context(), f.owner, members.NewRole{Name: "support",
			Permissions: []access.Permission{access.EventsRead}})
		require.NoError(t, err)
		mapped := func(list ...access.Role) sso.Change {
			return sso.Change{Apply: func(s *sso.Settings) {
				s.RoleMappings = []sso.RoleMapping{}
				for _, role := range list {
					s.RoleMappings = append(s.RoleMappings, sso.RoleMapping{Group: sso.AllUsers, Role: role})
				}
			}}
		}
		p := f.provider(t)
		_, err = f.Update(t.Context(), f.owner, p.ID, mapped(access.Admin, access.Viewer, own.ID))
		require.NoError(t, err)
		in, err := f.signIn(t, p)
		require.NoError(t, err)
		require.ElementsMatch(t, []access.Role{access.Admin, access.Viewer, own.ID}, roles(in))
		_, err = f.Update(t.Context(), f.owner, p.ID, mapped(access.Viewer, own.ID))
		require.NoError(t, err)
		who, err := f.identity.Principals.Bearer(t.Context(), in.Token.Reveal())
		require.NoError(t, err)
		require.False(t, who.Has(access.TeamWrite))
		require.True(t, who.Has(access.EventsRead))

		_, err = f.store.DB.Write().ExecContext(t.Context(), "DELETE FROM role_bindings WHERE role = $1", own.ID)
		require.NoError(t, err)
		require.NoError(t, f.identity.Members.DeleteRole(t.Context(), f.owner, own.ID))
		in, err = f.signIn(t, p)
		require.NoError(t, err)
		require.Equal(t, []access.Role{access.Viewer}, roles(in))
		_, err = f.Update(t.Context(), f.owner, p.ID, sso.Change{Apply: func(s *sso.Settings) { s.Name = "Another name" }})
		require.NoError(t, err, "what is gone was there before")
		_, err = f.Update(t.Context(), f.owner, p.ID, mapped(own.ID, access.Viewer, "emperor", access.Admin, "king"))
		var invalid *apperr.Error
		require.ErrorAs(t, err, &invalid)
		var locations []string
		for _, d := range invalid.Details {
			locations = append(locations, d.Location)
		}
		require.Equal(t, []string{"role_mappings[2].role", "role_mappings[4].role"}, locations, "all at once")

		_, err = f.identity.Members.SetMemberDisabled(t.Context(), f.owner, in.User.ID, true)
		require.NoError(t, err)
		_, err = f.signIn(t, p)
		require.True(t, apperr.Is(err, apperr.CodeSSONotMember), "%v", err)
	})
}

// The rights that count are those that the actor has when the change is made, not those with which the request was let
// in.
func TestRightsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		was := f.admin(t)
		_, err := f.store.DB.Write().ExecContext(t.Context(),
			"UPDATE role_bindings SET role = 'viewer' WHERE principal_id = $1", was.ID)
		require.NoError(t, err)
		was.Rights = access.Owner.Rights()
		linking := f.settings()
		linking.LinkExisting, linking.RoleMappings = true, []sso.RoleMapping{}
		for _, s := range []sso.Settings{f.settings(), linking} {
			_, err = f.Create(t.Context(), was, s)
			require.True(t, apperr.Is(err, apperr.CodePrivilegeEscalation), "%v", err)
			_, err = f.Update(t.Context(), was, p.ID, sso.Change{Apply: func(to *sso.Settings) {
				to.RoleMappings, to.LinkExisting = s.RoleMappings, s.LinkExisting
			}})
			require.True(t, apperr.Is(err, apperr.CodePrivilegeEscalation), "%v", err)
		}
		require.Equal(t, 1, f.count(t, "sso_providers"))
	})
}

// The provider's settings at the time of the response apply, not those at the start of the sign-in. A slow provider
// keeps no role that was taken from everyone meanwhile, and signs in no one when it was disabled or removed.
func TestSettingsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		set := func(change func(s *sso.Settings)) func(p sso.Provider) error {
			return func(p sso.Provider) error {
				_, err := f.Update(t.Context(), f.owner, p.ID, sso.Change{Apply: change})
				return err
			}
		}
		for what, c := range map[string]struct {
			change func(p sso.Provider) error
			want   apperr.Code
		}{
			"a mapping": {set(func(s *sso.Settings) { s.RoleMappings = []sso.RoleMapping{} }), apperr.CodeSSOStateInvalid},
			"joining":   {set(func(s *sso.Settings) { s.JustInTime = false }), apperr.CodeSSOStateInvalid},
			"the domains": {set(func(s *sso.Settings) {
				s.AllowedDomains = []string{"other.test"}
			}), apperr.CodeSSOStateInvalid},
			"disabling": {set(func(s *sso.Settings) { s.Enabled = false }), apperr.CodeNotFound},
			"removing":  {func(p sso.Provider) error { return f.Delete(t.Context(), f.owner, p.ID) }, apperr.CodeNotFound},
		} {
			p := f.provider(t)
			users, bindings, sessions := f.count(t, "users"), f.count(t, "role_bindings"), f.count(t, "sessions")
			var changed error
			f.idp.Set(func(b *testkit.Behaviour) { b.Claims = func(map[string]any) { changed = c.change(p) } })
			_, err := f.signIn(t, p)
			require.NoError(t, changed, what)
			require.True(t, apperr.Is(err, c.want), "%s: %v", what, err)
			require.Equal(t, []int{users, bindings, sessions}, []int{f.count(t, "users"), f.count(t, "role_bindings"),
				f.count(t, "sessions")}, what)
		}
		f.idp.Set(func(b *testkit.Behaviour) { b.Claims = nil })
		_, err := f.signIn(t, f.provider(t))
		require.NoError(t, err, "nothing has changed")
	})
}
