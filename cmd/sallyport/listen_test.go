package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// local is a developer's own server, which keeps what it is sent.
type local struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
}

// newLocal starts a receiver that responds with respond; nil responds with 202.
func newLocal(t *testing.T, respond http.HandlerFunc) *local {
	t.Helper()
	l := &local{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		l.mu.Lock()
		l.bodies, l.heads = append(l.bodies, string(body)), append(l.heads, r.Header.Clone())
		l.mu.Unlock()
		if respond == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		respond(w, r)
	}))
	await.Close(t, l.Server)
	return l
}

// Events reach a URL of the developer's as they arrive: their headers and their body byte for byte, signed with the
// secret that was shown. Duplicates and filtered events do not.
func TestListen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		s, r, _, _ := prepare(t, in)
		app, other := newLocal(t, nil), newLocal(t, nil)
		c := r.start("listen", "--forward", app.URL+"/hook?x=1", "--event-type", "issues.*", "--connection-id", "repo",
			"--provider", "github", "--provider-config-key", "github")
		none := r.start("listen", "--forward", other.URL, "--connection-id", "elsewhere")
		for _, l := range []*running{c, none} {
			l.waits(1, `Forwarded events are signed with the secret whsec_\S{44}\nListening to `+regexp.QuoteMeta(s.base)+
				` and forwarding to http`, &l.stderr)
		}
		s.deliver(t, "one  two") // blanks that JSON does not need are part of the bytes
		s.deliver(t, "one  two")
		s.deliver(t, "three")
		c.waits(2, `(?m)^\d\d:\d\d:\d\d  [0-9a-f-]{36}  issues\.opened  github/repo  202  \d+\.\d ms$`, &c.out)
		c.interrupt()
		require.Contains(t, c.stderr.String(), "\n2 events arrived, 0 failed.\n")
		none.interrupt()
		require.Contains(t, none.stderr.String(), "\n0 events arrived")
		require.Empty(t, other.bodies)
		require.Equal(t, []string{`{"action":"opened","issue":{"title":"one  two"}}`,
			`{"action":"opened","issue":{"title":"three"}}`}, app.bodies)
		hook, err := standardwebhooks.NewWebhook(regexp.MustCompile(`whsec_\S+`).FindString(c.stderr.String()))
		require.NoError(t, err)
		for i, h := range app.heads {
			require.NoError(t, hook.Verify([]byte(app.bodies[i]), h))
			require.Equal(t, "issues", h.Get("X-Github-Event"))
			require.Equal(t, "application/json", h.Get("Content-Type"))
			require.Equal(t, "issues.opened", h.Get("Sallyport-Event-Type"))
			require.Equal(t, "1", h.Get("Sallyport-Hops"))
			require.NotContains(t, h, "X-Hub-Signature-256", "what is redacted is left out")
		}

		// Stored events are forwarded again when a developer asks for them.
		event := decode[[]eventRow](t, r.do("events", "list", "--json", "--no-duplicate"))[0].EventUUID
		out := r.run("", "listen", "--forward", app.URL, "--replay", event)
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Regexp(t, `^\d\d:\d\d:\d\d  `+event+`  issues\.opened  github/repo  202  \d+\.\d ms\n$`, out.out)
		require.Equal(t, `{"action":"opened","issue":{"title":"three"}}`, app.bodies[2])
		hook, err = standardwebhooks.NewWebhook(regexp.MustCompile(`whsec_\S+`).FindString(out.stderr))
		require.NoError(t, err)
		require.NoError(t, hook.Verify([]byte(app.bodies[2]), app.heads[2]))
		require.Equal(t, exitFailed, r.run("", "listen", "--forward", "http://127.0.0.1:1/", "--replay", event).code)
		r.refuse(exitFailed, "not_found", "listen", "--forward", app.URL, "--replay", "nothing")
		r.refuse(exitUsage, "no filter", "listen", "--forward", app.URL, "--replay", event, "--provider", "github")
	})
}

// A refused event is shown with the reason and does not stop the next. JSON is one object a line. The developer's own
// secret is used and not shown.
func TestListenToFailures(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		s, r, _, _ := prepare(t, in)
		ends := make(chan struct{})
		refusing := newLocal(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		hanging := newLocal(t, func(http.ResponseWriter, *http.Request) { <-ends })
		t.Cleanup(func() { close(ends) })
		redirecting := newLocal(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, refusing.URL, http.StatusTemporaryRedirect)
		})
		gone := newLocal(t, nil)
		gone.Close()
		const secret = "a secret of my own"
		file := write(t, t.TempDir(), "secret", secret+"\n") + "/secret"
		asJSON := r.start("listen", "--json", "--secret-file", file, "--forward", refusing.URL)
		hung := r.start("listen", "--secret-file", file, "--forward", hanging.URL, "--forward-timeout", "50ms")
		moved := r.start("listen", "--secret-file", file, "--forward", redirecting.URL)
		dead := r.start("listen", "--secret-file", file, "--forward", gone.URL)
		all := []*running{asJSON, hung, moved, dead}
		for _, c := range all {
			c.waits(1, "^Listening to", &c.stderr)
		}
		s.deliver(t, "first")
		s.deliver(t, "second")
		asJSON.waits(2, `(?m)^\{"event_uuid":.*\}$`, &asJSON.out)
		hung.waits(2, `failed  \d+\.\d ms, The target did not complete its response in time\.\n`, &hung.out)
		moved.waits(2, `307  \d+\.\d ms\n`, &moved.out)
		dead.waits(2, `failed  \d+\.\d ms, The target refused the connection\.\n`, &dead.out)
		for _, c := range all {
			c.interrupt()
			require.NotContains(t, c.stderr.String(), secret)
			require.Contains(t, c.stderr.String(), "2 events arrived, 2 failed.")
		}
		hook, err := standardwebhooks.NewWebhookRaw([]byte(secret))
		require.NoError(t, err)
		for i, line := range strings.Split(strings.TrimSpace(asJSON.out.String()), "\n") {
			var o map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &o))
			require.InDelta(t, 418, o["status"], 0)
			require.Equal(t, false, o["taken"])
			require.Equal(t, refusing.heads[i].Get("Webhook-Id"), o["event_uuid"])
			require.NoError(t, hook.Verify([]byte(refusing.bodies[i]), refusing.heads[i]))
		}
		require.Len(t, refusing.bodies, 2, "a redirect is not followed")
	})
}

