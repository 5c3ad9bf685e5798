package apikeys_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"sallyport/internal/identity/team"

	"sallyport/internal/identity/apikeys"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

func anyKeyID(key string) bool { return id.Is(id.PrefixAPIKey, key) }

// A key works as its principal from the moment it is made, under the mode of its environment and for 90 days.
func TestCreateKey(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		for i, prefix := range []string{"spk_test_", "spk_live_"} {
			env := p.Environments[i].ID
			k, key := f.Key(t, actor, env, identitytest.Allow(access.RouteWebhooks))
			require.True(t, strings.HasPrefix(key, prefix), key)
			require.True(t, strings.HasPrefix(key, k.Prefix+"_"))
			require.Equal(t, 90*24*time.Hour, clock.FromMillis(k.ExpiresMillis).Sub(f.Clock.Now()))
			got, err := f.Principals.APIKey(t.Context(), key, "192.0.2.17")
			require.NoError(t, err)
			require.Equal(t, access.Principal{
				Kind: access.KindAPIKey, ID: k.ID, Name: "service", Team: p.Team.ID, Environment: env,
				Grants: access.Open(access.RouteWebhooks, access.RouteEvents),
			}, got)
			read, err := f.Keys.GetKey(t.Context(), actor, k.ID)
			require.NoError(t, err)
			require.Equal(t, k, read)
		}
	})
}

// The text of a key is nowhere in the database: a reader of it has no key.
func TestKeySecretIsNotStored(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		_, key := f.Key(t, actor, p.Environments[0].ID, identitytest.Allow(access.RouteEvents))
		secret := strings.Split(key, "_")[3]
		var mac []byte
		var row string
		require.NoError(t, f.Store.DB.Read().QueryRowContext(t.Context(),
			"SELECT secret_mac, id || lookup_id || name || last_four || created_by FROM api_keys").Scan(&mac, &row))
		require.Len(t, mac, 32)
		require.NotContains(t, row+string(mac), secret[:len(secret)-apikeys.LastFourLength])
		for _, e := range f.Trail(t) {
			require.NotContains(t, e.Changes, secret)
			require.NotContains(t, e.Changes, secret[:len(secret)-apikeys.LastFourLength])
		}
	})
}

// A key with a typo is refused by its text: no query is made for it.
func TestMistypedKeyCostsNoQuery(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		_, key := f.Key(t, actor, p.Environments[0].ID)
		noQueries, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := f.Principals.APIKey(noQueries, key, "")
		require.ErrorIs(t, err, context.Canceled, "a well-formed key was not looked for")
		for i := range len(key) {
			replacement := "a"
			if key[i] == 'a' {
				replacement = "b"
			}
			_, err := f.Principals.APIKey(noQueries, key[:i]+replacement+key[i+1:], "")
			require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "at %d: %v", i, err)
		}
	})
}

// Parts of genuine keys cannot be put together to another key, even with the right checksum.
func TestKeyPartsCannotBeExchanged(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		_, one := f.Key(t, actor, p.Environments[0].ID)
		_, two := f.Key(t, actor, p.Environments[0].ID)
		a, b := strings.Split(one, "_"), strings.Split(two, "_")
		for name, parts := range map[string][]string{
			"another's secret": {a[0], a[1], a[2], b[3]},
			"another mode":     {a[0], "live", a[2], a[3]},
			"unknown lookup":   {a[0], a[1], "0000000000", a[3]},
		} {
			forged := apikeys.WithChecksum(strings.Join(parts, "_"))
			require.True(t, apikeys.IsText(forged), name)
			_, err := f.Principals.APIKey(t.Context(), forged, "192.0.2.17")
			require.True(t, apperr.Is(err, apperr.CodeUnauthorized), name)
		}
	})
}

