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
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit/await"
)

// An invalid delivery is refused with the reason's code, and leaves no trace in the database: no event, no key, no row
// of any kind. A valid one passes, so the refusals are not due to a missing connection.
func TestRefusedDeliveriesLeaveNothing(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		sw := w.connect(w.dev(), object{"provider": "standard-webhooks", "connection_id": "sw",
			"webhook_secret": standardSecret})
		bare := w.connect(w.dev(), object{"provider": "github", "connection_id": "no-secret"})
		gone := w.connectGitHub("gone")
		w.call(w.dev(), http.MethodDelete, "/connections/github/gone", nil).want(w, http.StatusNoContent)
		good := github(issueOpened)
		signature := good.header.Get("X-Hub-Signature-256")
		signed := func(at time.Time) message { return standard(w.t, standardSecret, "msg_x", at, `{"type":"a"}`) }
		now := w.clk.Now()
		const missing, invalid, unknown = apperr.CodeSignatureMissing, apperr.CodeSignatureInvalid, apperr.CodeNotFound
		for _, c := range []struct {
			name    string
			segment string
			m       message
			code    apperr.Code
		}{
			{"no signature", "acme", good.without("X-Hub-Signature-256"), missing},
			{"an empty signature", "acme", good.with("X-Hub-Signature-256", ""), missing},
			{"a signature of another form", "acme", good.with("X-Hub-Signature-256",
				"sha1=da39a3ee5e6b4b0d3255bfef95601890afd80709"), invalid},
			{"a signature cut short", "acme", good.with("X-Hub-Signature-256", signature[:len(signature)-2]), invalid},
			{"a signature of another secret", "acme", githubAs("another secret", "issues", id.NewUUID(), issueOpened), invalid},
			{"another body", "acme", message{good.header, append([]byte(" "), good.body...)}, invalid},
			{"no body", "acme", message{good.header, nil}, invalid},
			{"no secret to verify with", bare.pathToken(), githubAs("", "issues", id.NewUUID(), issueOpened), invalid},
			{"signed too long ago", "sw", signed(now.Add(-301 * time.Second)), invalid},
			{"signed in the future", "sw", signed(now.Add(302 * time.Second)), invalid},
			{"another time than was signed", "sw", signed(now).with("Webhook-Timestamp", "1"), invalid},
			{"no time", "sw", signed(now).without("Webhook-Timestamp"), invalid},
			{"another id than was signed", "sw", signed(now).with("Webhook-Id", "msg_y"), invalid},
			{"unknown alias", "nobody", good, unknown},
			{"an alias in other case", "ACME", good, unknown},
			{"unknown token", id.NewRandom(id.PrefixPathToken), good, unknown},
			{"half a token", conn.pathToken()[:20], good, unknown},
			{"the connection's uuid", conn.UUID, good, unknown},
			{"a deleted connection's token", gone.pathToken(), good, unknown},
			{"a deleted connection's alias", "gone", good, unknown},
			{"not a name", "%00%ff", good, unknown},
			{"a path", "..%2Facme", good, unknown},
			{"too long", strings.Repeat("a", 4000), good, unknown},
		} {
			w.run(c.name, func(w *world) {
				w.unchanged(func() {
					a := w.post(c.segment, c.m)
					require.Equal(w.t, c.code, a.envelope(w).Error.Code)
					require.Equal(w.t, c.code.Info().Status, a.status)
				})
			})
		}
		require.False(w.t, w.deliver("acme", good).Duplicate)
		require.False(w.t, w.deliver(conn.pathToken(), github(issueOpened)).Duplicate)
		require.False(w.t, w.deliver(sw.pathToken(), signed(now.Add(-299*time.Second))).Duplicate)
		require.NotContains(w.t, w.logs.String(), conn.pathToken(), "a path token unlocks, so the log has none")
	})
}

// The inbound route takes the methods of deliveries and handshakes, the connection those of its provider, and both say
// so; its credential is the signature, regardless of the rest of the request.
func TestInboundMethodAndCredentials(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete,
			http.MethodOptions, http.MethodPatch} {
			a := w.call(w.dev(), method, "/webhook/acme", nil).want(w, http.StatusMethodNotAllowed)
			allowed := "GET, HEAD, OPTIONS, POST" // by the route
			if strings.Contains(allowed, method) {
				allowed = "POST" // by the connection, whose provider knows no handshake
			}
			require.Equal(w.t, allowed, a.header.Get("Allow"), method)
		}
		w.call(w.dev(), http.MethodPost, "/webhook/acme", raw(issueOpened)).refused(w, http.StatusUnauthorized,
			apperr.CodeSignatureMissing)
		w.deliver("acme", github(issueOpened).with("API-Key", "nonsense").with("Authorization",
			"nonsense").with("Environment-Id", "nonsense"))
		w.call(anonymous, http.MethodPost, "/webhook/", raw(issueOpened)).want(w, http.StatusNotFound)
		w.call(anonymous, http.MethodPost, "/webhook/acme/more", raw(issueOpened)).want(w, http.StatusNotFound)
	})
}

