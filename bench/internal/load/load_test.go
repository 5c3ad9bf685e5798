package load_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/load"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit/await"
)

const (
	githubSecret = "a secret of the tests"
	whsecSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	ack          = `{"event_uuid":"01890a5d-ac96-774b-bcce-b302099a8057","status":"received","duplicate":false}`
)

// receiver is a net/http peer that checks every delivery with code of its own.
type receiver struct {
	verify  func(r *http.Request, body []byte) error
	respond func(w http.ResponseWriter, n int64)

	count    atomic.Int64
	mu       sync.Mutex
	problems []error
	ids      map[string]int
	seqs     map[uint32]int
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	_, seq, ok := event.Find(body)
	rc.mu.Lock()
	if err := errors.Join(err, rc.verify(r, body)); err != nil {
		rc.problems = append(rc.problems, err)
	}
	if !ok || r.URL.Path != "/hook" || r.Header.Get("Content-Type") != "application/json" {
		rc.problems = append(rc.problems, fmt.Errorf("%w: %s %v", errDelivery, r.URL.Path, r.Header))
	}
	rc.ids[r.Header.Get("X-GitHub-Delivery")+r.Header.Get("Webhook-Id")]++
	rc.seqs[seq]++
	rc.mu.Unlock()
	rc.respond(w, rc.count.Add(1))
}

var errDelivery = errors.New("not a delivery of the provider")

// serve starts a receiver; the test fails at its end when any delivery was wrong.
func serve(t *testing.T, verify func(*http.Request, []byte) error, respond func(http.ResponseWriter,
	int64)) (*receiver, string) {
	t.Helper()
	rc := &receiver{verify: verify, respond: respond, ids: map[string]int{}, seqs: map[uint32]int{}}
	server := httptest.NewServer(rc)
	t.Cleanup(func() {
		await.Return(t, "the end of the requests", server.Close)
		require.Empty(t, rc.problems)
	})
	return rc, server.Listener.Addr().String()
}

func acknowledge(w http.ResponseWriter, _ int64) { _, _ = io.WriteString(w, ack) }

func verifyGitHub(r *http.Request, body []byte) error {
	mac := hmac.New(sha256.New, []byte(githubSecret))
	mac.Write(body)
	signed := r.Header.Get("X-Hub-Signature-256") == "sha256="+hex.EncodeToString(mac.Sum(nil))
	if !signed || !id.LooksLikeUUID(r.Header.Get("X-GitHub-Delivery")) || r.Header.Get("X-GitHub-Event") != "push" {
		return fmt.Errorf("%w: %v", errDelivery, r.Header)
	}
	return nil
}

func verifyStandard(r *http.Request, body []byte) error {
	hook, err := standardwebhooks.NewWebhook(whsecSecret)
	if err != nil {
		return err
	}
	return hook.Verify(body, r.Header)
}

// Every delivery must be one the provider could have sent: correctly signed over its own bytes, with an identifier and
// a body that no other delivery has; and every acknowledgement is recorded.
func TestClosedLoopAgainstNetHTTP(t *testing.T) {
	t.Parallel()
	for scheme, tc := range map[load.Scheme]struct {
		secret string
		verify func(*http.Request, []byte) error
	}{
		load.GitHub:           {githubSecret, verifyGitHub},
		load.StandardWebhooks: {whsecSecret, verifyStandard},
	} {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			const events = 500
			rc, addr := serve(t, tc.verify, acknowledge)
			tracker := event.NewTracker(clock.System(), 1, events)
			out, err := load.Run(t.Context(), clock.System(),
				load.Target{Addr: addr, Path: "/hook", Scheme: scheme, Secret: tc.secret}, tracker,
				load.Plan{Connections: 8, Duration: time.Minute})
			require.NoError(t, err)
			require.Equal(t, load.Outcome{Exhausted: true}, out)
			acked, _ := tracker.Progress()
			require.Equal(t, events, acked)
			require.Len(t, rc.ids, events)
			require.Len(t, rc.seqs, events)
			for r := range tracker.Records() {
				require.True(t, r.WasAcked)
				require.Greater(t, r.Acked, r.Sent)
			}
		})
	}
}

