package e2e_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/testkit/await"
)

// An address that keeps sending refused requests has to wait, to the second, and nothing it sends to the connection
// meanwhile is verified: not even a guess that is right. Its webhooks to other connections pass all the same, because
// others may be behind the address, and a webhook that was turned away may never come back. Other addresses are not
// affected.
func TestRefusalsAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		globex, initech := w.connectGitHub("globex"), w.connectGitHub("initech")
		const noisy, quiet = "198.51.100.7", "198.51.100.8"
		bad := github(issueOpened).with("X-Hub-Signature-256", "sha256=00")
		for range 100 {
			w.post("acme", bad.with("X-Forwarded-For", noisy)).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		}
		for _, segment := range []string{"acme", "nobody"} {
			a := w.post(segment, bad.with("X-Forwarded-For", noisy))
			a.refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
			require.Equal(w.t, "1", a.rates(w, 100, 0, 5).header.Get("Retry-After"))
		}
		for _, m := range []message{github(issueOpened), github("{}").with("Content-Type", "text/plain")} {
			w.unchanged(func() {
				w.post("acme", m.with("X-Forwarded-For", noisy)).refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
			})
		}
		w.deliver(globex.pathToken(), github(issueOpened).with("X-Forwarded-For", quiet)) // and so the node knows it
		for _, segment := range []string{globex.pathToken(), initech.pathToken(), "initech"} {
			w.fresh(segment, github(issueOpened).with("X-Forwarded-For", noisy))
		}
		w.deliver("acme", github(issueOpened).with("X-Forwarded-For", quiet))
		w.post("acme", bad.with("X-Forwarded-For", quiet)).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		w.clk.Advance(time.Second)
		for range 20 {
			w.post("acme", bad.with("X-Forwarded-For", noisy)).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		}
		w.post("acme", bad.with("X-Forwarded-For", noisy)).refused(w, http.StatusTooManyRequests, apperr.CodeRateLimited)
		w.clk.Advance(50 * time.Millisecond)
		for range 200 {
			w.deliver("acme", github(issueOpened).with("X-Forwarded-For", noisy))
		}
	}, func(c *config.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
}

// Wrong webhooks that a provider sends on behalf of a stranger do not close a connection that it signs webhooks for; a
// connection whose webhooks carry the secret is closed, because each of them may be a guess.
func TestWrongWebhooksFromTheProvidersAddress(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		w.connect(w.dev(), object{"provider": "generic-token", "connection_id": "tokens",
			"webhook_secret": "a shared secret"})
		right := func(segment string) message {
			if segment == "acme" {
				return github(issueOpened)
			}
			return message{header: http.Header{"X-Webhook-Token": {"a shared secret"}}, body: []byte("{}")}
		}
		for segment, status := range map[string]int{"acme": http.StatusOK, "tokens": http.StatusTooManyRequests} {
			w.deliver(segment, right(segment))
			wrong := github(issueOpened).with("X-Hub-Signature-256", "sha256=00").with("X-Webhook-Token", "wrong")
			for range 200 {
				w.post(segment, wrong)
			}
			w.post(segment, right(segment)).want(w, status)
		}
	})
}

// slow returns a function that posts a message and returns the status, and a channel that yields, once the server asks
// for the body (100 Continue, RFC 9110 §10.1.1), the function that lets the body go.
func (w *world) slow(segment string, m message) (send func() int, asked <-chan func()) {
	w.t.Helper()
	body := &gated{rest: strings.NewReader(string(m.body)), asked: make(chan func(), 1), gate: make(chan struct{})}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.base+prefix+"/webhook/"+segment, body)
	require.NoError(w.t, err)
	r.Header = m.with("Expect", "100-continue").header
	r.ContentLength = int64(len(m.body))
	return func() int {
		resp, err := w.http.Do(r)
		if err != nil {
			return 0
		}
		_, _ = io.Copy(io.Discard, resp.Body) // the status is what counts
		_ = resp.Body.Close()
		return resp.StatusCode
	}, body.asked
}

// gated is a body that waits, when it is first read, until it is let go.
type gated struct {
	once  sync.Once
	asked chan func()
	gate  chan struct{}
	rest  io.Reader
}

// Read reports that the body is asked for, waits, and reads.
func (g *gated) Read(p []byte) (int, error) {
	g.once.Do(func() { g.asked <- sync.OnceFunc(func() { close(g.gate) }) })
	<-g.gate
	return g.rest.Read(p)
}

// A body that breaks off, or that is shorter than announced, is not taken for a whole one.
func TestBrokenOffBody(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "generic-hmac", "webhook_secret": "a shared secret"})
		m := generic("a shared secret", "text/plain", "whole")
		w.unchanged(func() {
			for _, announced := range []int64{10, 1 << 20, -1} {
				r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.base+prefix+"/webhook/"+conn.pathToken(),
					io.MultiReader(strings.NewReader("whole"), brokenReader{}))
				require.NoError(w.t, err)
				r.Header, r.ContentLength = m.header, announced
				resp, err := w.http.Do(r)
				if err == nil {
					_ = resp.Body.Close()
				}
				require.Error(w.t, err, "the sender broke off")
			}
			// The server has dealt with the requests when it has logged them.
			await.Condition(w.t, "the broken requests in the log", func() bool {
				return strings.Count(w.logs.String(), "The request body ended early") == 3
			})
		})
		require.False(w.t, w.deliver(conn.pathToken(), m).Duplicate)
	})
}

// A body whose chunks are malformed is called that, and not one that ended early: at the inbound endpoint, in the API,
// and with an Idempotency-Key, for which the body is read before.
func TestMalformedChunksOfABody(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "generic-hmac", "webhook_secret": "a shared secret"})
		target, err := url.Parse(w.base)
		require.NoError(w.t, err)
		for _, head := range []string{
			"POST " + prefix + "/webhook/" + conn.pathToken() + " HTTP/1.1\r\nX-Signature: " + strings.Repeat("0", 64) + "\r\n",
			"POST " + prefix + "/connections HTTP/1.1\r\nAPI-Key: " + w.key + "\r\n",
			"POST " + prefix + "/connections HTTP/1.1\r\nIdempotency-Key: k\r\nAPI-Key: " + w.key + "\r\n",
		} {
			c, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", target.Host)
			require.NoError(w.t, err)
			_, err = io.WriteString(c, head+"Host: "+target.Host+"\r\nContent-Type: application/json\r\n"+
				"Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n")
			require.NoError(w.t, err)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(w.t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(w.t, err)
			require.NoError(w.t, resp.Body.Close())
			require.NoError(w.t, c.Close())
			require.Equal(w.t, http.StatusBadRequest, resp.StatusCode, "%s", text)
			require.Contains(w.t, string(text), "The request is malformed: a chunk of the body is malformed", head)
		}
	})
}

type brokenReader struct{}

// Read fails.
func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