// A revoked or deleted key is refused from the next request on by the process that did it, by every other once what
// that has read is no longer fresh, and stays refused.
func TestRevocationAppliesImmediately(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		other := f.Another(t)
		revoked, revokedText := f.Key(t, actor, p.Environments[0].ID, identitytest.Allow(access.RouteEvents))
		deleted, deletedText := f.Key(t, actor, p.Environments[0].ID, identitytest.Allow(access.RouteEvents),
			identitytest.Deny(access.RouteWebhooks))
		for _, text := range []string{revokedText, deletedText} {
			_, err := other.Principals.APIKey(t.Context(), text, "192.0.2.17")
			require.NoError(t, err)
		}
		k, err := f.Keys.RevokeKey(t.Context(), actor, revoked.ID)
		require.NoError(t, err)
		require.Equal(t, apikeys.KeyRevoked, k.Status(f.Clock.Now()))
		require.NoError(t, f.Keys.DeleteKey(t.Context(), actor, deleted.ID))
		f.Clock.Advance(apikeys.KeyFresh)
		for _, text := range []string{revokedText, deletedText} {
			for _, s := range []identitytest.World{f, other} {
				_, err := s.Principals.APIKey(t.Context(), text, "192.0.2.17")
				require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
			}
		}
		require.Equal(t, 1, f.Count(t, "api_keys"))
		require.Equal(t, 1, f.Count(t, "api_key_grants"), "the grants of the deleted key stay")

		f.Clock.Advance(time.Minute)
		events := len(f.Trail(t))
		again, err := f.Keys.RevokeKey(t.Context(), actor, revoked.ID)
		require.NoError(t, err)
		require.Equal(t, k, again, "revoking again moved the time")
		require.Len(t, f.Trail(t), events, "what changed nothing has an event")
		_, err = f.Keys.GetKey(t.Context(), actor, deleted.ID)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		require.True(t, apperr.Is(f.Keys.DeleteKey(t.Context(), actor, deleted.ID), apperr.CodeNotFound))
	})
}

// Only the holder of the secret learns that a key is past its time; revoked weighs more than expired.
func TestExpiry(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		k, key := f.Key(t, actor, p.Environments[0].ID)
		f.Clock.Advance(apikeys.DefaultKeyLifetime - time.Millisecond)
		_, err := f.Principals.APIKey(t.Context(), key, "192.0.2.17")
		require.NoError(t, err)
		require.Equal(t, apikeys.KeyActive, k.Status(f.Clock.Now()))
		f.Clock.Advance(time.Millisecond)
		_, err = f.Principals.APIKey(t.Context(), key, "192.0.2.17")
		require.True(t, apperr.Is(err, apperr.CodeAPIKeyExpired))
		require.Equal(t, apikeys.KeyExpired, k.Status(f.Clock.Now()))
		parts := strings.Split(key, "_")
		guess := apikeys.WithChecksum(strings.Join([]string{parts[0], parts[1], parts[2],
			strings.Repeat("0", apikeys.SecretLength)}, "_"))
		_, err = f.Principals.APIKey(t.Context(), guess, "192.0.2.17")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		revoked, err := f.Keys.RevokeKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		require.Equal(t, apikeys.KeyRevoked, revoked.Status(f.Clock.Now()))
		_, err = f.Principals.APIKey(t.Context(), key, "192.0.2.17")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
	})
}

