package identity

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

// A key's last use is written down soon after the first and then at most once a minute, in one form however it came; no
// use costs a query of its own.
func TestLastUse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		k, _ := f.key(t, actor, p.Environments[0].ID)
		used := func() *KeyUse {
			t.Helper()
			require.NoError(t, f.StoreKeyUse(t.Context(), false))
			got, err := f.GetKey(t.Context(), actor, k.ID)
			require.NoError(t, err)
			return got.LastUsed
		}
		require.Nil(t, used())
		first := f.clk.Now()
		f.KeySeen(k.ID, "192.0.2.1", "billing/1.4\n"+strings.Repeat("x", 1000), "GET /webhook-events")
		got := used()
		require.Equal(t, clock.Millis(first), got.AtMillis)
		require.Equal(t, []string{"192.0.2.1", "GET /webhook-events"}, []string{got.IP, got.Route})
		require.True(t, strings.HasPrefix(got.UserAgent, "billing/1.4x"))
		require.Len(t, got.UserAgent, 256)
		f.clk.Advance(usePrecision - time.Millisecond)
		f.KeySeen(k.ID, "192.0.2.2", "", "GET /connections")
		require.Equal(t, got, used(), "written twice within a minute")
		f.clk.Advance(time.Millisecond)
		require.Equal(t, "192.0.2.2", used().IP)
		f.clk.Advance(5 * time.Minute)
		require.NotNil(t, used())
		require.NotNil(t, used())
		require.Empty(t, f.uses.byKey, "a key that is not used any more is kept in memory")
	})
}

// Every answer to a request with a key is counted once, by route and outcome, over hours and days; what could not be
// stored is stored later; another team's key has no usage to see, and old counts go.
func TestUsage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		k, _ := f.key(t, actor, p.Environments[0].ID)
		statuses := []int{http.StatusOK, http.StatusNoContent, http.StatusForbidden, http.StatusTooManyRequests,
			http.StatusNotFound, http.StatusInternalServerError}
		count := func() {
			for _, s := range statuses {
				f.KeyAnswered(k.ID, access.RouteEvents, s)
			}
			f.KeyAnswered(k.ID, access.RouteConnections, http.StatusOK)
		}
		count()
		f.exec(t, "ALTER TABLE api_key_usage RENAME TO away")
		require.Error(t, f.StoreKeyUse(t.Context(), true))
		f.exec(t, "ALTER TABLE away RENAME TO api_key_usage")
		count()
		require.NoError(t, f.StoreKeyUse(t.Context(), true))
		f.clk.Advance(time.Hour)
		count()
		require.NoError(t, f.StoreKeyUse(t.Context(), true))
		want := func(n int64) []UsageCount {
			return []UsageCount{{access.RouteConnections, UseSucceeded, n}, {access.RouteEvents, UseDenied, n},
				{access.RouteEvents, UseFailed, n}, {access.RouteEvents, UseLimited, n}, {access.RouteEvents, UseRefused, n},
				{access.RouteEvents, UseSucceeded, 2 * n}}
		}
		hours, err := f.KeyUsage(t.Context(), actor, k.ID, UsageRequest{Bucket: UsageByHour})
		require.NoError(t, err)
		start := began().Truncate(time.Hour).UnixMilli()
		require.Equal(t, []UsagePart{{start, want(2)}, {start + time.Hour.Milliseconds(), want(1)}}, hours.Parts)
		days, err := f.KeyUsage(t.Context(), actor, k.ID, UsageRequest{Bucket: UsageByDay})
		require.NoError(t, err)
		require.Equal(t, []UsagePart{{began().Truncate(24 * time.Hour).UnixMilli(), want(3)}}, days.Parts)

		theirs, _, foreign := f.foreign(t)
		_, err = f.KeyUsage(t.Context(), actor, foreign.ID, UsageRequest{Bucket: UsageByDay})
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		_, err = f.KeyUsage(t.Context(), theirs, k.ID, UsageRequest{Bucket: UsageByDay})
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		old := f.clk.Now().Add(-32 * 24 * time.Hour)
		_, err = f.KeyUsage(t.Context(), actor, k.ID, UsageRequest{Bucket: UsageByHour, From: &old})
		require.True(t, apperr.Is(err, apperr.CodeValidation))

		f.clk.Advance(UsageKept - time.Hour)
		require.NoError(t, f.ExpireKeyUse(t.Context()))
		require.Equal(t, 6, f.count(t, "api_key_usage"), "the hour that is just within the time")
		f.clk.Advance(time.Hour)
		require.NoError(t, f.ExpireKeyUse(t.Context()))
		require.Zero(t, f.count(t, "api_key_usage"))
	})
}

// Only who owns a key learns that a text is one, and what has become of it. Everything else is one answer: typos, wrong
// and rotated secrets, another team's keys. Nobody tries many.
func TestVerifyKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		k, text := f.key(t, actor, p.Environments[0].ID)
		verify := func(who access.Principal, text string) Verification {
			t.Helper()
			v, err := f.VerifyKey(t.Context(), who, secretbox.Secret(text))
			require.NoError(t, err)
			return v
		}
		v := verify(actor, text)
		require.Equal(t, []any{k.ID, true, false}, []any{v.Key.ID, v.Works, v.Previous})
		_, second, err := f.RotateKey(t.Context(), actor, k.ID, time.Minute)
		require.NoError(t, err)
		require.True(t, verify(actor, text).Previous)
		require.False(t, verify(actor, second.Reveal()).Previous)
		f.clk.Advance(time.Minute)
		theirs, _, _ := f.foreign(t)
		for _, none := range []Verification{verify(actor, text), verify(actor, "x"), verify(actor, ""),
			verify(actor, rotated(k.Prefix).String()), verify(actor, newKeyText(Test).String()),
			verify(theirs, second.Reveal())} {
			require.Equal(t, Verification{}, none)
		}
		_, err = f.DisableKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		v = verify(actor, second.Reveal())
		require.False(t, v.Works)
		require.Equal(t, KeyDisabled, v.Key.Status(f.clk.Now()))
		f.clk.Advance(verifyWindow)
		for i := range maxVerifications {
			verify(actor, fmt.Sprint(i))
		}
		_, err = f.VerifyKey(t.Context(), actor, second)
		require.True(t, apperr.Is(err, apperr.CodeRateLimited))
		verify(theirs, "x")
		f.clk.Advance(verifyWindow)
		verify(actor, "x")
	})
}
