package compare

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/documents"
)

// each runs a test with a bench of short measurements on the engine of each store.
func each(t *testing.T, test func(t *testing.T, b *Bench)) {
	t.Helper()
	testkit.NeedProcesses(t)
	testkit.EachServer(t, func(t *testing.T, databaseURL, _ string) {
		o := Options{Binary: testkit.Binary(t), DataRoot: t.TempDir(), LogDir: t.TempDir(), Engine: SQLite,
			PostgresURL: databaseURL, Duration: 300 * time.Millisecond, PerSecond: 100, Connections: 4, Fill: 300,
			Waiting: 200, Actions: 60, Operations: 40, Pairs: 1, Say: func(string, ...any) {},
			ServerArgs: []string{"--shutdown-timeout=1s"}} // receivers that hang need not end
		if databaseURL != "" {
			o.Engine = Postgres
		}
		test(t, New(clock.System(), o, 1<<16))
	})
}

// named returns a row.
func named(t *testing.T, name string) *Row {
	t.Helper()
	rows, err := Rows([]string{name})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	return &rows[0]
}

// Rows measure a real gateway with their condition and without it: one next to an attack, one on two servers, and one
// whose deliveries wait. All events of the measured environment arrive.
func TestRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *Bench) {
		for name, note := range map[string]string{"guesses": `\d+ × 401`, "grown": "300 events",
			"waiting": "200 deliveries", "search": `longest .* ms; \d+ × 200`, "imports": `imports and a part .*\d+ × 200`} {
			row := named(t, name)
			r := b.Measure(t.Context(), row)
			require.Empty(t, r.Problem)
			require.Empty(t, r.Lost())
			require.Len(t, r.Pairs, 1)
			require.Regexp(t, note, r.Pairs[0].Note)
			for _, c := range r.Checks(row) {
				require.True(t, c.Target.Absolute || c.Without > 0, c.Target.Figure)
				require.Positive(t, c.With, c.Target.Figure)
			}
			require.Positive(t, r.Pairs[0].With[CPU])
			require.Equal(t, b.Engine == Postgres, r.Pairs[0].With[PostgresCPU] > 0)
		}
	})
}

// A filled database holds copies of an event that the gateway has stored, with distinct ids and keys, in the order of
// their times, and indexes as before.
func TestFill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *Bench) {
		b.peers = &peers{clk: b.clk}
		s, err := b.open(t.Context(), 0)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.close(context.WithoutCancel(t.Context()))) }()
		_, err = s.burst(t.Context(), b.Duration, 10)
		require.NoError(t, err)
		require.NoError(t, s.stop())
		read := func(text string, args ...any) (n int) {
			d, err := db.Open(t.Context(), s.config.DatabaseURL, s.config.DataDir)
			require.NoError(t, err)
			require.NoError(t, d.Read().QueryRowContext(t.Context(), text, args...).Scan(&n))
			require.NoError(t, d.Close())
			return n
		}
		indexes := "SELECT COUNT(*) FROM sqlite_master WHERE type = 'index'"
		if b.Engine == Postgres {
			indexes = "SELECT COUNT(*) FROM pg_indexes"
		}
		before, keys, sent := read(indexes), read("SELECT COUNT(*) FROM webhook_event_keys"),
			read("SELECT COUNT(*) FROM webhook_events")
		require.NoError(t, s.fill(t.Context(), s.path, b.Fill))
		require.Equal(t, before, read(indexes))
		require.Equal(t, sent+b.Fill, read("SELECT COUNT(*) FROM webhook_events WHERE status = 'forwarded'"))
		require.Equal(t, sent+b.Fill, read("SELECT COUNT(*) FROM deliveries WHERE status = 'succeeded'"))
		require.Equal(t, sent+b.Fill, read("SELECT COUNT(*) FROM delivery_attempts"))
		require.Equal(t, keys+keys/sent*b.Fill, read("SELECT COUNT(*) FROM webhook_event_keys"))
		require.Greater(t, read("SELECT COUNT(DISTINCT received_ms) FROM webhook_events"), b.Fill)
		// Of those sent, two that arrive at the same time may have ids in another order than their times.
		require.Zero(t, read(`SELECT COUNT(*) FROM (SELECT received_ms, LAG(received_ms) OVER (ORDER BY event_uuid) AS last
			FROM webhook_events WHERE event_uuid LIKE '%-7000-8000-%') x WHERE last > received_ms`))
		require.Zero(t, read("SELECT COUNT(*) FROM webhook_event_keys WHERE expires_ms <= claimed_ms"))
		require.NoError(t, s.start(t.Context()), "the gateway serves what was filled")
		status, list, err := s.api().Do(t.Context(), "GET", "/webhook-events?limit=250", nil)
		require.NoError(t, err)
		require.Equal(t, 200, status, "%s", list)
	})
}

