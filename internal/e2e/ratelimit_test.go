package e2e_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/config"
)

// rates requires the headers of a limited answer.
func (a answer) rates(w *world, limit, remaining, reset int) answer {
	w.t.Helper()
	for name, want := range map[string]int{"X-RateLimit-Limit": limit, "X-RateLimit-Remaining": remaining, "X-RateLimit-Reset": reset} {
		require.Equal(w.t, []string{strconv.Itoa(want)}, a.header.Values(name), "%s %s: %s", a.method, a.path, name)
	}
	return a
}

// Each key and each user has a limit of its own. Every answer says how it stands, whatever else it says; a refusal says when to
// come back, and coming back then is right.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		user := w.user(w.env)
		list := func(c credentials) answer { return w.call(c, http.MethodGet, "/webhook-subscriptions?limit=1", nil) }
		for i := range 5 {
			list(w.dev()).want(w, http.StatusOK).rates(w, 10, 9-2*i, 1)
			w.call(w.dev(), http.MethodGet, "/webhook-subscriptions/none", nil).want(w, http.StatusNotFound).rates(w, 10, 8-2*i, 1)
		}
		refused := w.call(w.dev(), http.MethodPost, "/connections", object{"provider": "github"})
		refused.refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		require.Equal(w.t, "1", refused.rates(w, 10, 0, 1).header.Get("Retry-After"))
		list(user).want(w, http.StatusOK).rates(w, 7, 6, 1)
		w.call(byToken(w.token(), ""), http.MethodGet, "/webhook-subscriptions", nil).want(w, http.StatusBadRequest).rates(w, 7, 5, 1)

		// What nobody is known to ask is not limited by key or user, and what comes from providers is not limited at all.
		conn := w.connect(user, object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret})
		for range 20 {
			require.Empty(w.t, w.post(conn.pathToken(), github(issueOpened)).want(w, http.StatusOK).header.Values("X-RateLimit-Limit"))
			require.Empty(w.t, w.get("/healthz").want(w, http.StatusOK).header.Values("X-RateLimit-Limit"))
		}
		w.clk.Advance(100 * time.Millisecond)
		list(w.dev()).want(w, http.StatusOK).rates(w, 10, 0, 1)
		list(w.dev()).refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		w.clk.Advance(time.Hour)
		list(w.dev()).want(w, http.StatusOK).rates(w, 10, 9, 1)
	}, func(c *config.Config) {
		c.RateLimitKeyPerSecond, c.RateLimitKeyBurst = 10, 10
		c.RateLimitUserPerSecond, c.RateLimitUserBurst = 7, 7
	})
}

// Whoever asks without a valid credential is counted by address. No header changes which that is, and who has a credential
// notices nothing of it.
func TestRateLimitByAddress(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		attempts := []func(h http.Header){
			nobody,
			byKey("spk_test_nobody"),
			byToken("no token", ""),
			func(h http.Header) { h["API-Key"] = []string{w.key, w.key} }, // twice is ambiguous, and nobody
			func(h http.Header) { byKey(w.key)(h); byToken("no token", "")(h) },
		}
		for i := range 10 {
			forged := func(h http.Header) {
				attempts[i%len(attempts)](h)
				for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP"} {
					h.Set(name, "198.51.100."+strconv.Itoa(i))
				}
			}
			a := w.call(forged, http.MethodGet, "/webhook-subscriptions", nil).rates(w, 10, 9-i, 1+(i+1)/10)
			require.Contains(w.t, []int{http.StatusUnauthorized, http.StatusBadRequest}, a.status)
		}
		for _, c := range attempts {
			w.call(c, http.MethodGet, "/webhook-subscriptions", nil).refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		}
		w.call(nobody, http.MethodPost, "/team/login", object{"email": w.email, "password": w.password}).
			refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		require.Empty(w.t, w.call(w.dev(), http.MethodGet, "/webhook-subscriptions", nil).want(w, http.StatusOK).header.Values("X-RateLimit-Limit"))
		w.clk.Advance(time.Second)
		w.login(w.email, w.password)
	}, func(c *config.Config) { c.RateLimitAddressPerSecond, c.RateLimitAddressBurst = 9, 10 })
}

// Behind a trusted proxy the client's address counts, and all addresses of one IPv6 network are one.
func TestRateLimitBehindAProxy(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		from := func(address string) answer {
			return w.call(func(h http.Header) { h.Set("X-Forwarded-For", address) }, http.MethodGet, "/webhook-subscriptions", nil)
		}
		for i := range 3 {
			from(fmt.Sprintf("2001:db8:1:2:%x::%x", i, i)).want(w, http.StatusUnauthorized).rates(w, 3, 2-i, 1)
		}
		from("2001:db8:1:2:ffff::1").refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		from("2001:db8:1:3::1").want(w, http.StatusUnauthorized).rates(w, 3, 2, 1)
		from("198.51.100.1").want(w, http.StatusUnauthorized).rates(w, 3, 2, 1)
	}, func(c *config.Config) {
		c.RateLimitAddressPerSecond, c.RateLimitAddressBurst = 3, 3
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
}
