package imports

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/heaplimit"
	"sallyport/internal/platform/testkit"
)

// The indexes in memory are not part of what the heap may have for other work.
func TestIndexesRaiseTheLimitOfTheHeap(t *testing.T) { //nolint:paralleltest // the limit is that of the process
	const base = math.MaxInt64 / 4
	dir := t.TempDir()
	testkit.NewSQLite(t, dir)
	d, err := db.Open(t.Context(), "", dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	w := newWorld(t, testkit.Store{DB: d, Dir: dir})
	w.svc.indexes.heap = heaplimit.New(base)
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })
	w.start(w.svc)
	m := w.wait(w.create("acme", document("api.acme.example", "GET /a get_a", "GET /b get_b")))
	for range 2 {
		index, err := w.svc.Index(t.Context(), w.a.Environment, m.ID)
		require.NoError(t, err)
		require.Positive(t, index.Size())
		require.EqualValues(t, base+index.Size()/4*5, debug.SetMemoryLimit(-1))
	}
}
