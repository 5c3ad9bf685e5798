package identity

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		for i, prefix := range []string{"spk_test_", "spk_live_"} {
			env := p.Environments[i].ID
			k, key := f.key(t, actor, env, allow(access.RouteWebhooks))
			require.True(t, strings.HasPrefix(key, prefix), key)
			require.True(t, strings.HasPrefix(key, k.Prefix+"_"))
			require.Equal(t, 90*24*time.Hour, clock.FromMillis(k.ExpiresMillis).Sub(f.clk.Now()))
			got, err := f.APIKey(t.Context(), key, "192.0.2.17")
			require.NoError(t, err)
			require.Equal(t, access.Principal{
				Kind: access.KindAPIKey, ID: k.ID, Name: "service", Team: p.Team.ID, Environment: env,
				Grants: access.Open(access.RouteWebhooks, access.RouteEvents),
			}, got)
			read, err := f.GetKey(t.Context(), actor, k.ID)
			require.NoError(t, err)
			require.Equal(t, k, read)
		}
	})
}

// The text of a key is nowhere in the database: who reads it has no key.
func TestKeySecretIsNotStored(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		_, key := f.key(t, actor, p.Environments[0].ID, allow(access.RouteEvents))
		secret := strings.Split(key, "_")[3]
		var mac []byte
		var row string
		require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(),
			"SELECT secret_mac, id || lookup_id || name || last_four || created_by FROM api_keys").Scan(&mac, &row))
		require.Len(t, mac, 32)
		require.NotContains(t, row+string(mac), secret[:len(secret)-lastFourLength])
		for _, e := range f.trail(t) {
			require.NotContains(t, e.changes, secret)
			require.NotContains(t, e.changes, secret[:len(secret)-lastFourLength])
		}
	})
}

// A key with a typo is refused by its text: no query is made for it.
func TestMistypedKeyCostsNoQuery(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		_, key := f.key(t, actor, p.Environments[0].ID)
		noQueries, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := f.APIKey(noQueries, key, "")
		require.ErrorIs(t, err, context.Canceled, "a well-formed key was not looked for")
		for i := range len(key) {
			replacement := "a"
			if key[i] == 'a' {
				replacement = "b"
			}
			_, err := f.APIKey(noQueries, key[:i]+replacement+key[i+1:], "")
			require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "at %d: %v", i, err)
		}
	})
}

// Parts of genuine keys cannot be put together to another key, even with the right checksum.
func TestKeyPartsCannotBeExchanged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		_, one := f.key(t, actor, p.Environments[0].ID)
		_, two := f.key(t, actor, p.Environments[0].ID)
		a, b := strings.Split(one, "_"), strings.Split(two, "_")
		for name, parts := range map[string][]string{
			"another's secret": {a[0], a[1], a[2], b[3]},
			"another mode":     {a[0], "live", a[2], a[3]},
			"unknown lookup":   {a[0], a[1], "0000000000", a[3]},
		} {
			forged := keyText{body: strings.Join(parts, "_")}.String()
			_, ok := parseKey(forged)
			require.True(t, ok, name)
			_, err := f.APIKey(t.Context(), forged, "192.0.2.17")
			require.True(t, apperr.Is(err, apperr.CodeUnauthorized), name)
		}
	})
}

// A revoked or deleted key is refused from the next request on by the process that did it, by every other once what
// that has read is no longer fresh, and stays refused.
func TestRevocationIsInForceAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		other := f.another(t)
		require.NoError(t, other.Init(t.Context(), false))
		revoked, revokedText := f.key(t, actor, p.Environments[0].ID, allow(access.RouteEvents))
		deleted, deletedText := f.key(t, actor, p.Environments[0].ID, allow(access.RouteEvents), deny(access.RouteWebhooks))
		for _, text := range []string{revokedText, deletedText} {
			_, err := other.APIKey(t.Context(), text, "192.0.2.17")
			require.NoError(t, err)
		}
		k, err := f.RevokeKey(t.Context(), actor, revoked.ID)
		require.NoError(t, err)
		require.Equal(t, KeyRevoked, k.Status(f.clk.Now()))
		require.NoError(t, f.DeleteKey(t.Context(), actor, deleted.ID))
		f.clk.Advance(keyFresh)
		for _, text := range []string{revokedText, deletedText} {
			for _, s := range []*Service{f.Service, other} {
				_, err := s.APIKey(t.Context(), text, "192.0.2.17")
				require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
			}
		}
		require.Equal(t, 1, f.count(t, "api_keys"))
		require.Equal(t, 1, f.count(t, "api_key_grants"), "the grants of the deleted key stay")

		f.clk.Advance(time.Minute)
		events := len(f.trail(t))
		again, err := f.RevokeKey(t.Context(), actor, revoked.ID)
		require.NoError(t, err)
		require.Equal(t, k, again, "revoking again moved the time")
		require.Len(t, f.trail(t), events, "what changed nothing has an event")
		_, err = f.GetKey(t.Context(), actor, deleted.ID)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		require.True(t, apperr.Is(f.DeleteKey(t.Context(), actor, deleted.ID), apperr.CodeNotFound))
	})
}