// Only a fresh acknowledgement counts: a refusal, a duplicate and a body without identifier do not, and a closed
// connection is reopened without sending the same event again.
func TestOnlyFreshAcknowledgementsCount(t *testing.T) {
	t.Parallel()
	const events = 40
	rc, addr := serve(t, verifyGitHub, func(w http.ResponseWriter, n int64) {
		switch n % 5 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			_, _ = io.WriteString(w, strings.Replace(ack, "false", "true", 1))
		case 2:
			_, _ = io.WriteString(w, `{"duplicate":false}`)
		case 3:
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, ack)
		default:
			_, _ = io.WriteString(w, `{ "duplicate": false, "event_uuid": "x" }`)
		}
	})
	tracker := event.NewTracker(clock.System(), 1, events)
	out, err := load.Run(t.Context(), clock.System(),
		load.Target{Addr: addr, Path: "/hook", Scheme: load.GitHub, Secret: githubSecret}, tracker,
		load.Plan{Connections: 1, Duration: time.Minute})
	require.NoError(t, err)
	acked, _ := tracker.Progress()
	require.Equal(t, events*2/5, acked)
	require.Equal(t, events*3/5, out.Refused)
	require.Zero(t, out.Failed)
	require.Contains(t, out.FirstProblem, `"duplicate":true`)
	require.Len(t, rc.seqs, events)
}

// The schedule of an open loop is kept by the clock alone: event n is sent no earlier than n/rate after the start, and
// the number of events is rate times duration, for any number of connections.
func TestOpenLoopKeepsItsSchedule(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, verifyGitHub, acknowledge)
	tracker := event.NewTracker(clock.System(), 1, 1000)
	out, err := load.Run(t.Context(), clock.System(),
		load.Target{Addr: addr, Path: "/hook", Scheme: load.GitHub, Secret: githubSecret}, tracker,
		load.Plan{Connections: 7, Duration: 100 * time.Millisecond, PerSecond: 500})
	require.NoError(t, err)
	var sent []time.Duration
	for r := range tracker.Records() {
		require.True(t, r.WasAcked)
		sent = append(sent, r.Sent)
	}
	slices.Sort(sent)
	require.Len(t, sent, 50)
	require.Equal(t, 50, out.Lag.Count)
	for n, at := range sent {
		require.GreaterOrEqual(t, at, time.Duration(n)*2*time.Millisecond)
	}
}

// A server that is gone must end the run with its error instead of spinning until the time is up.
func TestRunEndsWhenTheServerIsGone(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	tracker := event.NewTracker(clock.System(), 1, 10)
	out, err := load.Run(t.Context(), clock.System(),
		load.Target{Addr: addr, Path: "/hook", Scheme: load.GitHub, Secret: githubSecret}, tracker,
		load.Plan{Connections: 2, Duration: time.Hour})
	require.ErrorContains(t, err, "dial")
	require.Equal(t, 10, out.Failed)
}

// Cancelling ends the run even while the server keeps a response back.
func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	_, addr := serve(t, verifyGitHub, func(http.ResponseWriter, int64) {
		cancel()
		<-release
	})
	t.Cleanup(func() { close(release) }) // runs before the server's own end, which waits for the handler
	tracker := event.NewTracker(clock.System(), 1, 10)
	_, err := load.Run(ctx, clock.System(),
		load.Target{Addr: addr, Path: "/hook", Scheme: load.GitHub, Secret: githubSecret}, tracker,
		load.Plan{Connections: 1, Duration: time.Hour})
	require.ErrorIs(t, err, context.Canceled)
}

// The generator must not be usable against other machines.
func TestRunRefusesOtherHosts(t *testing.T) {
	t.Parallel()
	tracker := event.NewTracker(clock.System(), 1, 1)
	for _, addr := range []string{"192.0.2.1:80", "example.test:80", "[2001:db8::1]:80", "0.0.0.0:80"} {
		_, err := load.Run(t.Context(), clock.System(), load.Target{Addr: addr, Path: "/", Scheme: load.GitHub}, tracker,
			load.Plan{Connections: 1, Duration: time.Second})
		require.ErrorIs(t, err, load.ErrNotLoopback, addr)
	}
}

// The warm-up's end is announced once, while load still runs; a run that ends inside its warm-up announces nothing.
func TestAfterWarmup(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, verifyGitHub, acknowledge)
	target := load.Target{Addr: addr, Path: "/hook", Scheme: load.GitHub, Secret: githubSecret}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err := load.Run(ctx, clock.System(), target, event.NewTracker(clock.System(), 1, 1<<20), load.Plan{
		Connections: 2, Warmup: time.Millisecond, Duration: time.Hour,
		AfterWarmup: func() { calls++; cancel() },
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, calls)

	_, err = load.Run(t.Context(), clock.System(), target, event.NewTracker(clock.System(), 1, 10), load.Plan{
		Connections: 2, Warmup: time.Hour, Duration: time.Hour, AfterWarmup: func() { calls++ },
	})
	require.NoError(t, err)
	require.Equal(t, 1, calls)
}
