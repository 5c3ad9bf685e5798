package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/reference"
)

// rates requires the headers of a limited response.
func (a response) rates(w *world, limit, remaining, reset int) response {
	w.t.Helper()
	for name, want := range map[string]int{"X-RateLimit-Limit": limit, "X-RateLimit-Remaining": remaining,
		"X-RateLimit-Reset": reset} {
		require.Equal(w.t, []string{strconv.Itoa(want)}, a.header.Values(name), "%s %s: %s", a.method, a.path, name)
	}
	return a
}

func rateHeaders() []string {
	return []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
}

// Each key and each user has a limit of its own. Every response says how much is left, with any other content. A
// refusal says when to retry, and a retry then succeeds.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		user := w.user(w.env)
		list := func(c credentials) response { return w.call(c, http.MethodGet, "/webhook-subscriptions?limit=1", nil) }
		for i := range 5 {
			list(w.dev()).want(w, http.StatusOK).rates(w, 10, 9-2*i, 1)
			w.call(w.dev(), http.MethodGet, "/webhook-subscriptions/none", nil).want(w, http.StatusNotFound).rates(w, 10, 8-2*i,
				1)
		}
		refused := w.call(w.dev(), http.MethodPost, "/connections", object{"provider": "github"})
		refused.refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		require.Equal(w.t, "1", refused.rates(w, 10, 0, 1).header.Get("Retry-After"))
		list(user).want(w, http.StatusOK).rates(w, 7, 6, 1)
		w.call(byToken(w.token(), ""), http.MethodGet, "/webhook-subscriptions", nil).want(w, http.StatusBadRequest).rates(w,
			7, 5, 1)

		// Requests without a known caller are not limited by key or user, and requests of providers are not limited at all.
		conn := w.connect(user, object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret})
		for range 20 {
			require.Empty(w.t, w.post(conn.pathToken(), github(issueOpened)).want(w, http.StatusOK).header.Values(
				"X-RateLimit-Limit"))
			require.Empty(w.t, w.get("/healthz").want(w, http.StatusOK).header.Values("X-RateLimit-Limit"))
		}
		w.clk.Advance(100 * time.Millisecond)
		list(w.dev()).want(w, http.StatusOK).rates(w, 10, 0, 1)
		list(w.dev()).refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		w.clk.Advance(time.Hour)
		list(w.dev()).want(w, http.StatusOK).rates(w, 10, 9, 1)

		// A key may have a limit of its own, which can be changed while it is used.
		own := w.newKey(w.env, allow("webhooks"))
		set := func(limit any) {
			w.call(w.user(w.env), http.MethodPatch, "/api-keys/"+own.ID, object{"rate_limit": limit}).want(w, http.StatusOK)
		}
		list(byKey(own.Key)).rates(w, 10, 9, 1)
		set(object{"per_second": 1, "burst": 2})
		w.clk.Advance(time.Minute)
		list(byKey(own.Key)).rates(w, 2, 1, 1)
		list(byKey(own.Key)).rates(w, 2, 0, 2)
		list(byKey(own.Key)).refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		set(nil)
		w.clk.Advance(time.Minute)
		list(byKey(own.Key)).want(w, http.StatusOK).rates(w, 10, 9, 1)
	}, func(c *config.Config) {
		c.RateLimitKeyPerSecond, c.RateLimitKeyBurst = 10, 10
		c.RateLimitUserPerSecond, c.RateLimitUserBurst = 7, 7
	})
}

// Requests without a valid credential are counted by address. No header changes the address, and a caller with a
// credential is not affected.
func TestRateLimitByAddress(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		attempts := []func(h http.Header){
			anonymous,
			byKey("spk_test_nobody"),
			byToken("no token", ""),
			func(h http.Header) { h["API-Key"] = []string{w.key, w.key} }, // twice is ambiguous, and no caller
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
			w.call(c, http.MethodGet, "/webhook-subscriptions", nil).refused(w, http.StatusTooManyRequests,
				apperr.CodeRateLimited)
		}
		w.call(anonymous, http.MethodPost, "/team/login", object{"email": w.email, "password": w.password}).
			refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		require.Empty(w.t, w.call(w.dev(), http.MethodGet, "/webhook-subscriptions", nil).want(w,
			http.StatusOK).header.Values("X-RateLimit-Limit"))
		w.clk.Advance(time.Second)
		w.login(w.email, w.password)
	}, func(c *config.Config) { c.RateLimitAddressPerSecond, c.RateLimitAddressBurst = 9, 10 })
}

