package apikeys_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/internal/identity/apikeys"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/page"
)

const testIP = "192.0.2.17"

// accepts reports whether a text is a key that works now, and requires the same response for all others.
func accepts(ctx context.Context, t require.TestingT, f identitytest.World, text string) bool {
	_, err := f.Principals.APIKey(ctx, text, testIP)
	if err != nil {
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), err)
		require.Contains(t, err.Error(), "The credential is missing or not valid")
	}
	return err == nil
}

// However a key is rotated, disabled, enabled and revoked over time, the secrets that work are those of the rules: the
// newest, and the one before it until its overlap ends. At most two work, and none of a key that is disabled or
// revoked. A secret that was rotated out never works again.
func TestRotationMachine(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		ctx := t.Context()
		rapid.Check(t, func(t *rapid.T) {
			k, first, err := f.Keys.CreateKey(ctx, actor, apikeys.NewKey{Name: "service", Environment: p.Environments[0].ID})
			require.NoError(t, err)
			texts := []string{first.Reveal()}
			previous := -1 // the index of the secret before the newest that may still work
			var ends time.Time
			disabled, revoked := false, false
			check := func() {
				now := f.Clock.Now()
				for i, text := range texts {
					live := i == len(texts)-1 || i == previous && now.Before(ends)
					require.Equal(t, live && !disabled && !revoked, accepts(ctx, t, f, text), "secret %d of %d", i, len(texts))
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"": func(*rapid.T) { check() },
				"wait": func(t *rapid.T) {
					f.Clock.Advance(time.Duration(rapid.Int64Range(0, 40).Draw(t, "seconds")) * time.Second)
				},
				"rotate": func(t *rapid.T) {
					overlap := time.Duration(rapid.Int64Range(0, 60).Draw(t, "overlap")) * time.Second
					now := f.Clock.Now()
					_, text, err := f.Keys.RotateKey(ctx, actor, k.ID, overlap)
					switch {
					case revoked:
						require.True(t, apperr.Is(err, apperr.CodeAPIKeyRevoked), err)
					case overlap > 0 && previous >= 0 && now.Before(ends):
						require.True(t, apperr.Is(err, apperr.CodeRotationInProgress), err)
					default:
						require.NoError(t, err)
						previous, ends = len(texts)-1, now.Add(overlap)
						texts = append(texts, text.Reveal())
						require.True(t, strings.HasPrefix(text.Reveal(), k.Prefix+"_"))
					}
				},
				"disable": func(t *rapid.T) {
					_, err := f.Keys.DisableKey(ctx, actor, k.ID)
					require.Equal(t, revoked, err != nil)
					disabled = disabled || err == nil
				},
				"enable": func(t *rapid.T) {
					_, err := f.Keys.EnableKey(ctx, actor, k.ID)
					require.Equal(t, revoked, err != nil)
					disabled = disabled && err != nil
				},
				"revoke": func(t *rapid.T) {
					if rapid.IntRange(0, 5).Draw(t, "revoke") > 0 {
						t.Skip()
					}
					_, err := f.Keys.RevokeKey(ctx, actor, k.ID)
					require.NoError(t, err)
					revoked = true
				},
			})
		})
	})
}

// A change by one process applies in another as soon as its cached key is no longer fresh, and never later. A grant
// ends on time although its key is cached.
func TestChangesReachOtherProcesses(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		other := f.Another(t)
		ending := identitytest.Allow(access.RouteConnections)
		ending.NotAfterMillis = new(clock.Millis(f.Clock.Now()) + 500)
		k, text := f.Key(t, actor, p.Environments[0].ID, identitytest.Allow(access.RouteEvents), ending)
		routes := func() []access.Route {
			got, err := other.Principals.APIKey(t.Context(), text, testIP)
			require.NoError(t, err)
			return got.Grants.Routes()
		}
		require.Equal(t, []access.Route{access.RouteEvents, access.RouteConnections}, routes())
		f.Clock.Advance(500 * time.Millisecond)
		require.Equal(t, []access.Route{access.RouteEvents}, routes())
		g, err := f.Keys.AddGrant(t.Context(), actor, k.ID, identitytest.Deny(access.RouteEvents))
		require.NoError(t, err)
		f.Clock.Advance(apikeys.KeyFresh)
		require.Empty(t, routes())
		require.NoError(t, f.Keys.RemoveGrant(t.Context(), actor, k.ID, g.ID))
		f.Clock.Advance(apikeys.KeyFresh)
		require.Equal(t, []access.Route{access.RouteEvents}, routes())
		_, err = f.Keys.DisableKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		f.Clock.Advance(apikeys.KeyFresh)
		require.False(t, accepts(t.Context(), t, other, text))
		_, err = f.Keys.EnableKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		f.Clock.Advance(apikeys.KeyFresh)
		require.True(t, accepts(t.Context(), t, other, text))
	})
}

