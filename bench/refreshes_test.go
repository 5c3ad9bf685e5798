package bench_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/load"
	"sallyport/bench/internal/phases"
	"sallyport/bench/internal/procstat"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit/await"
)

const (
	refreshed      = 10_000           // connections that are due in the minute
	refreshLoad    = 60 * time.Second // the minute
	endpointTakes  = 100 * time.Millisecond
	hanging        = 1_000 // connections whose token endpoint hangs
	nextToHanging  = 1_200 // connections of another one, which are due in the minute
	storedTogether = 16    // requests that store connections at a time
)

// refreshAPI is a provider whose token endpoint is where the connection says.
const refreshAPI = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
connection_config:
  base_url: {type: url, title: URL, example: "https://api.acme.example"}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth:
  - mode: oauth2
    authorize_url: "${config.base_url}/authorize"
    token_url: "${config.base_url}/token"
    client_auth: none
    refresh: {rotating: true}
`

// tokenEndpoint replaces tokens, which takes it a time. One that hangs never responds before it is closed.
type tokenEndpoint struct {
	*httptest.Server

	served  atomic.Int64
	hanging chan struct{}
}

func newTokenEndpoint(b *testing.B, hangs bool) *tokenEndpoint {
	b.Helper()
	p := &tokenEndpoint{hanging: make(chan struct{})}
	system := clock.System()
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs {
			select {
			case <-p.hanging:
			case <-r.Context().Done():
			}
			return
		}
		<-system.NewTimer(endpointTakes).C()
		n := p.served.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"access-%d","refresh_token":"refresh-%d","expires_in":3600}`, n, n)
	}))
	await.Close(b, p.Server)
	b.Cleanup(func() { close(p.hanging) }) // comes first
	return p
}

// newRefreshing returns a gateway that knows the provider, and has tested nothing by itself.
func newRefreshing(b *testing.B, databaseURL string) *gateway {
	b.Helper()
	g := newGateway(b, databaseURL)
	g.cfg.ProvidersDir = b.TempDir()
	g.cfg.ConnectionCheckInterval, g.cfg.RateLimitKeyPerSecond = 0, 0
	require.NoError(b, os.WriteFile(filepath.Join(g.cfg.ProvidersDir, "acme.yaml"), []byte(refreshAPI), 0o600))
	return g
}