// Without a grant nothing is permitted, and a deny overrides every grant.
func TestGrants(t *testing.T) {
	t.Parallel()
	const webhooks, events, connections = access.RouteWebhooks, access.RouteEvents, access.RouteConnections
	for _, c := range []struct {
		name   string
		grants []apikeys.Grant
		want   []access.Route
	}{
		{"none", nil, nil},
		{"webhooks bring events", []apikeys.Grant{identitytest.Allow(webhooks)}, []access.Route{webhooks, events}},
		{"events bring nothing", []apikeys.Grant{identitytest.Allow(events)}, []access.Route{events}},
		{"several add up", []apikeys.Grant{identitytest.Allow(connections), identitytest.Allow(events)},
			[]access.Route{events, connections}},
		{"denial wins", []apikeys.Grant{identitytest.Allow(events, connections), identitytest.Deny(events)},
			[]access.Route{connections}},
		{"denial wins in any order", []apikeys.Grant{identitytest.Deny(events), identitytest.Allow(events, connections)},
			[]access.Route{connections}},
		{"webhooks are not open without events", []apikeys.Grant{identitytest.Allow(webhooks), identitytest.Deny(events)},
			nil},
		{"denied webhooks bring no events", []apikeys.Grant{identitytest.Allow(webhooks), identitytest.Deny(webhooks)}, nil},
		{"events granted by themselves stay", []apikeys.Grant{identitytest.Allow(webhooks, events),
			identitytest.Deny(webhooks)}, []access.Route{events}},
		{"denial alone", []apikeys.Grant{identitytest.Deny(events)}, nil},
		{"effect of a later release", []apikeys.Grant{identitytest.Allow(events),
			{Effect: "limit", Routes: []access.Route{events}}}, nil},
		{"route of a later release", []apikeys.Grant{identitytest.Allow("teleport")}, nil},
	} {
		rights := apikeys.OpenedBy(c.grants, 0)
		require.Equal(t, c.want, rights.Routes(), c.name)
	}
}

// Grants are enforced as they were stored.
func TestStoredGrants(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		_, none := f.Key(t, actor, p.Environments[0].ID)
		_, some := f.Key(t, actor, p.Environments[0].ID, identitytest.Allow(access.RouteWebhooks, access.RouteConnections),
			identitytest.Deny(access.RouteConnections))
		got, err := f.Principals.APIKey(t.Context(), none, "192.0.2.17")
		require.NoError(t, err)
		require.Empty(t, got.Grants.Routes())
		got, err = f.Principals.APIKey(t.Context(), some, "192.0.2.17")
		require.NoError(t, err)
		require.True(t, got.MayRoute(access.RouteWebhooks))
		require.True(t, got.MayRoute(access.RouteEvents))
		require.False(t, got.MayRoute(access.RouteConnections))
	})
}

// Every method treats another team's environment and key as if they did not exist, and leaves them alone.
func TestForeignTeam(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, _ := f.Owner(t)
		theirs, env, k := f.Foreign(t)
		events := len(f.Trail(t))
		r, err := page.Query{}.Parse("", anyKeyID)
		require.NoError(t, err)
		for name, call := range map[string]func() error{
			"create": func() error {
				_, _, err := f.Keys.CreateKey(t.Context(), actor, apikeys.NewKey{Name: "x", Environment: env})
				return err
			},
			"create in an invalid environment": func() error {
				_, _, err := f.Keys.CreateKey(t.Context(), actor, apikeys.NewKey{Name: "x", Environment: "env_\x00"})
				return err
			},
			"list":   func() error { _, err := f.Keys.ListKeys(t.Context(), actor, []id.Environment{env}, r); return err },
			"get":    func() error { _, err := f.Keys.GetKey(t.Context(), actor, k.ID); return err },
			"revoke": func() error { _, err := f.Keys.RevokeKey(t.Context(), actor, k.ID); return err },
			"delete": func() error { return f.Keys.DeleteKey(t.Context(), actor, k.ID) },
			"get an invalid key id": func() error {
				_, err := f.Keys.GetKey(t.Context(), actor, "key_\x00")
				return err
			},
		} {
			require.True(t, apperr.Is(call(), apperr.CodeNotFound), name)
		}
		mine, err := f.Keys.ListKeys(t.Context(), actor, nil, r)
		require.NoError(t, err)
		require.Empty(t, mine)
		got, err := f.Keys.GetKey(t.Context(), theirs, k.ID)
		require.NoError(t, err)
		require.Equal(t, k, got)
		require.Len(t, f.Trail(t), events)
	})
}

