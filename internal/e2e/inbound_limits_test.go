package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/config"
	"sallyport/internal/platform/testkit/await"
)

// Senders who announce a large body and send none of it take nothing from the others, however many they are and whether
// or not they could sign it.
func TestIdleSendersBlockNoOthers(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "generic-hmac", "webhook_secret": "a shared secret"})
		const idle, size = 32, 256<<10 + 1 // held in memory, four would be the budget
		body := strings.Repeat("i", size)
		var senders sync.WaitGroup
		var release []func()
		responses := make(chan int, idle)
		for range idle {
			slow, asked := w.slow(conn.pathToken(), generic("a shared secret", "text/plain", body).with("X-Signature",
				strings.Repeat("0", 64)))
			senders.Go(func() { responses <- slow() })
			release = append(release, w.taken(asked, responses))
		}
		for _, size := range []int{1, 100 << 10, 256 << 10, 512 << 10} {
			w.deliver(conn.pathToken(), generic("a shared secret", "text/plain", strings.Repeat("x", size)))
		}
		for _, open := range release {
			open()
			require.Equal(w.t, http.StatusUnauthorized, await.Value(w.t, "a refusal", responses))
		}
		senders.Wait()
	}, func(c *config.Config) { c.WebhookMemoryBudgetBytes = 1 << 20 })
}

// Bodies that stall, together as large as the memory for all, wait in files: others to the same connection are accepted
// meanwhile, and those that stalled when they end.
func TestMemoryBudget(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "generic-hmac", "webhook_secret": "a shared secret"})
		const size = 256 << 10 // four of them are the budget
		const first, second, third = "2001:db8:0:1::", "2001:db8:0:2::", "2001:db8:0:3::"
		from := func(address string, size int) message {
			return generic("a shared secret", "text/plain", strings.Repeat("x", size)).with("X-Forwarded-For", address)
		}
		var stalled []*stalledSender
		for i, network := range []string{first, second, first, second} {
			address := network + strconv.Itoa(i+1)
			stalled = append(stalled, w.stall(conn.pathToken(), from(address, size), network, address))
		}
		w.deliver(conn.pathToken(), from(third, 4<<10+1))
		w.deliver(conn.pathToken(), from(third, 100<<10))
		w.deliver(conn.pathToken(), from(third, 4<<10))
		for _, s := range stalled {
			s.end()
			require.Equal(w.t, http.StatusOK, await.Value(w.t, "a response", s.status))
		}
		for _, address := range []string{first, second, third} {
			w.deliver(conn.pathToken(), from(address, 2*size))
		}
	}, func(c *config.Config) {
		c.WebhookMemoryBudgetBytes, c.WebhookMaxBodyBytes = 1<<20, 512<<10
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
}

// stalledSender has sent all of a body but its end.
type stalledSender struct {
	network, address string
	// end ends the body.
	end func()
	// status yields the status of the response, or 0 when there was none.
	status chan int
}

// stall posts a message, without announcing its length, up to the end of its body.
func (w *world) stall(segment string, m message, network, address string) *stalledSender {
	w.t.Helper()
	end := &gated{rest: strings.NewReader(""), asked: make(chan func(), 1), gate: make(chan struct{})}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.base+prefix+"/webhook/"+segment,
		io.MultiReader(strings.NewReader(string(m.body)), end))
	require.NoError(w.t, err)
	r.Header = m.header
	s := &stalledSender{network: network, address: address, status: make(chan int, 1)}
	go func() {
		resp, err := w.http.Do(r)
		if err != nil {
			s.status <- 0
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body) // the status is what counts
		_ = resp.Body.Close()
		s.status <- resp.StatusCode
	}()
	s.end = sync.OnceFunc(func() { close(end.gate) })
	w.t.Cleanup(s.end) // where the test ends early
	return s
}

// taken waits until the server takes a body and returns the function that lets it go. A response that comes before is
// an error.
func (w *world) taken(takes <-chan func(), responses <-chan int) func() {
	w.t.Helper()
	select {
	case open := <-takes:
		return open
	case status := <-responses:
		require.FailNow(w.t, "the response came before the body", "%d", status)
	case <-time.After(await.Limit):
		require.FailNow(w.t, "the server takes no body")
	}
	return nil
}

// JSON nested so deep that parsers refuse it is kept byte for byte and shown and forwarded as text, so that every
// reader of a response or an envelope can parse it.
func TestDeeplyNestedBody(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(sink.url)
		conn := w.connect(w.dev(), object{"provider": "generic-hmac", "webhook_secret": "a shared secret"})
		for i, depth := range []int{512, 513, 20_000} {
			body := strings.Repeat("[", depth) + strings.Repeat("]", depth)
			want, data := "text", `{"text":"`+body+`"}`
			if depth <= 512 {
				want, data = "json", body
			}
			e := w.awaitEvent(w.deliver(conn.pathToken(), generic("a shared secret", "application/json", body)).EventUUID,
				"forwarded")
			require.Equal(w.t, want, *e.BodyEncoding)
			require.Equal(w.t, body, shownBody(w, e))
			got := sink.wait(w.t, i+1)[i].body
			require.True(w.t, json.Valid(got))
			require.True(w.t, strings.HasSuffix(string(got), `,"data":`+data+`}`))
		}
	})
}

// A subscription that would send the gateway's events back to one of its own webhook URLs is refused, with the field
// that is wrong, when it is made and when it is changed.
func TestForwardingToTheGatewayItself(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		require.Contains(w.t, conn.WebhookURL, w.cfg.PublicURL)
		sub := w.subscribe("http://127.0.0.1:18081/hooks")
		for _, target := range []string{conn.WebhookURL, "http://localhost:18080/api/v1/webhook/acme", w.cfg.PublicURL} {
			w.unchanged(func() {
				created := w.call(w.dev(), http.MethodPost, "/webhook-subscriptions", object{"event_types": []string{"*"},
					"forward_url": target})
				require.Equal(w.t, []string{"body.forward_url forward_loop"}, created.violations(w))
				changed := w.call(w.dev(), http.MethodPatch, "/webhook-subscriptions/"+sub.ID, object{"forward_url": target})
				require.Equal(w.t, []string{"body.forward_url forward_loop"}, changed.violations(w))
			})
		}
	}, func(c *config.Config) { c.PublicURL = "http://127.0.0.1:18080" })
}
