package imports

import (
	"context"
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"time"

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

// A document is stored with a rest after each of its parts, so that a large one does not take the writer for itself.
func TestDocumentsArriveWithRests(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		rests := 0
		w.svc.pause = func(context.Context, time.Duration) { rests++ }
		text := document("api.acme.example", "GET /a get_a") + strings.Repeat(" ", 2*partBytes)
		m := w.create("acme", text)
		require.EqualValues(t, len(text), m.Document.Bytes)
		require.Equal(t, 3, rests)
	})
}