// Too large is refused, whether the sender announces it or not, and never cut to size.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "small",
			"webhook_secret": "a shared secret", "webhook": object{"max_body_bytes": 300 << 10}})
		w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "tiny", "webhook_secret": "a shared secret",
			"webhook": object{"max_body_bytes": 100}})
		w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "standard-size",
			"webhook_secret": "a shared secret"})
		w.unchanged(func() {
			for _, c := range []struct {
				segment string
				size    int
			}{{"tiny", 101}, {"small", 300<<10 + 1}, {"small", 256 << 10 * 2}, {conn.pathToken(), 2 << 20},
				{"standard-size", 4<<20 + 1}} {
				m := generic("a shared secret", "text/plain", strings.Repeat("x", c.size))
				w.post(c.segment, m).refused(w, http.StatusRequestEntityTooLarge, apperr.CodePayloadTooLarge)
				w.chunked(c.segment, m).refused(w, http.StatusRequestEntityTooLarge, apperr.CodePayloadTooLarge)
			}
		})
		w.chunked("tiny", generic("a shared secret", "text/plain", strings.Repeat("x", 100))).want(w, http.StatusOK)
		for _, size := range []int{1, 256 << 10, 256<<10 + 1, 300 << 10} {
			m := generic("a shared secret", "text/plain", strings.Repeat("y", size))
			w.chunked("small", m).want(w, http.StatusOK)
			require.Equal(w.t, int64(size), w.event(w.deliver("small", m).EventUUID).BodySize)
		}
	}, func(c *config.Config) { c.WebhookMaxBodyBytes = 4 << 20 })
}

// chunked posts a message without announcing its length.
func (w *world) chunked(segment string, m message) response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.base+prefix+"/webhook/"+segment,
		io.MultiReader(strings.NewReader(string(m.body))))
	require.NoError(w.t, err)
	r.Header = m.header
	require.Zero(w.t, r.ContentLength)
	return w.send(r)
}

// A connection that is switched off says so for as long as it is, and its provider has to come back.
func TestDisabledConnection(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		m := github(issueOpened)
		w.call(w.dev(), http.MethodPost, "/connections/github/acme", object{"operation": "disable"}).want(w, http.StatusOK)
		w.unchanged(func() {
			a := w.post(conn.pathToken(), m)
			a.refused(w, http.StatusServiceUnavailable, apperr.CodeConnectionDisabled)
			require.Equal(w.t, "60", a.header.Get("Retry-After"))
		})
		w.call(w.dev(), http.MethodPost, "/connections/github/acme", object{"operation": "enable"}).want(w, http.StatusOK)
		require.False(w.t, w.deliver(conn.pathToken(), m).Duplicate)
	})
}

// A new secret is valid from the next delivery on, and the old one no longer. A new path closes the old one, and the
// alias stays. Nothing cached outlives the response to the change.
func TestRotation(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		w.deliver("acme", github(issueOpened))
		w.call(w.dev(), http.MethodPatch, "/connections/github/acme", object{"webhook_secret": "the second secret"}).want(w,
			http.StatusOK)
		w.post("acme", github(issueOpened)).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		w.deliver("acme", githubAs("the second secret", "issues", id.NewUUID(), issueOpened))

		var rotated connection
		w.call(w.dev(), http.MethodPost, "/connections/github/acme", object{"operation": "rotate_webhook_path"}).want(w,
			http.StatusOK).into(w, &rotated)
		require.NotEqual(w.t, conn.pathToken(), rotated.pathToken())
		w.post(conn.pathToken(), githubAs("the second secret", "issues", id.NewUUID(), issueOpened)).refused(w,
			http.StatusNotFound, apperr.CodeNotFound)
		for _, segment := range []string{rotated.pathToken(), "acme"} {
			w.deliver(segment, githubAs("the second secret", "issues", id.NewUUID(), issueOpened))
		}
		w.call(w.dev(), http.MethodPatch, "/connections/github/acme", object{"webhook_secret": nil}).want(w, http.StatusOK)
		w.post("acme", githubAs("the second secret", "issues", id.NewUUID(), issueOpened)).refused(w, http.StatusUnauthorized,
			apperr.CodeSignatureInvalid)
	})
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
