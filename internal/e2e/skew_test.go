package e2e_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// Nodes whose own clocks are half a minute apart go by the database's: what one signs holds at the other from that
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
			me := func(at *world, token string) answer {
				return at.call(byToken(token, ""), http.MethodGet, "/team/me", nil)
			}
			here, there := w.login(w.email, w.password), n.login(w.email, w.password)
			for _, at := range []*world{w, n} {
				me(at, here).want(at, http.StatusOK)
				me(at, there).want(at, http.StatusOK)
			}
			list := func(at *world) answer { return at.call(w.dev(), http.MethodGet, "/connections", nil) }
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

// A request that says twice how long it is, or not as a number, is refused, and nothing behind it on the connection is
// taken for a request (RFC 9112, sections 6.3 and 11.2): of such disagreements smuggling through a proxy is made.
func TestDuplicateContentLength(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		c := w.connectGitHub("acme")
		host, m := strings.TrimPrefix(w.base, "http://"), github(issueOpened)
		length := strconv.Itoa(len(m.body))
		send := func(fields ...string) (status int, closes bool) {
			var head strings.Builder
			require.NoError(w.t, m.header.Write(&head))
			for _, f := range fields {
				head.WriteString(f + "\r\n")
			}
			conn, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", host)
			require.NoError(w.t, err)
			_, err = io.WriteString(conn, "POST "+prefix+"/webhook/"+c.pathToken()+" HTTP/1.1\r\nHost: "+host+"\r\n"+
				head.String()+"\r\n"+string(m.body)+
				"GET /smuggled HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
			require.NoError(w.t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(w.t, err)
			require.NoError(w.t, resp.Body.Close())
			require.NoError(w.t, conn.Close())
			return resp.StatusCode, resp.Close
		}
		w.unchanged(func() {
			for _, fields := range [][]string{
				{"Content-Length: 0", "Content-Length: " + length},
				{"Content-Length: " + length, "Content-Length: 0"},
				{"Content-Length: " + length + ", 0"},
				{"Content-Length: +" + length},
				{"Content-Length: -1"},
				{"Content-Length: 0x10"},
				{"Content-Length: " + length, "Transfer-Encoding: identity"},
			} {
				status, closes := send(fields...)
				require.Contains(w.t, []int{http.StatusBadRequest, http.StatusNotImplemented}, status, fields)
				require.True(w.t, closes, "the connection ends with the refusal")
			}
		})
		require.NotContains(w.t, w.logs.String(), "smuggled")
		status, _ := send("Content-Length: " + length)
		require.Equal(w.t, http.StatusOK, status)
		await.Condition(w.t, "the request behind a whole one", func() bool {
			return strings.Contains(w.logs.String(), `"status":404`)
		})
	})
}
