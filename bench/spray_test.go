package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/load"
	"sallyport/bench/internal/phases"
	"sallyport/bench/internal/procstat"
	"sallyport/bench/internal/sink"
	"sallyport/bench/internal/target"
	"sallyport/internal/platform/clock"
)

const (
	sprayRate     = 200 // sign-ins a second, and deliveries a second at the same time
	sprayDuration = 20 * time.Second
)

// spray attempts to sign in until done is closed, each time as another user, from another address, and returns the
// counts of the responses by status.
func spray(b *testing.B, url string, done <-chan struct{}) map[int]int {
	b.Helper()
	var mu sync.Mutex
	responses := map[int]int{}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	defer client.CloseIdleConnections()
	var attempts sync.WaitGroup
	defer attempts.Wait()
	tick := time.NewTicker(time.Second / sprayRate)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-done:
			return responses
		case <-tick.C:
		}
		attempts.Go(func() {
			body, _ := json.Marshal(map[string]string{"email": fmt.Sprintf("user-%d@example.test", i),
				"password": "correct horse battery staple"})
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
			if err != nil {
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Forwarded-For", netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}).String())
			resp, err := client.Do(req)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			responses[resp.StatusCode]++
		})
	}
}

// subscribe starts a receiver and subscribes it to the events of GitHub.
func (g *gateway) subscribe(b *testing.B) (*sink.Sink, *sink.Verifier) {
	b.Helper()
	receiver, err := sink.Listen(b.Context())
	require.NoError(b, err)
	secret, err := g.api(b).CreateSubscription(b.Context(), "github", receiver.URL())
	require.NoError(b, err)
	verifier, err := sink.NewVerifier(secret, "github", target.ConnectionID)
	require.NoError(b, err)
	return receiver, verifier
}

// The way of an event from its receipt to the receiver, at 200/s, without sign-ins, and under 200 wrong sign-ins a
// second of as many people from as many addresses. The target for the way of the event is the same as without: p99 < 10
// ms.
func BenchmarkDeliveryDuringSpray(b *testing.B) {
	for _, sprayed := range []bool{false, true} {
		b.Run(fmt.Sprintf("spray=%t", sprayed), func(b *testing.B) {
			for range b.N {
				g := newGateway(b, "")
				g.cfg.EgressAllowHTTP, g.cfg.TrustedProxies = true, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
				g.start(b)
				path := g.connect(b)
				receiver, verifier := g.subscribe(b)
				done := make(chan struct{})
				var responses map[int]int
				var others sync.WaitGroup
				if sprayed {
					others.Go(func() { responses = spray(b, "http://"+g.app.Addr()+"/api/v1/team/login", done) })
				}
				r := phases.NewRunner(clock.System(), phases.Settings{Connections: retentionSenders, Duration: sprayDuration,
					PerSecond: sprayRate, MaxEvents: retentionMax, Drain: time.Minute}, 1)
				got, err := r.Latency(b.Context(), phases.Subject{Process: procstat.Of(os.Getpid()),
					Target: load.Target{Addr: g.app.Addr(), Path: path, Scheme: load.GitHub, Secret: retentionSecret}}, receiver,
					verifier)
				close(done)
				others.Wait()
				require.NoError(b, err)
				require.NoError(b, receiver.Close())
				g.stop(b)
				require.Zero(b, got.Arrival.Missing)
				b.ReportMetric(got.ToSink.P50, "p50-ms")
				b.ReportMetric(got.ToSink.P99, "p99-ms")
				if sprayed {
					require.Positive(b, responses[http.StatusUnauthorized])
					b.ReportMetric(float64(responses[http.StatusUnauthorized])/sprayDuration.Seconds(), "401/s")
					b.ReportMetric(float64(responses[http.StatusServiceUnavailable]+
						responses[http.StatusTooManyRequests])/sprayDuration.Seconds(), "refused/s")
				}
				b.ReportMetric(0, "ns/op") // which says nothing here
			}
		})
	}
}