// Behind a trusted proxy the client's address counts, and all addresses of one IPv6 network are one.
func TestRateLimitBehindAProxy(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		from := func(address string) response {
			return w.call(func(h http.Header) {
				h.Set("X-Forwarded-For", address)
			}, http.MethodGet, "/webhook-subscriptions", nil)
		}
		for i := range 3 {
			from(fmt.Sprintf("2001:db8:1:2:%x::%x", i, i)).want(w, http.StatusUnauthorized).rates(w, 3, 2-i, 1)
		}
		from("2001:db8:1:2:ffff::1").refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		from("2001:db8:1:3::1").want(w, http.StatusUnauthorized).rates(w, 3, 2, 1)
		from("198.51.100.1").want(w, http.StatusUnauthorized).rates(w, 3, 2, 1)

		// An address that a client writes before the proxy does neither gives it another address nor counts for that of
		// another.
		const forger, victim = "198.51.100.66", "203.0.113.5"
		for i := range 3 {
			from(fmt.Sprintf("%s, 203.0.113.%d, %s", victim, 10+i, forger)).want(w, http.StatusUnauthorized).rates(w, 3, 2-i, 1)
		}
		// two fields are one list (RFC 9110, section 5.3)
		twice := func(h http.Header) { h["X-Forwarded-For"] = []string{victim, forger} }
		w.call(twice, http.MethodGet, "/webhook-subscriptions", nil).refused(w, http.StatusTooManyRequests,
			apperr.CodeRateLimited)
		from(victim).want(w, http.StatusUnauthorized).rates(w, 3, 2, 1)
	}, func(c *config.Config) {
		c.RateLimitAddressPerSecond, c.RateLimitAddressBurst = 3, 3
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
}

// Every operation says in every response how much of the caller's limit is left, and refuses beyond it, before it does
// anything. Nothing is carried out here: no operation takes the parameter.
func TestEveryOperationIsLimited(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		parameter := regexp.MustCompile(`\{[a-z_]+\}`)
		user := w.user(w.env) // the sign-in was all that the address may ask
		for _, op := range reference.API().Operations() {
			path := parameter.ReplaceAllString(op.Path, "x") + "?unheard_of=1"
			ask := func(c credentials) response { return w.call(c, op.Method, path, nil) }
			a := ask(anonymous)
			a.refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
			require.Equal(w.t, "1", a.rates(w, 1, 0, 1).header.Get("Retry-After"))
			if op.Public {
				continue
			}
			for limit, c := range map[string]credentials{"1000000": w.dev(), "900000": user} {
				if a := ask(c); op.Route != "" || limit == "900000" {
					require.NotEqual(w.t, http.StatusTooManyRequests, a.status, op.ID)
					require.Equal(w.t, []string{limit}, a.header.Values("X-RateLimit-Limit"), op.ID)
					require.Len(w.t, a.header.Values("X-RateLimit-Remaining"), 1, op.ID)
					require.Len(w.t, a.header.Values("X-RateLimit-Reset"), 1, op.ID)
				}
			}
		}
	}, func(c *config.Config) {
		c.RateLimitAddressPerSecond, c.RateLimitAddressBurst = 1, 1
		c.RateLimitKeyPerSecond, c.RateLimitKeyBurst = 1000, 1_000_000
		c.RateLimitUserPerSecond, c.RateLimitUserBurst = 1000, 900_000
	})
}

// The limits of a key and of a connection hold for four nodes together within a tenth, and not for each.
func TestRateLimitOfFourNodes(t *testing.T) {
	t.Parallel()
	const perSecond, burst, steps, step = 100, 200, 40, 50 * time.Millisecond
	w := newWorld(t, testkit.NewPostgres(t), t.TempDir())
	w.cfg.RateLimitKeyPerSecond, w.cfg.RateLimitKeyBurst = perSecond, burst
	w.start()
	conn := w.connect(w.user(w.env), object{"provider": "github", "webhook_secret": githubSecret,
		"webhook": object{"rate_limit_per_second": perSecond}})
	nodes := []*world{w, w.node(), w.node(), w.node()}
	var taken, delivered, odd atomic.Int64
	count := func(r *http.Request, into *atomic.Int64, whole int) {
		resp, err := w.http.Do(r)
		if err != nil {
			odd.Add(1)
			return
		}
		_ = resp.Body.Close()
		switch {
		case resp.StatusCode == whole:
			into.Add(1)
		case resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" ||
			resp.Header.Get("X-RateLimit-Remaining") != "0":
			odd.Add(1)
		}
	}
	for range steps {
		var all sync.WaitGroup
		for _, n := range nodes {
			for range 4 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.base+prefix+"/webhook-subscriptions/none", nil)
				require.NoError(t, err)
				w.dev()(r.Header)
				all.Go(func() { count(r, &taken, http.StatusNotFound) })
				m := github(issueOpened)
				delivery, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.base+prefix+"/webhook/"+
					conn.pathToken(), bytes.NewReader(m.body))
				require.NoError(t, err)
				delivery.Header = m.header
				all.Go(func() { count(delivery, &delivered, http.StatusOK) })
			}
		}
		all.Wait()
		w.clk.Advance(step)
	}
	require.Zero(t, odd.Load(), "neither carried out nor properly refused")
	const seconds = steps * int(step/time.Millisecond) / 1000
	require.InEpsilon(t, burst+perSecond*seconds, taken.Load(), 0.1)
	// a connection takes a second's worth at a time
	require.InEpsilon(t, perSecond+perSecond*seconds, delivered.Load(), 0.1)
}
