package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit"
)

// Nodes whose own clocks are half a minute apart use the database's: a token of one is valid at the other from that
// moment on and ends there at the same time, and a limit that is used up at one is used up at the other.
func TestNodesWithSkewedClocks(t *testing.T) {
	t.Parallel()
	const skew = 30 * time.Second
	for name, own := range map[string]time.Duration{"fast": skew, "slow": -skew} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testkit.NewPostgres(t), t.TempDir())
			w.cfg.RateLimitKeyPerSecond, w.cfg.RateLimitKeyBurst = 1, 2
			w.start()
			n := newWorld(t, w.databaseURL, w.dir)
			n.cfg, n.shared, n.clk = w.cfg, w.shared, clock.NewManual(w.clk.Now().Add(own))
			n.ahead.Store(int64(-own))
			n.start()
			me := func(at *world, token string) response {
				return at.call(byToken(token, ""), http.MethodGet, "/team/me", nil)
			}
			here, there := w.login(w.email, w.password), n.login(w.email, w.password)
			for _, at := range []*world{w, n} {
				me(at, here).want(at, http.StatusOK)
				me(at, there).want(at, http.StatusOK)
			}
			list := func(at *world) response { return at.call(w.dev(), http.MethodGet, "/connections", nil) }
			list(n).want(n, http.StatusOK)
			list(w).want(w, http.StatusOK)
			list(n).refused(n, http.StatusTooManyRequests, apperr.CodeRateLimited)
			list(w).refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
			var k apiKey
			w.call(byToken(here, ""), http.MethodPost, "/api-keys", object{"name": "short", "environment_id": w.env,
				"grants": []object{allow("connections")}, "expires_at": w.clk.Now().Add(10 * time.Second)}).want(
				w, http.StatusCreated).into(w, &k)
			for _, at := range []*world{w, n} {
				at.call(byKey(k.Key), http.MethodGet, "/connections", nil).want(at, http.StatusOK)
				at.clk.Advance(10 * time.Second)
				at.call(byKey(k.Key), http.MethodGet, "/connections", nil).refused(at, http.StatusUnauthorized,
					apperr.CodeAPIKeyExpired)
				at.clk.Advance(15*time.Minute - 10*time.Second)
				me(at, here).refused(at, http.StatusUnauthorized, apperr.CodeUnauthorized)
				me(at, there).refused(at, http.StatusUnauthorized, apperr.CodeUnauthorized)
			}
		})
	}
}
