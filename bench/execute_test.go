package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/stats"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

const (
	executeRate   = 500              // requests a second of the open loop
	executeLength = 10 * time.Second // of each part
	executeSlots  = 32               // connections of the closed loop
)

// way is a way to the provider that is measured.
type way struct {
	name   string
	method string
	url    string
	header http.Header
	body   string
}

// BenchmarkExecute measures actions at a provider that responds immediately, next to the same request without a gateway
// and through Go's reverse proxy: at 500 a second, and as many as 32 connections get. Everything is in one process, so
// that the differences count and not the figures: go test -run '^$' -bench Execute -benchtime 1x ./bench
func BenchmarkExecute(b *testing.B) {
	for _, e := range engines() {
		b.Run(e.name, func(b *testing.B) { benchmarkExecute(b, e.database(b)) })
	}
}

func benchmarkExecute(b *testing.B, databaseURL string) {
	b.Helper()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":42,"name":"lamp","state":"open"}`)
	}))
	await.Close(b, provider)
	at, err := url.Parse(provider.URL)
	require.NoError(b, err)
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(at))
	await.Close(b, proxy)
	g := newGateway(b, databaseURL)
	g.cfg.RateLimitKeyPerSecond, g.cfg.ConnectionCheckInterval = 0, 0
	g.start(b)
	defer g.stop(b)
	api := g.api(b)
	status, body, err := api.Do(b.Context(), http.MethodPost, "/connections", map[string]any{"provider": "http",
		"connection_id": "bench", "auth_mode": "bearer", "credentials": map[string]any{"token": "secret-token"},
		"connection_config": map[string]any{"base_url": provider.URL}})
	require.NoError(b, err)
	require.Equal(b, http.StatusCreated, status, "%s", body)
	execute := func(name, action string) way {
		return way{name: name, method: http.MethodPost, url: "http://" + g.app.Addr() + "/api/v1/actions/execute",
			header: http.Header{"Content-Type": {"application/json"}, "Api-Key": {g.key(b)}},
			body:   fmt.Sprintf(`{"provider":"http","connection_id":"bench","action":%q,"input":{"path":"orders/42"}}`, action)}
	}
	bearer := http.Header{"Authorization": {"Bearer secret-token"}}
	paths := []way{
		{name: "direct", method: http.MethodGet, url: provider.URL + "/orders/42", header: bearer},
		{name: "proxy", method: http.MethodGet, url: proxy.URL + "/orders/42", header: bearer},
		execute("read", "get"), execute("write", "post"),
	}
	for range b.N {
		for _, p := range paths {
			open, _ := p.run(b, executeRate)
			closed, took := p.run(b, 0)
			b.ReportMetric(float64(open.P50.Microseconds())/1000, p.name+"-p50-ms")
			b.ReportMetric(float64(open.P99.Microseconds())/1000, p.name+"-p99-ms")
			b.ReportMetric(float64(closed.Count)/took.Seconds(), p.name+"/s")
		}
	}
}

// run sends requests at a rate, or as fast as they are responded to if it is 0.
func (p *way) run(b *testing.B, rate int) (stats.Summary, time.Duration) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: executeSlots}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(b.Context(), 2*executeLength)
	defer cancel()
	system := clock.System()
	begin := system.Now()
	var mu sync.Mutex
	var samples []time.Duration
	var failure error
	next := 0
	var all sync.WaitGroup
	for range executeSlots {
		all.Go(func() {
			for {
				mu.Lock()
				due := begin
				if rate > 0 {
					due = begin.Add(time.Duration(next) * time.Second / time.Duration(rate))
				}
				next++
				stop := failure != nil
				mu.Unlock()
				now := system.Now()
				if stop || max(due.Sub(begin), now.Sub(begin)) > executeLength {
					return
				}
				if wait := due.Sub(now); wait > 0 {
					<-system.NewTimer(wait).C()
				}
				sent := system.Now()
				err := p.once(ctx, client)
				took := system.Now().Sub(sent)
				mu.Lock()
				samples = append(samples, took)
				if err != nil {
					failure = err
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.NoError(b, failure)
	return stats.Summarise(samples), system.Now().Sub(begin)
}

func (p *way) once(ctx context.Context, client *http.Client) error {
	r, err := http.NewRequestWithContext(ctx, p.method, p.url, bytes.NewReader([]byte(p.body)))
	if err != nil {
		return err
	}
	r.Header = p.header
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", resp.StatusCode, body)
	}
	return err
}