// The stream breaks off and comes back without a loss or a duplicate. A payload removed meanwhile is reported, and
// events not forwarded when the command ends are counted.
func TestListenThroughABreak(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		s, r, _, _ := prepare(t, in)
		// A proxy between the command and the server breaks off the stream when the test asks.
		cut := make(chan struct{}, 1)
		proxy := newCutter(t, s.base, cut)
		r.environ[0] = "SALLYPORT_SERVER=" + proxy.URL
		goOn, arrived := make(chan struct{}), make(chan struct{}, 8)
		app := newLocal(t, func(http.ResponseWriter, *http.Request) {
			arrived <- struct{}{}
			<-goOn
		})
		t.Cleanup(sync.OnceFunc(func() { close(goOn) }))
		c := r.start("listen", "--forward", app.URL)
		c.waits(1, "Listening to", &c.stderr)
		s.deliver(t, "first")
		await.Value(t, "a forwarded event", arrived)
		cut <- struct{}{}
		c.waits(1, `The stream broke off: no response from .*Retrying in \d+s\.\n`, &c.stderr)
		s.deliver(t, "second")
		removed := decode[[]eventRow](t, r.do("events", "list", "--json", "--limit", "1"))[0].EventUUID
		status, _ := s.ask(t, http.MethodDelete, "/api/v1/webhook-events/"+removed+"/payload",
			strings.TrimPrefix(r.environ[1], "SALLYPORT_API_KEY="), nil)
		require.Equal(t, http.StatusNoContent, status)
		s.deliver(t, "third")
		c.waits(1, "The stream is back", &c.stderr)
		goOn <- struct{}{}
		await.Value(t, "a forwarded event", arrived) // the third: the second has no payload any more
		c.waits(1, removed+`  issues\.opened  github/repo  failed  0\.0 ms, It could not be fetched: .*payload_expired`,
			&c.out)
		c.interrupt()
		require.Contains(t, c.stderr.String(),
			"2 events arrived, 1 failed; 1 more arrived and was not forwarded.")
		require.Len(t, app.bodies, 2)
		require.Contains(t, app.bodies[1], "third")
	})
}

// newCutter is a proxy that breaks off every stream when cut has something for it.
func newCutter(t *testing.T, base string, cut <-chan struct{}) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		q, err := http.NewRequestWithContext(ctx, r.Method, base+r.URL.RequestURI(), r.Body)
		if err != nil {
			return
		}
		q.Header = r.Header
		resp, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		if strings.HasSuffix(r.URL.Path, "/stream") {
			go func() {
				select {
				case <-cut:
					cancel()
				case <-ctx.Done():
				}
			}()
		}
		buffer := make([]byte, 32<<10)
		for {
			n, err := resp.Body.Read(buffer)
			_, _ = w.Write(buffer[:n])
			_ = http.NewResponseController(w).Flush()
			switch {
			case err == io.EOF:
				return
			case err != nil:
				panic(http.ErrAbortHandler)
			}
		}
	}))
	await.Close(t, s)
	return s
}

// Impossible settings are reported immediately: a wrong URL, another machine, a wrong secret, a wrong key, a key
// without the grant, a server that is not there.
func TestListenRefused(t *testing.T) {
	t.Parallel()
	in := installation{dir: t.TempDir()}
	s, r, _, _ := prepare(t, in)
	const forward = "--forward=http://127.0.0.1:1/"
	dir := write(t, t.TempDir(), "short", "whsec_short", "empty", "\n")
	r.refuse(exitUsage, "--forward", "listen")
	for _, bad := range []string{"localhost:3000", "ftp://localhost", "http://", "http://ada:pw@localhost/"} {
		r.refuse(exitUsage, "--forward takes a URL such as", "listen", "--forward", bad)
	}
	for _, elsewhere := range []string{"http://192.0.2.1/", "https://localhost.example/", "http://0.0.0.0:80/"} {
		r.refuse(exitUsage, "allow it with --allow-remote", "listen", "--forward", elsewhere)
	}
	r.refuse(exitUsage, "--forward-timeout must be above 0", "listen", forward, "--forward-timeout", "0s")
	r.refuse(exitUsage, "the signing secret must be whsec_ and the base64 of", "listen", forward, "--secret-file",
		dir+"/short")
	r.refuse(exitFailed, "it contains no secret", "listen", forward, "--secret-file", dir+"/empty")
	r.refuse(exitUsage, "--event-type: ", "listen", forward, "--event-type", "a*")
	r.refuse(exitUsage, "unknown flag --status", "listen", forward, "--status", "failed")
	in.remote(t, s, "connections").refuse(exitFailed, "grant_denied", "listen", forward)
	wrong := remote{t, append([]string{}, r.environ...)}
	wrong.environ[1] = "SALLYPORT_API_KEY=spk_test_wrong"
	wrong.refuse(exitFailed, "unauthorized", "listen", forward)
	wrong.environ[0] = "SALLYPORT_SERVER=http://127.0.0.1:1"
	wrong.refuse(exitFailed, "no response from http://127.0.0.1:1", "listen", forward)
}
