package apikeys_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// holding adds a member with permissions in one environment, by a role of that name, and returns them as the actor of a
// request.
func holding(t *testing.T, f identitytest.World, owner access.Principal, name string, env id.Environment,
	permissions ...access.Permission) access.Principal {
	t.Helper()
	r, err := f.Members.CreateRole(t.Context(), owner, members.NewRole{Name: name, Permissions: permissions})
	require.NoError(t, err)
	p := f.Person(t, owner.Team, name+"@example.test")
	f.Bind(t, owner.Team, p.ID, r.ID, env, nil)
	return f.Actor(t, owner.Team, p.ID)
}

// A key gives no one rights that they do not have: not by creating it, by a grant, by removing a deny, by getting the
// secret of a stronger key, or by letting one work again, for longer or from elsewhere. They may always reduce a key's
// rights.
func TestKeyGrantsNoMoreThanItsCreatorHolds(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		owner, p := f.Owner(t)
		env := p.Environments[0].ID
		strong, _ := f.Key(t, owner, env, identitytest.Allow(access.RouteWebhooks),
			identitytest.Deny(access.RouteConnections))
		denial := strong.Grants[1].ID
		weak := holding(t, f, owner, "weak", env, access.APIKeysRead, access.APIKeysWrite, access.EventsRead)
		removed := weak
		removed.Rights.Add(env, access.Developer.Rights().Team) // what they had when the request was let in
		events := len(f.Trail(t))
		for what, call := range map[string]func() error{
			"create": func() error {
				_, _, err := f.Keys.CreateKey(t.Context(), weak, apikeys.NewKey{Name: "x", Environment: env,
					Grants: []apikeys.Grant{identitytest.Allow(access.RouteEvents), identitytest.Allow(access.RouteConnections)}})
				return err
			},
			"grant": func() error {
				_, err := f.Keys.AddGrant(t.Context(), weak, strong.ID, identitytest.Allow(access.RouteWebhooks))
				return err
			},
			"remove denial": func() error { return f.Keys.RemoveGrant(t.Context(), weak, strong.ID, denial) },
			"rotate":        func() error { _, _, err := f.Keys.RotateKey(t.Context(), weak, strong.ID, 0); return err },
			"enable":        func() error { _, err := f.Keys.EnableKey(t.Context(), weak, strong.ID); return err },
			"prolong": func() error {
				_, err := f.Keys.UpdateKey(t.Context(), weak, strong.ID,
					apikeys.KeyChange{ExpiresMillis: new(strong.ExpiresMillis + 1)})
				return err
			},
			"open to all networks": func() error {
				_, err := f.Keys.UpdateKey(t.Context(), weak, strong.ID, apikeys.KeyChange{SourceCIDRs: new([]string(nil))})
				return err
			},
		} {
			require.True(t, apperr.Is(call(), apperr.CodePrivilegeEscalation), "%s: %v", what, call())
		}
		require.Len(t, f.Trail(t), events)
		k, _, err := f.Keys.CreateKey(t.Context(), weak, apikeys.NewKey{Name: "x", Environment: env,
			Grants: []apikeys.Grant{identitytest.Allow(access.RouteEvents), identitytest.Deny(access.RouteConnections)}})
		require.NoError(t, err)
		_, _, err = f.Keys.RotateKey(t.Context(), weak, k.ID, 0)
		require.NoError(t, err)
		_, err = f.Keys.UpdateKey(t.Context(), weak, strong.ID, apikeys.KeyChange{Name: new("renamed")})
		require.NoError(t, err)
		_, err = f.Keys.DisableKey(t.Context(), weak, strong.ID)
		require.NoError(t, err)
		require.NoError(t, f.Keys.RemoveGrant(t.Context(), weak, strong.ID, strong.Grants[0].ID))
		_, err = f.Keys.EnableKey(t.Context(), weak, strong.ID)
		require.NoError(t, err, "what is left of it opens nothing")
	})
}

// A user with rights in one environment manages its keys. Keys of other environments do not exist for them, and a user
// who may only read changes nothing.
func TestKeysOfOwnEnvironments(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		owner, p := f.Owner(t)
		mine, other := p.Environments[0].ID, p.Environments[1].ID
		own, _ := f.Key(t, owner, mine)
		foreign, _ := f.Key(t, owner, other)
		developer := holding(t, f, owner, "most", mine, access.Developer.Permissions()...)
		reader := holding(t, f, owner, "reader", mine, access.APIKeysRead)
		require.True(t, developer.HasSomewhere(access.APIKeysWrite))
		require.False(t, developer.Has(access.APIKeysWrite))
		r, err := page.Query{}.Parse("", anyKeyID)
		require.NoError(t, err)
		for _, who := range []access.Principal{developer, reader} {
			for _, filter := range [][]id.Environment{nil, {mine}} {
				list, err := f.Keys.ListKeys(t.Context(), who, filter, r)
				require.NoError(t, err)
				require.Len(t, list, 1)
				require.Equal(t, own.ID, list[0].ID)
			}
			for _, filter := range [][]id.Environment{{other}, {mine, other}, {id.Environment(id.New(id.PrefixEnvironment))}} {
				_, err := f.Keys.ListKeys(t.Context(), who, filter, r)
				require.True(t, apperr.Is(err, apperr.CodeNotFound),
					"an environment of which they have nothing is like one that is not there")
			}
			_, err = f.Keys.GetKey(t.Context(), who, foreign.ID)
			require.True(t, apperr.Is(err, apperr.CodeNotFound))
			_, err = f.Keys.RevokeKey(t.Context(), who, foreign.ID)
			require.True(t, apperr.Is(err, apperr.CodeNotFound))
			require.True(t, apperr.Is(f.Keys.DeleteKey(t.Context(), who, foreign.ID), apperr.CodeNotFound))
			_, _, err = f.Keys.CreateKey(t.Context(), who, apikeys.NewKey{Name: "x", Environment: other})
			require.True(t, apperr.Is(err, apperr.CodeNotFound))
		}
		_, err = f.Keys.DisableKey(t.Context(), reader, own.ID)
		require.True(t, apperr.Is(err, apperr.CodeForbidden))
		_, _, err = f.Keys.CreateKey(t.Context(), reader, apikeys.NewKey{Name: "x", Environment: mine})
		require.True(t, apperr.Is(err, apperr.CodeForbidden))
		_, err = f.Keys.DisableKey(t.Context(), developer, own.ID)
		require.NoError(t, err)
		_, _, err = f.Keys.CreateKey(t.Context(), developer, apikeys.NewKey{Name: "x", Environment: mine,
			Grants: []apikeys.Grant{identitytest.Allow(access.Routes()...)}})
		require.NoError(t, err, "a developer may do all that a key can")
	})
}