// A change whose event cannot be written does not happen.
func TestNoChangeWithoutItsEvent(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		env := p.Environments[0].ID
		k, key := f.Key(t, actor, env, identitytest.Allow(access.RouteEvents))
		f.Exec(t, "ALTER TABLE audit_events RENAME TO audit_events_away")
		_, _, err := f.Keys.CreateKey(t.Context(), actor, apikeys.NewKey{Name: "x", Environment: env})
		require.Error(t, err)
		_, err = f.Keys.RevokeKey(t.Context(), actor, k.ID)
		require.Error(t, err)
		require.Error(t, f.Keys.DeleteKey(t.Context(), actor, k.ID))
		_, err = f.Setup.CreateOwner(t.Context(), actor, "", "charles@example.test", identitytest.Password)
		require.Error(t, err)
		require.Error(t, f.SignIn.ResetPassword(t.Context(), actor, identitytest.Email, "staple battery horse"))
		f.Exec(t, "ALTER TABLE audit_events_away RENAME TO audit_events")
		require.Equal(t, 1, f.Count(t, "api_keys"))
		require.Equal(t, 1, f.Count(t, "users"))
		_, err = f.Principals.APIKey(t.Context(), key, "192.0.2.17")
		require.NoError(t, err)
		_, err = f.LogIn(t, identitytest.Email, identitytest.Password)
		require.NoError(t, err)
	})
}

// Each change to a key leaves one event that says who, what and where.
func TestKeyTrail(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		before := len(f.Trail(t))
		k, _ := f.Key(t, actor, p.Environments[0].ID, identitytest.Allow(access.RouteEvents))
		_, err := f.Keys.RevokeKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		require.NoError(t, f.Keys.DeleteKey(t.Context(), actor, k.ID))
		trail := f.Trail(t)[before:]
		require.Len(t, trail, 3)
		for i, action := range []string{"api_key.create", "api_key.revoke", "api_key.delete"} {
			require.Equal(t, action, trail[i].Action)
			require.Equal(t, actor.ID, trail[i].Actor)
			require.Equal(t, k.ID, trail[i].Target)
			require.Equal(t, string(p.Team.ID), trail[i].Team)
			require.Equal(t, string(k.Environment), trail[i].Environment)
		}
		require.Contains(t, trail[0].Changes, `"routes":["events"]`)
		require.Regexp(t, `^{"revoked_at":{"before":null,"after":"[^"]+"}}$`, trail[1].Changes)
	})
}

// The rules that no schema can hold, for the command line as for the API.
func TestNewKeyViolations(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1000)
	past := int64(1000)
	violations := apikeys.NewKey{
		Name: "a\nb", ExpiresMillis: &past,
		Grants: []apikeys.Grant{{Effect: "maybe", Routes: []access.Route{access.RouteEvents}}, {Effect: apikeys.Allow},
			identitytest.Allow("teleport")},
	}.Violations(now)
	var locations []string
	for _, d := range violations {
		locations = append(locations, d.Location)
	}
	require.Equal(t, []string{"name", "expires_at", "grants[0].effect", "grants[1].routes", "grants[2].routes[0]"},
		locations)
	require.NotEmpty(t, apikeys.NewKey{Name: " "}.Violations(now))
	require.NotEmpty(t, apikeys.NewKey{Name: strings.Repeat("x", team.MaxNameCharacters+1)}.Violations(now))
	require.NotEmpty(t, apikeys.NewKey{Name: "x", Grants: make([]apikeys.Grant, apikeys.MaxGrants+1)}.Violations(now))
	future := int64(1001)
	require.Empty(t, apikeys.NewKey{Name: strings.Repeat("é", team.MaxNameCharacters), ExpiresMillis: &future,
		Grants: []apikeys.Grant{identitytest.Allow(access.RouteEvents)}}.Violations(now))
}
