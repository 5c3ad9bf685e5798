package apikeys_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/internal/identity/apikeys"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

// A key's last use is written down soon after the first and then at most once a minute, in one form however it came; no
// use costs a query of its own.
func TestLastUse(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		k, _ := f.Key(t, actor, p.Environments[0].ID)
		used := func() *apikeys.KeyUse {
			t.Helper()
			require.NoError(t, f.Keys.StoreKeyUse(t.Context(), false))
			got, err := f.Keys.GetKey(t.Context(), actor, k.ID)
			require.NoError(t, err)
			return got.LastUsed
		}
		require.Nil(t, used())
		first := f.Clock.Now()
		f.Keys.KeySeen(k.ID, "192.0.2.1", "billing/1.4\n"+strings.Repeat("x", 1000), "GET /webhook-events")
		got := used()
		require.Equal(t, clock.Millis(first), got.AtMillis)
		require.Equal(t, []string{"192.0.2.1", "GET /webhook-events"}, []string{got.IP, got.Route})
		require.True(t, strings.HasPrefix(got.UserAgent, "billing/1.4x"))
		require.Len(t, got.UserAgent, 256)
		f.Clock.Advance(apikeys.UsePrecision - time.Millisecond)
		f.Keys.KeySeen(k.ID, "192.0.2.2", "", "GET /connections")
		require.Equal(t, got, used(), "written twice within a minute")
		f.Clock.Advance(time.Millisecond)
		require.Equal(t, "192.0.2.2", used().IP)
		f.Clock.Advance(5 * time.Minute)
		require.NotNil(t, used())
		require.NotNil(t, used())
		require.Zero(t, f.Keys.Remembered(), "a key that is not used any more is kept in memory")
	})
}

// Every response to a request with a key is counted once, by route and outcome, over hours and days. Counts that could
// not be stored are stored later. Another team's key shows no usage, and old counts are removed.
func TestUsage(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		k, _ := f.Key(t, actor, p.Environments[0].ID)
		statuses := []int{http.StatusOK, http.StatusNoContent, http.StatusForbidden, http.StatusTooManyRequests,
			http.StatusNotFound, http.StatusInternalServerError}
		count := func() {
			for _, s := range statuses {
				f.Keys.KeyAnswered(k.ID, access.RouteEvents, s)
			}
			f.Keys.KeyAnswered(k.ID, access.RouteConnections, http.StatusOK)
		}
		count()
		f.Exec(t, "ALTER TABLE api_key_usage RENAME TO away")
		require.Error(t, f.Keys.StoreKeyUse(t.Context(), true))
		f.Exec(t, "ALTER TABLE away RENAME TO api_key_usage")
		count()
		require.NoError(t, f.Keys.StoreKeyUse(t.Context(), true))
		f.Clock.Advance(time.Hour)
		count()
		require.NoError(t, f.Keys.StoreKeyUse(t.Context(), true))
		want := func(n int64) []apikeys.UsageCount {
			return []apikeys.UsageCount{{access.RouteConnections, apikeys.UseSucceeded, n},
				{access.RouteEvents, apikeys.UseDenied, n}, {access.RouteEvents, apikeys.UseFailed, n}, {access.RouteEvents,
					apikeys.UseLimited, n}, {access.RouteEvents, apikeys.UseRefused, n},
				{access.RouteEvents, apikeys.UseSucceeded, 2 * n}}
		}
		hours, err := f.Keys.KeyUsage(t.Context(), actor, k.ID, apikeys.UsageRequest{Bucket: apikeys.UsageByHour})
		require.NoError(t, err)
		start := identitytest.Began().Truncate(time.Hour).UnixMilli()
		require.Equal(t, []apikeys.UsagePart{{start, want(2)}, {start + time.Hour.Milliseconds(), want(1)}}, hours.Parts)
		days, err := f.Keys.KeyUsage(t.Context(), actor, k.ID, apikeys.UsageRequest{Bucket: apikeys.UsageByDay})
		require.NoError(t, err)
		require.Equal(t, []apikeys.UsagePart{{identitytest.Began().Truncate(24 * time.Hour).UnixMilli(), want(3)}},
			days.Parts)

		theirs, _, foreign := f.Foreign(t)
		_, err = f.Keys.KeyUsage(t.Context(), actor, foreign.ID, apikeys.UsageRequest{Bucket: apikeys.UsageByDay})
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		_, err = f.Keys.KeyUsage(t.Context(), theirs, k.ID, apikeys.UsageRequest{Bucket: apikeys.UsageByDay})
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		old := f.Clock.Now().Add(-32 * 24 * time.Hour)
		_, err = f.Keys.KeyUsage(t.Context(), actor, k.ID, apikeys.UsageRequest{Bucket: apikeys.UsageByHour, From: &old})
		require.True(t, apperr.Is(err, apperr.CodeValidation))

		f.Clock.Advance(apikeys.UsageKept - time.Hour)
		require.NoError(t, f.Keys.ExpireKeyUse(t.Context()))
		require.Equal(t, 6, f.Count(t, "api_key_usage"), "the hour that is just within the time")
		f.Clock.Advance(time.Hour)
		require.NoError(t, f.Keys.ExpireKeyUse(t.Context()))
		require.Zero(t, f.Count(t, "api_key_usage"))
	})
}

// Only the owner of a key learns that a text is one, and its state. All other cases get one response: typos, wrong and
// rotated secrets, another team's keys. The rate of attempts is limited.
func TestVerifyKey(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		k, text := f.Key(t, actor, p.Environments[0].ID)
		verify := func(who access.Principal, text string) apikeys.Verification {
			t.Helper()
			v, err := f.Keys.VerifyKey(t.Context(), who, secretbox.Secret(text))
			require.NoError(t, err)
			return v
		}
		v := verify(actor, text)
		require.Equal(t, []any{k.ID, true, false}, []any{v.Key.ID, v.Works, v.Previous})
		_, second, err := f.Keys.RotateKey(t.Context(), actor, k.ID, time.Minute)
		require.NoError(t, err)
		require.True(t, verify(actor, text).Previous)
		require.False(t, verify(actor, second.Reveal()).Previous)
		f.Clock.Advance(time.Minute)
		theirs, _, _ := f.Foreign(t)
		for _, none := range []apikeys.Verification{verify(actor, text), verify(actor, "x"), verify(actor, ""),
			verify(actor, apikeys.NewSecret(k.Prefix)), verify(actor, apikeys.NewText(team.Test)),
			verify(theirs, second.Reveal())} {
			require.Equal(t, apikeys.Verification{}, none)
		}
		_, err = f.Keys.DisableKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		v = verify(actor, second.Reveal())
		require.False(t, v.Works)
		require.Equal(t, apikeys.KeyDisabled, v.Key.Status(f.Clock.Now()))
		f.Clock.Advance(apikeys.VerifyWindow)
		for i := range apikeys.MaxVerifications {
			verify(actor, fmt.Sprint(i))
		}
		_, err = f.Keys.VerifyKey(t.Context(), actor, second)
		require.True(t, apperr.Is(err, apperr.CodeRateLimited))
		verify(theirs, "x")
		f.Clock.Advance(apikeys.VerifyWindow)
		verify(actor, "x")
	})
}