// A key that is fresh costs no query, and its text is not what it is kept by.
func TestWarmKeyCostsNoQuery(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		_, text := f.Key(t, actor, p.Environments[0].ID, identitytest.Allow(access.RouteEvents))
		require.True(t, accepts(t.Context(), t, f, text))
		noQueries, cancel := context.WithCancel(t.Context())
		cancel()
		require.True(t, accepts(noQueries, t, f, text))
		f.Clock.Advance(apikeys.KeyFresh)
		_, err := f.Principals.APIKey(noQueries, text, testIP)
		require.ErrorIs(t, err, context.Canceled, "what is no longer fresh is read again")
		before, cached := f.Keys.Cached()
		require.NotContains(t, cached, strings.Split(text, "_")[3])
		// Unknown keys are not cached: made-up keys do not fill the memory.
		for range 5 {
			require.False(t, accepts(t.Context(), t, f, apikeys.NewText(team.Test)))
		}
		after, _ := f.Keys.Cached()
		require.Equal(t, before, after)
	})
}

// A key that is limited to networks works only from there, regardless of its state. Elsewhere no one learns that it
// exists or has expired. IPv4 in IPv6 counts as IPv4, and an unknown address is in no network.
func TestSourceNetworks(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		k, secret, err := f.Keys.CreateKey(t.Context(), actor, apikeys.NewKey{Name: "held", Environment: p.Environments[0].ID,
			SourceCIDRs: []string{"2001:db8::/32", "192.0.2.0/24"}})
		require.NoError(t, err)
		asks := func(ip string) error {
			_, err := f.Principals.APIKey(t.Context(), secret.Reveal(), ip)
			return err
		}
		for _, ip := range []string{"192.0.2.1", "::ffff:192.0.2.1", "2001:db8:1::2"} {
			require.NoError(t, asks(ip), ip)
		}
		elsewhere := []string{"192.0.3.1", "2001:db9::1", "", "unix"}
		for _, ip := range elsewhere {
			require.True(t, apperr.Is(asks(ip), apperr.CodeUnauthorized), ip)
		}
		current := access.Principal{Kind: access.KindAPIKey, ID: k.ID, Team: p.Team.ID, Environment: k.Environment,
			IP: "192.0.3.1"}
		_, err = f.Principals.Current(t.Context(), current)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "what outlives a request is held to them, too")
		f.Clock.Advance(apikeys.DefaultKeyLifetime)
		require.True(t, apperr.Is(asks("192.0.2.1"), apperr.CodeAPIKeyExpired))
		for _, ip := range elsewhere {
			require.True(t, apperr.Is(asks(ip), apperr.CodeUnauthorized), ip)
		}
		_, err = f.Keys.UpdateKey(t.Context(), actor, k.ID, apikeys.KeyChange{SourceCIDRs: new([]string(nil)),
			ExpiresMillis: new(clock.Millis(f.Clock.Now()) + 1)})
		require.NoError(t, err)
		require.NoError(t, asks("192.0.3.1"))
	})
}

// A guess at a key with a known prefix reads the key's row and none of its grants, however many there are.
func TestGuessReadsNoGrants(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		k, text := f.Key(t, actor, p.Environments[0].ID,
			slices.Repeat([]apikeys.Grant{identitytest.Allow(access.RouteEvents)}, 300)...)
		grants, found, err := f.Keys.ReadCredential(t.Context(), f.Store.DB.Read(), apikeys.NewSecret(k.Prefix), 0)
		require.NoError(t, err)
		require.True(t, found)
		require.Zero(t, grants)
		grants, found, err = f.Keys.ReadCredential(t.Context(), f.Store.DB.Read(), text, 0)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, 300, grants)
	})
}

// A key carries its first grants and counts all; their list has every one once, and no key gets more than it may.
func TestManyGrants(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		k, _ := f.Key(t, actor, p.Environments[0].ID, slices.Repeat([]apikeys.Grant{identitytest.Allow(access.RouteEvents)},
			apikeys.MaxNewGrants)...)
		f.Exec(t, `INSERT INTO api_key_grants (id, api_key_id, effect, routes, created_ms) SELECT 'x' || id, api_key_id,
				effect, routes, created_ms
			FROM api_key_grants WHERE id > (SELECT MIN(id) FROM api_key_grants)`)
		_, err := f.Keys.AddGrant(t.Context(), actor, k.ID, identitytest.Deny(access.RouteConnections))
		require.NoError(t, err)
		_, err = f.Keys.AddGrant(t.Context(), actor, k.ID, identitytest.Deny(access.RouteConnections))
		require.True(t, apperr.Is(err, apperr.CodeValidation), err)
		got, err := f.Keys.GetKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		require.Equal(t, apikeys.MaxGrants, got.GrantCount)
		require.Len(t, got.Grants, apikeys.ShownGrants)
		r, err := page.Query{Limit: 250}.Parse("", func(string) bool { return true })
		require.NoError(t, err)
		seen := map[string]bool{}
		for {
			list, err := f.Keys.ListGrants(t.Context(), actor, k.ID, r)
			require.NoError(t, err)
			more := len(list) > r.Limit
			for _, g := range list[:min(len(list), r.Limit)] {
				seen[g.ID], r.After = true, g.ID
			}
			if !more {
				break
			}
		}
		require.Len(t, seen, apikeys.MaxGrants)
	})
}