// Ratios are compared with targets as medians of the pairs, with their range; a target missed, an event lost and a
// failure are shown and count.
func TestPrint(t *testing.T) {
	t.Parallel()
	rows := []Row{{Name: "a", Targets: []Target{{Figure: AckP99, Limit: 2}, {Figure: Rate, Limit: 0.9, Least: true},
		{Figure: Peak, Limit: 200, Absolute: true}}}}
	good := Result{Row: "a", Engine: SQLite, Pairs: []Pair{
		{Without: Figures{AckP99: 2, Rate: 100, Peak: 90}, With: Figures{AckP99: 3, Rate: 95, Peak: 120}, Note: "7 × 200"},
		{Without: Figures{AckP99: 2, Rate: 100, Peak: 90}, With: Figures{AckP99: 5, Rate: 87, Peak: 130}},
	}}
	show := func(r Result) (string, bool) {
		var out bytes.Buffer
		met, err := Print(&out, rows, []Result{r})
		require.NoError(t, err)
		return out.String(), met
	}
	text, met := show(good)
	require.True(t, met, text)
	require.Contains(t, text, "2.00 (1.50–2.50)")
	require.Contains(t, text, "0.91 (0.87–0.95)")
	require.Contains(t, text, "125.00 (120.00–130.00)")
	require.Contains(t, text, "a, sqlite: 7 × 200")

	slow := good
	slow.Pairs = []Pair{{Without: Figures{AckP99: 2, Rate: 100, Peak: 90}, With: Figures{AckP99: 4.1, Rate: 95,
		Peak: 120}}}
	text, met = show(slow)
	require.False(t, met)
	require.Contains(t, text, "NO")

	lossy := good
	lossy.Pairs = append([]Pair{{Without: Figures{AckP99: 2, Rate: 100, Peak: 90, Missing: 1}, With: good.Pairs[0].With}},
		good.Pairs...)
	text, met = show(lossy)
	require.False(t, met)
	require.Contains(t, text, "0 events refused, 1 missing")

	text, met = show(Result{Row: "a", Engine: SQLite, Problem: "it fell over"})
	require.False(t, met)
	require.Contains(t, text, "it fell over")
}

// A made document has as many operations as it may have, and is nearly as large as it may be.
func TestSynthetic(t *testing.T) {
	t.Parallel()
	text := synthetic(1, MostOperations)
	n, err := io.Copy(io.Discard, text)
	require.NoError(t, err)
	require.LessOrEqual(t, n, int64(mostBytes))
	require.Greater(t, n, int64(mostBytes)*9/10)

	all, err := io.ReadAll(synthetic(2, 300))
	require.NoError(t, err)
	d, err := documents.Open(all)
	require.NoError(t, err)
	list, err := d.Operations()
	require.NoError(t, err)
	names := map[string]bool{}
	for r := range list {
		require.Nil(t, r.Left)
		names[r.Action.Name] = true
	}
	require.Len(t, names, 300)
}

// Of a folder, the largest documents are taken, and again if there are fewer.
func TestDocuments(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"a.json": "1", "b.json": "22", "c.txt": "333"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	b := New(clock.System(), Options{Documents: folder}, 0)
	list, err := b.documents(3, 0)
	require.NoError(t, err)
	var texts []string
	for _, d := range list {
		file, err := d.open()
		require.NoError(t, err)
		text, err := io.ReadAll(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		texts = append(texts, d.slug+" "+string(text))
	}
	require.Equal(t, []string{"document-0 22", "document-1 1", "document-2 22"}, texts)
	b.Documents = t.TempDir()
	_, err = b.documents(3, 0)
	require.ErrorContains(t, err, "no documents")
}

// A row that there is not is an error that names those that there are.
func TestRowsByName(t *testing.T) {
	t.Parallel()
	all, err := Rows(nil)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, r := range all {
		require.False(t, seen[r.Name], r.Name)
		seen[r.Name] = true
		require.NotEmpty(t, r.Targets)
	}
	_, err = Rows([]string{"hanging", "nothing"})
	require.ErrorIs(t, err, errRow)
	require.ErrorContains(t, err, "hanging-4")
}
