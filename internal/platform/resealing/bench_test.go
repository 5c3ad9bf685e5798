package resealing_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/secretbox"
)

// manyValues is how many values of a column are encrypted again.
const manyValues = 200_000

// BenchmarkReseal measures how long it takes to encrypt many values again, and how much memory: both decide how long an
// older key has to stay after a rotation.
func BenchmarkReseal(b *testing.B) {
	dir := b.TempDir()
	d, err := db.Open(b.Context(), "", dir)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	_, _, err = migrate.Up(b.Context(), d)
	require.NoError(b, err)
	_, err = d.Write().ExecContext(b.Context(), "CREATE TABLE secrets (id text PRIMARY KEY, sealed blob)")
	require.NoError(b, err)
	path := filepath.Join(dir, "keyset.json")
	require.NoError(b, secretbox.Create(path))
	clk := clock.System()
	open := func() *secretbox.Box {
		box, err := secretbox.Open(secretbox.Source{Path: path}, secretbox.WithClock(clk))
		require.NoError(b, err)
		return box
	}
	box := open()
	const part = 10_000 // of a transaction
	for from := 0; from < manyValues; from += part {
		require.NoError(b, d.Tx(b.Context(), func(tx *sql.Tx) error {
			for i := from; i < from+part; i++ {
				id := fmt.Sprintf("row-%07d", i)
				sealed, err := box.Seal([]byte("ghp_0123456789abcdefghijklmnopqrstuvwxyz"),
					secretbox.AD{Table: "secrets", Column: "sealed", RowID: id})
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(b.Context(), "INSERT INTO secrets VALUES ($1, $2)", id, sealed); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for b.Loop() {
		_, err = secretbox.Rotate(path)
		require.NoError(b, err)
		box = open()
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		before, peak := memory.HeapAlloc, uint64(0)
		began := clk.Now()
		var longest time.Duration
		last := began
		total, err := secretbox.Reseal(b.Context(), d, box, []secretbox.Column{column()}, func(secretbox.Progress) {
			runtime.ReadMemStats(&memory)
			peak = max(peak, memory.HeapAlloc-min(before, memory.HeapAlloc))
			now := clk.Now()
			longest, last = max(longest, now.Sub(last)), now
		})
		require.NoError(b, err)
		require.Equal(b, manyValues, total.Changed)
		b.ReportMetric(manyValues/clk.Now().Sub(began).Seconds(), "values/s")
		b.ReportMetric(float64(peak)/(1<<20), "heap-MiB")
		b.ReportMetric(longest.Seconds(), "longest-window-s")
		b.ReportMetric(0, "ns/op") // which says nothing here
	}
}