// Only who has the secret learns that a key is past its time; revoked weighs more than expired.
func TestExpiry(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		k, key := f.key(t, actor, p.Environments[0].ID)
		f.clk.Advance(DefaultKeyLifetime - time.Millisecond)
		_, err := f.APIKey(t.Context(), key, "192.0.2.17")
		require.NoError(t, err)
		require.Equal(t, KeyActive, k.Status(f.clk.Now()))
		f.clk.Advance(time.Millisecond)
		_, err = f.APIKey(t.Context(), key, "192.0.2.17")
		require.True(t, apperr.Is(err, apperr.CodeAPIKeyExpired))
		require.Equal(t, KeyExpired, k.Status(f.clk.Now()))
		parts := strings.Split(key, "_")
		guess := keyText{body: strings.Join([]string{parts[0], parts[1], parts[2], strings.Repeat("0", secretLength)}, "_")}
		_, err = f.APIKey(t.Context(), guess.String(), "192.0.2.17")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		revoked, err := f.RevokeKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		require.Equal(t, KeyRevoked, revoked.Status(f.clk.Now()))
		_, err = f.APIKey(t.Context(), key, "192.0.2.17")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
	})
}

// Nothing is open that no grant opens, and a denial wins whatever else is granted.
func TestGrants(t *testing.T) {
	t.Parallel()
	const webhooks, events, connections = access.RouteWebhooks, access.RouteEvents, access.RouteConnections
	for _, c := range []struct {
		name   string
		grants []Grant
		want   []access.Route
	}{
		{"none", nil, nil},
		{"webhooks bring events", []Grant{allow(webhooks)}, []access.Route{webhooks, events}},
		{"events bring nothing", []Grant{allow(events)}, []access.Route{events}},
		{"several add up", []Grant{allow(connections), allow(events)}, []access.Route{events, connections}},
		{"denial wins", []Grant{allow(events, connections), deny(events)}, []access.Route{connections}},
		{"denial wins in any order", []Grant{deny(events), allow(events, connections)}, []access.Route{connections}},
		{"webhooks are not open without events", []Grant{allow(webhooks), deny(events)}, nil},
		{"denied webhooks bring no events", []Grant{allow(webhooks), deny(webhooks)}, nil},
		{"events granted by themselves stay", []Grant{allow(webhooks, events), deny(webhooks)}, []access.Route{events}},
		{"denial alone", []Grant{deny(events)}, nil},
		{"effect of a later release", []Grant{allow(events), {Effect: "limit", Routes: []access.Route{events}}}, nil},
		{"route of a later release", []Grant{allow("teleport")}, nil},
	} {
		rights, _ := openedBy(c.grants, 0)
		require.Equal(t, c.want, rights.Routes(), c.name)
	}
}

// Grants are enforced as they were stored.
func TestStoredGrants(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		_, none := f.key(t, actor, p.Environments[0].ID)
		_, some := f.key(t, actor, p.Environments[0].ID, allow(access.RouteWebhooks, access.RouteConnections),
			deny(access.RouteConnections))
		got, err := f.APIKey(t.Context(), none, "192.0.2.17")
		require.NoError(t, err)
		require.Empty(t, got.Grants.Routes())
		got, err = f.APIKey(t.Context(), some, "192.0.2.17")
		require.NoError(t, err)
		require.True(t, got.MayRoute(access.RouteWebhooks))
		require.True(t, got.MayRoute(access.RouteEvents))
		require.False(t, got.MayRoute(access.RouteConnections))
	})
}