// storeTokens stores connections to an endpoint, without a test.
func (g *gateway) storeTokens(b *testing.B, prefix string, n int, p *tokenEndpoint) {
	b.Helper()
	api := g.api(b)
	numbers := make(chan int)
	var all sync.WaitGroup
	failures := make(chan error, storedTogether)
	for range storedTogether {
		all.Go(func() {
			for i := range numbers {
				status, body, err := api.Do(b.Context(), http.MethodPost, "/connections", map[string]any{"provider": "acme",
					"connection_id": fmt.Sprintf("%s-%d", prefix, i), "test": false, "auth_mode": "oauth2",
					"connection_config": map[string]any{"base_url": p.URL},
					"credentials": map[string]any{"access_token": "old", "refresh_token": fmt.Sprintf("refresh-%s-%d", prefix, i),
						"expires_at": g.clk.Now().Add(24 * time.Hour).Format(time.RFC3339)}})
				if err == nil && status != http.StatusCreated {
					err = fmt.Errorf("status %d: %.300s", status, body)
				}
				if err != nil {
					select {
					case failures <- err:
					default:
					}
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	close(failures)
	require.NoError(b, <-failures)
}

// inDatabase runs fn on the gateway's database.
func (g *gateway) inDatabase(b *testing.B, fn func(ctx context.Context, d *db.DB)) {
	b.Helper()
	d, err := db.Open(b.Context(), g.cfg.DatabaseURL.Reveal(), g.cfg.Data)
	require.NoError(b, err)
	fn(b.Context(), d)
	require.NoError(b, d.Close())
}

// addClient gives the provider an OAuth client without secrets, while the gateway is away.
func (g *gateway) addClient(b *testing.B) {
	b.Helper()
	g.inDatabase(b, func(ctx context.Context, d *db.DB) {
		_, err := d.Write().ExecContext(ctx, `INSERT INTO provider_configs (id, environment_id, provider_config_key, provider,
			display_name, client_id, client_secret_hint, client_hosts, scopes, base_url, rate_limit, created_ms, updated_ms)
			SELECT $1, id, 'acme', 'acme', '', 'me', '', 'null', 'null', '', 'null', 0, 0 FROM environments LIMIT 1`,
			id.NewUUID())
		require.NoError(b, err)
	})
}

// spreadDue makes the tokens of all connections due evenly within a time from the next start on, and those of the
// endpoint that hangs immediately. It returns when that time begins.
func (g *gateway) spreadDue(b *testing.B, length time.Duration, due map[string]time.Time) {
	b.Helper()
	g.inDatabase(b, func(ctx context.Context, d *db.DB) {
		var names []string
		uuids := map[string]string{}
		rows, err := d.Read().QueryContext(ctx, "SELECT uuid, connection_id FROM connections WHERE provider = 'acme'")
		require.NoError(b, err)
		require.NoError(b, db.Each(rows, func(r *sql.Rows) error {
			var uuid, name string
			err := r.Scan(&uuid, &name)
			uuids[name] = uuid
			if name[0] != 'h' {
				names = append(names, name)
			}
			return err
		}))
		slices.Sort(names)
		begin := g.clk.Now().Add(time.Second)
		for i, name := range names {
			due[name] = begin.Add(length * time.Duration(i) / time.Duration(len(names)))
		}
		require.NoError(b, d.Tx(ctx, func(tx *sql.Tx) error {
			for name, uuid := range uuids {
				at, measured := due[name]
				if !measured {
					at = begin.Add(-time.Hour)
				}
				if _, err := tx.ExecContext(ctx, "UPDATE token_refreshes SET due_ms = $1 WHERE connection_uuid = $2",
					clock.Millis(at), uuid); err != nil {
					return err
				}
			}
			return nil
		}))
	})
}

// lateness returns how late the tokens of the connections were renewed, sorted, and how many were.
func (g *gateway) lateness(b *testing.B, due map[string]time.Time) (late []time.Duration) {
	b.Helper()
	g.inDatabase(b, func(ctx context.Context, d *db.DB) {
		rows, err := d.Read().QueryContext(ctx, `SELECT c.connection_id, k.refreshed_ms FROM connections c
			JOIN connection_credentials k ON k.connection_uuid = c.uuid WHERE k.refreshed_ms IS NOT NULL`)
		require.NoError(b, err)
		require.NoError(b, db.Each(rows, func(r *sql.Rows) error {
			var name string
			var ms int64
			err := r.Scan(&name, &ms)
			late = append(late, clock.FromMillis(ms).Sub(due[name]))
			return err
		}))
	})
	slices.Sort(late)
	return late
}

// Ingest at full speed for a minute, in which the tokens of 10,000 connections are due on the same node, at a token
// endpoint that takes 100 ms. The targets are that all are renewed in that minute, and that ingest loses less than a
// tenth.
func BenchmarkIngestDuringRefreshes(b *testing.B) {
	for _, engine := range engines() {
		b.Run(engine.name, func(b *testing.B) {
			for range b.N {
				g, p := newRefreshing(b, engine.database(b)), newTokenEndpoint(b, false)
				g.start(b)
				path := g.connect(b)
				g.stop(b)
				g.addClient(b)
				g.start(b)
				g.storeTokens(b, "acme", refreshed, p)
				rate := map[bool]float64{}
				used := map[bool]time.Duration{}
				epoch := uint32(0)
				// The same time before, during and after, because the machine's own speed changes.
				for _, during := range []bool{false, true, false} {
					due := map[string]time.Time{}
					if during {
						g.stop(b)
						g.spreadDue(b, refreshLoad-5*time.Second, due)
						g.start(b)
					}
					before, err := procstat.Of(os.Getpid()).CPU()
					require.NoError(b, err)
					epoch++
					events, took := g.send(b, path, epoch, retentionMax, refreshLoad)
					after, err := procstat.Of(os.Getpid()).CPU()
					require.NoError(b, err)
					used[during] += (after - before) / time.Duration(events/1000)
					rate[during] += float64(events) / took.Seconds()
					if during {
						late := g.lateness(b, due)
						b.ReportMetric(float64(len(late)), "renewed")
						if len(late) > 0 {
							b.ReportMetric(late[len(late)*99/100].Seconds(), "late-p99-s")
							b.ReportMetric(late[len(late)-1].Seconds(), "late-max-s")
						}
					}
				}
				g.stop(b)
				b.ReportMetric(rate[false]/2, "alone-events/s")
				b.ReportMetric(rate[true], "events/s")
				b.ReportMetric(2*rate[true]/rate[false], "ratio")
				b.ReportMetric((used[false] / 2).Seconds(), "alone-CPU-s/1000")
				b.ReportMetric(used[true].Seconds(), "CPU-s/1000")
				b.ReportMetric(0, "ns/op") // which says nothing here
			}
		})
	}
}

// 3,000 tokens that are due at the same time, next to nothing else: what one of them costs, and how many a node renews
// in a second.
func BenchmarkRefreshes(b *testing.B) {
	const many = 3_000
	for _, engine := range engines() {
		b.Run(engine.name, func(b *testing.B) {
			for range b.N {
				g, p := newRefreshing(b, engine.database(b)), newTokenEndpoint(b, false)
				g.start(b)
				g.stop(b)
				g.addClient(b)
				g.start(b)
				g.storeTokens(b, "acme", many, p)
				g.stop(b)
				g.spreadDue(b, 0, map[string]time.Time{})
				before, err := procstat.Of(os.Getpid()).CPU()
				require.NoError(b, err)
				g.start(b)
				system := clock.System()
				began := system.Now()
				for len(g.lateness(b, nil)) < many {
					<-system.NewTimer(100 * time.Millisecond).C()
				}
				took := system.Now().Sub(began)
				after, err := procstat.Of(os.Getpid()).CPU()
				require.NoError(b, err)
				g.stop(b)
				b.ReportMetric(many/took.Seconds(), "renewed/s")
				b.ReportMetric((after-before).Seconds()*1000/many, "CPU-s/1000")
				b.ReportMetric(0, "ns/op") // which says nothing here
			}
		})
	}
}

// The load next to an endpoint that hangs: events a second, and the time between two pages.
const (
	nextEvents = 100
	nextPages  = 50 * time.Millisecond
)

// neighbours are what an endpoint that hangs must not delay: the 99th percentiles of how late tokens are renewed, of
// the way of an event to its receiver, and of a page of the list of connections, in seconds.
type neighbours struct{ renewal, event, page float64 }

// measureNext measures it for a minute in which the tokens of nextToHanging connections are due.
func measureNext(b *testing.B, databaseURL string, hangs bool) neighbours {
	b.Helper()
	g, p := newRefreshing(b, databaseURL), newTokenEndpoint(b, false)
	g.start(b)
	path := g.connect(b)
	receiver, verifier := g.subscribe(b)
	g.stop(b)
	g.addClient(b)
	g.start(b)
	g.storeTokens(b, "acme", nextToHanging, p)
	if hangs {
		g.storeTokens(b, "hangs", hanging, newTokenEndpoint(b, true))
	}
	g.stop(b)
	due := map[string]time.Time{}
	g.spreadDue(b, refreshLoad, due)
	g.start(b)
	system := clock.System()
	end := system.NewTimer(refreshLoad + 10*time.Second)
	var pages []time.Duration
	var reading sync.WaitGroup
	done := make(chan struct{})
	reading.Go(func() { pages = g.readPages(b, done) })
	r := phases.NewRunner(system, phases.Settings{Connections: retentionSenders, Duration: refreshLoad,
		PerSecond: nextEvents, MaxEvents: retentionMax, Drain: time.Minute}, 1)
	got, err := r.Latency(b.Context(), phases.Subject{Process: procstat.Of(os.Getpid()),
		Target: load.Target{Addr: g.app.Addr(), Path: path, Scheme: load.GitHub, Secret: retentionSecret}}, receiver,
		verifier)
	close(done)
	reading.Wait()
	require.NoError(b, err)
	require.Zero(b, got.Arrival.Missing)
	<-end.C()
	late := g.lateness(b, due)
	require.Len(b, late, nextToHanging)
	stopping, cancel := context.WithTimeout(b.Context(), time.Second) // the exchanges that hang are cut off
	_ = g.app.Stop(stopping)
	cancel()
	require.NoError(b, receiver.Close())
	slices.Sort(pages)
	require.NotEmpty(b, pages)
	return neighbours{renewal: late[len(late)*99/100].Seconds(), event: got.ToSink.P99 / 1000,
		page: pages[len(pages)*99/100].Seconds()}
}

// readPages reads the first page of the connections again and again until done is closed, and returns the times.
func (g *gateway) readPages(b *testing.B, done <-chan struct{}) (took []time.Duration) {
	b.Helper()
	system, api := clock.System(), g.api(b)
	for {
		select {
		case <-done:
			return took
		case <-system.NewTimer(nextPages).C():
		}
		began := system.Now()
		status, _, err := api.Do(b.Context(), http.MethodGet, "/connections?limit=50", nil)
		if err != nil || status != http.StatusOK {
			b.Errorf("read a page: status %d, %v", status, err)
			return took
		}
		took = append(took, system.Now().Sub(began))
	}
}

// Tokens of 1,200 connections that are due within a minute, 100 events a second and pages of connections, without
// others, and next to 1,000 connections of the same environment whose token endpoint hangs. The target is that all
// three are as soon as without: p99 ≤ 1.4 ×.
func BenchmarkNextToAHangingEndpoint(b *testing.B) {
	for _, engine := range engines() {
		b.Run(engine.name, func(b *testing.B) {
			for range b.N {
				alone := measureNext(b, engine.database(b), false)
				next := measureNext(b, engine.database(b), true)
				for _, of := range []struct {
					name        string
					alone, next float64
				}{{"renewal", alone.renewal, next.renewal}, {"event", alone.event, next.event}, {"page", alone.page, next.page}} {
					b.ReportMetric(of.alone*1000, of.name+"-alone-p99-ms")
					b.ReportMetric(of.next*1000, of.name+"-p99-ms")
					b.ReportMetric(of.next/of.alone, of.name+"-ratio")
				}
				b.ReportMetric(0, "ns/op") // which says nothing here
			}
		})
	}
}
