package resealing_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/resealing"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

// world is a database with sealed values, and a node that follows the keyset.
type world struct {
	t     *testing.T
	store testkit.Store
	clock *clock.Manual
	path  string
	box   *secretbox.Box
	drops int
	m     module.Module
}

func newWorld(t *testing.T, s testkit.Store, values int) *world {
	t.Helper()
	w := &world{t: t, store: s, clock: clock.NewManual(time.Now()), path: filepath.Join(t.TempDir(), "keyset.json")}
	require.NoError(t, secretbox.Create(w.path))
	w.box = w.open()
	blob := "blob"
	if s.DB.Engine() == db.Postgres {
		blob = "bytea"
	}
	_, err := s.DB.Write().ExecContext(t.Context(), "CREATE TABLE secrets (id text PRIMARY KEY, sealed "+blob+")")
	require.NoError(t, err)
	for i := range values {
		w.put(w.box, fmt.Sprintf("row-%05d", i))
	}
	other := module.Module{Name: "x", Sealed: []secretbox.Column{column()}, Caches: []module.Cache{{Name: "c",
		Drop: func() { w.drops++ }, Refresh: func(context.Context) error { return nil }}}}
	w.m = resealing.New(resealing.Config{DB: s.DB, Clock: w.clock, Box: w.box, Logger: slog.New(slog.DiscardHandler),
		Modules: []module.Module{other}}).Module()
	return w
}

func column() secretbox.Column {
	return secretbox.Column{Table: "secrets", Column: "sealed", IDColumn: "id"}
}

func (w *world) open() *secretbox.Box {
	w.t.Helper()
	box, err := secretbox.Open(secretbox.Source{Path: w.path}, secretbox.WithClock(w.clock))
	require.NoError(w.t, err)
	return box
}

// put stores a value as a node with that keyset does.
func (w *world) put(box *secretbox.Box, rowID string) {
	w.t.Helper()
	sealed, err := box.Seal([]byte("secret"), secretbox.AD{Table: "secrets", Column: "sealed", RowID: rowID})
	require.NoError(w.t, err)
	_, err = w.store.DB.Write().ExecContext(w.t.Context(), "INSERT INTO secrets VALUES ($1, $2)", rowID, sealed)
	require.NoError(w.t, err)
}

// pass runs the jobs once, after the time in which they look.
func (w *world) pass() {
	w.t.Helper()
	w.clock.Advance(10 * time.Second)
	for _, j := range w.m.Jobs {
		_, err := j.Run(w.t.Context())
		require.NoError(w.t, err)
	}
}

// shows requires that the metrics show so many values of the current and of older keys, and that the database agrees.
func (w *world) shows(current, older int) {
	w.t.Helper()
	counts, err := secretbox.Count(w.t.Context(), w.store.DB, []secretbox.Column{column()})
	require.NoError(w.t, err)
	total := 0
	for _, n := range counts {
		total += n
	}
	key := w.box.PrimaryKeyID()
	require.Equal(w.t, []int{current, older}, []int{counts[key], total - counts[key]})
	gauge := func(key string) int {
		return int(testkit.Metric(w.t, w.m.Metrics, "sallyport_sealed_values", "key", key))
	}
	require.Equal(w.t, []int{current, older}, []int{gauge("current"), gauge("older")})
}

// After a rotation the node encrypts everything again without being asked, also a value that another node stored under
// the older key meanwhile, and the metrics show it. Nothing needs the older key then.
func TestFollowsARotation(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s, 3)
		late := w.open() // looks at the file five seconds after it was opened, at the earliest
		w.pass()
		w.shows(3, 0)
		_, err := secretbox.Rotate(w.path)
		require.NoError(t, err)
		w.pass()
		w.shows(3, 0)
		require.InDelta(t, 3, testkit.Metric(t, w.m.Metrics, "sallyport_resealed_values_total"), 0)
		stale, err := late.Seal([]byte("secret"), secretbox.AD{Table: "secrets", Column: "sealed", RowID: "late"})
		require.NoError(t, err)
		key, _ := secretbox.KeyID(stale)
		require.Equal(t, w.box.PrimaryKeyID(), key, "the other node follows when it seals")

		// A value that was sealed just before the other node looked, and is stored just after a pass.
		old, err := secretbox.List(w.path)
		require.NoError(t, err)
		require.Len(t, old, 2)
		_, err = secretbox.Promote(w.path, old[0].ID)
		require.NoError(t, err)
		w.put(w.open(), "late")
		_, err = secretbox.Promote(w.path, old[1].ID)
		require.NoError(t, err)
		w.pass()
		w.shows(4, 0)
		require.InDelta(t, 4, testkit.Metric(t, w.m.Metrics, "sallyport_resealed_values_total"), 0)
	})
}

// Sealed values in memory are dropped when the keyset has lost or gained a key, and only then.
func TestDropsCachesWhenKeysChange(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s, 1)
		w.pass()
		w.pass()
		require.Zero(t, w.drops)
		old := w.box.PrimaryKeyID()
		_, err := secretbox.Rotate(w.path)
		require.NoError(t, err)
		w.pass()
		w.pass()
		require.Equal(t, 1, w.drops)
		require.NoError(t, secretbox.Remove(w.path, old, func(time.Time) error { return nil }))
		w.pass()
		w.pass()
		require.Equal(t, 2, w.drops)
	})
}

// A value that does not open keeps no other from being encrypted again. It is an error, but not one of each round.
func TestValuesThatDoNotOpen(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s, 2)
		_, err := s.DB.Write().ExecContext(t.Context(), "UPDATE secrets SET sealed = substr(sealed, 1, 20) "+
			"WHERE id = 'row-00000'")
		require.NoError(t, err)
		_, err = secretbox.Rotate(w.path)
		require.NoError(t, err)
		w.clock.Advance(10 * time.Second)
		reseal := w.m.Jobs[1]
		_, err = reseal.Run(t.Context())
		require.ErrorIs(t, err, secretbox.ErrDecrypt)
		w.shows(1, 1)
		w.clock.Advance(10 * time.Second)
		_, err = reseal.Run(t.Context())
		require.NoError(t, err)
		w.clock.Advance(time.Hour)
		_, err = reseal.Run(t.Context())
		require.ErrorIs(t, err, secretbox.ErrDecrypt)
	})
}