// Every method treats another team's environment and key as if they did not exist, and leaves them alone.
func TestForeignTeam(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, _ := f.owner(t)
		theirs, env, k := f.foreign(t)
		events := len(f.trail(t))
		r, err := page.Query{}.Parse("", anyKeyID)
		require.NoError(t, err)
		for name, call := range map[string]func() error{
			"create": func() error {
				_, _, err := f.CreateKey(t.Context(), actor, NewKey{Name: "x", Environment: env})
				return err
			},
			"create in what is no environment": func() error {
				_, _, err := f.CreateKey(t.Context(), actor, NewKey{Name: "x", Environment: "env_\x00"})
				return err
			},
			"list":   func() error { _, err := f.ListKeys(t.Context(), actor, []id.Environment{env}, r); return err },
			"get":    func() error { _, err := f.GetKey(t.Context(), actor, k.ID); return err },
			"revoke": func() error { _, err := f.RevokeKey(t.Context(), actor, k.ID); return err },
			"delete": func() error { return f.DeleteKey(t.Context(), actor, k.ID) },
			"get what is no key": func() error {
				_, err := f.GetKey(t.Context(), actor, "key_\x00")
				return err
			},
		} {
			require.True(t, apperr.Is(call(), apperr.CodeNotFound), name)
		}
		mine, err := f.ListKeys(t.Context(), actor, nil, r)
		require.NoError(t, err)
		require.Empty(t, mine)
		got, err := f.GetKey(t.Context(), theirs, k.ID)
		require.NoError(t, err)
		require.Equal(t, k, got)
		require.Len(t, f.trail(t), events)
	})
}

// A change whose event cannot be written does not happen.
func TestNoChangeWithoutItsEvent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		env := p.Environments[0].ID
		k, key := f.key(t, actor, env, allow(access.RouteEvents))
		f.exec(t, "ALTER TABLE audit_events RENAME TO audit_events_away")
		_, _, err := f.CreateKey(t.Context(), actor, NewKey{Name: "x", Environment: env})
		require.Error(t, err)
		_, err = f.RevokeKey(t.Context(), actor, k.ID)
		require.Error(t, err)
		require.Error(t, f.DeleteKey(t.Context(), actor, k.ID))
		_, err = f.CreateOwner(t.Context(), actor, "", "charles@example.test", testPassword)
		require.Error(t, err)
		require.Error(t, f.ResetPassword(t.Context(), actor, testEmail, "staple battery horse"))
		f.exec(t, "ALTER TABLE audit_events_away RENAME TO audit_events")
		require.Equal(t, 1, f.count(t, "api_keys"))
		require.Equal(t, 1, f.count(t, "users"))
		_, err = f.APIKey(t.Context(), key, "192.0.2.17")
		require.NoError(t, err)
		_, err = f.signIn(t, testEmail, testPassword)
		require.NoError(t, err)
	})
}

// Each change to a key leaves one event that says who, what and where.
func TestKeyTrail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		before := len(f.trail(t))
		k, _ := f.key(t, actor, p.Environments[0].ID, allow(access.RouteEvents))
		_, err := f.RevokeKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		require.NoError(t, f.DeleteKey(t.Context(), actor, k.ID))
		trail := f.trail(t)[before:]
		require.Len(t, trail, 3)
		for i, action := range []string{"api_key.create", "api_key.revoke", "api_key.delete"} {
			require.Equal(t, action, trail[i].action)
			require.Equal(t, actor.ID, trail[i].actor)
			require.Equal(t, k.ID, trail[i].target)
			require.Equal(t, string(p.Team.ID), trail[i].team)
			require.Equal(t, string(k.Environment), trail[i].environment)
		}
		require.Contains(t, trail[0].changes, `"routes":["events"]`)
		require.Regexp(t, `^{"revoked_at":{"before":null,"after":"[^"]+"}}$`, trail[1].changes)
	})
}

// The rules that no schema can hold, for the command line as for the API.
func TestNewKeyFaults(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1000)
	past := int64(1000)
	faults := NewKey{
		Name: "a\nb", ExpiresMillis: &past,
		Grants: []Grant{{Effect: "maybe", Routes: []access.Route{access.RouteEvents}}, {Effect: Allow}, allow("teleport")},
	}.Faults(now)
	var locations []string
	for _, d := range faults {
		locations = append(locations, d.Location)
	}
	require.Equal(t, []string{"name", "expires_at", "grants[0].effect", "grants[1].routes", "grants[2].routes[0]"},
		locations)
	require.NotEmpty(t, NewKey{Name: " "}.Faults(now))
	require.NotEmpty(t, NewKey{Name: strings.Repeat("x", MaxNameCharacters+1)}.Faults(now))
	require.NotEmpty(t, NewKey{Name: "x", Grants: make([]Grant, MaxGrants+1)}.Faults(now))
	future := int64(1001)
	require.Empty(t, NewKey{Name: strings.Repeat("é", MaxNameCharacters), ExpiresMillis: &future,
		Grants: []Grant{allow(access.RouteEvents)}}.Faults(now))
}
