package storing_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/storing"
	"sallyport/internal/platform/testkit"
)

// node is a monitor with what it looks at.
type node struct {
	*storing.Monitor
	t     *testing.T
	db    *db.DB
	clock *clock.Manual
	free  uint64
	spool string
}

func newNode(t *testing.T, s testkit.Store) *node {
	t.Helper()
	n := &node{t: t, db: s.DB, clock: clock.NewManual(time.Now()), free: 1 << 30, spool: filepath.Join(t.TempDir(),
		"spool")}
	require.NoError(t, os.Mkdir(n.spool, 0o700))
	n.Monitor = storing.New(storing.Config{DB: s.DB, Logger: slog.New(slog.DiscardHandler), Node: "node", Clock: n.clock,
		Folders: []storing.Folder{{Name: "spool", Path: n.spool, Probe: true}},
		Free:    func(string) (uint64, error) { return n.free, nil }})
	return n
}

// probe waits for as long as the last probe asked, and probes again.
func (n *node) probe() {
	n.t.Helper()
	n.clock.Advance(5 * time.Second)
	_, err := n.Probe(n.t.Context())
	require.NoError(n.t, err)
}

// write stores something larger than what may be free in the files already, as an event would.
func (n *node) write() error {
	return n.db.Tx(n.t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(n.t.Context(), "INSERT INTO store_probes (node, probed_ms, filler) VALUES ($1, $2, $3)",
			n.clock.Now().String(), clock.Millis(n.clock.Now()), make([]byte, 1<<20))
		return err
	})
}

// A node is not ready from the first event that it cannot store because the disk is full, says so, does not take a
// small write for a sign that all is well, and is ready again when there is space.
func TestFullDatabase(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() == db.Postgres {
			t.Skip("the disk of a server that all tests share")
		}
		n := newNode(t, s)
		n.probe()
		require.NoError(t, n.Check())
		limit := func(pages string) {
			_, err := s.DB.Write().ExecContext(t.Context(), "PRAGMA max_page_count = "+pages)
			require.NoError(t, err)
		}
		limit("1") // SQLite takes the present size instead
		require.Error(t, n.write())
		require.ErrorContains(t, n.Check(), "Events cannot be stored: the disk of the database is full")
		_, err := s.DB.Write().ExecContext(t.Context(), "UPDATE store_probes SET probed_ms = 1")
		require.NoError(t, err, "a small write finds room")
		for range 3 {
			n.probe()
			require.ErrorContains(t, n.Check(), "full")
		}
		limit("1000000")
		n.probe()
		require.NoError(t, n.Check())
		require.NoError(t, n.write())
		require.NoError(t, n.Check())
	})
}

// A node whose database takes no writes is not ready even if there are no events, and is ready again when writes are
// possible, although its connections are from before that.
func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		n := newNode(t, s)
		n.probe()
		setReadOnly(t, s, true)
		for range 10 { // of PostgreSQL's sessions one after the other is replaced
			n.clock.Advance(time.Second)
			_, _ = n.Probe(t.Context())
		}
		require.ErrorContains(t, n.Check(), "Events cannot be stored: the database is read-only")
		n.probe()
		require.Error(t, n.Check())
		setReadOnly(t, s, false)
		for range 10 {
			n.probe()
		}
		require.NoError(t, n.Check())
		require.NoError(t, n.write())
	})
}

func setReadOnly(t *testing.T, s testkit.Store, on bool) {
	t.Helper()
	value := "off"
	if on {
		value = "on"
	}
	if s.DB.Engine() == db.SQLite {
		_, err := s.DB.Write().ExecContext(t.Context(), "PRAGMA query_only = "+value)
		require.NoError(t, err)
		return
	}
	var name string
	require.NoError(t, s.DB.Schema().QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name))
	conn, err := s.DB.Schema().Conn(t.Context())
	require.NoError(t, err)
	for _, statement := range []string{"SET transaction_read_only = off", "SET default_transaction_read_only = off",
		"ALTER DATABASE " + name + " SET default_transaction_read_only = " + value,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> " +
			"pg_backend_pid()"} {
		if !on && statement[:9] == "SELECT pg" {
			continue // the sessions that are read-only stay
		}
		_, err := conn.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	require.NoError(t, conn.Close())
}

// A node that cannot write large bodies to its disk, or soon cannot, is not ready.
func TestFullSpool(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		n := newNode(t, s)
		n.probe()
		require.NoError(t, n.Check())
		require.NoError(t, os.Remove(n.spool))
		n.probe()
		require.ErrorContains(t, n.Check(), "nothing can be written in the spool folder")
		require.NotContains(t, n.Check().Error(), n.spool)
		require.NoError(t, os.Mkdir(n.spool, 0o700))
		n.probe()
		require.NoError(t, n.Check())
		n.SpoolFailed()
		require.ErrorContains(t, n.Check(), "nothing can be written in the spool folder", "a body failed between two probes")
		_, err := n.Probe(t.Context())
		require.NoError(t, err)
		require.Error(t, n.Check(), "it failed a moment ago")
		n.probe()
		require.NoError(t, n.Check())
		entries, err := os.ReadDir(n.spool)
		require.NoError(t, err)
		require.Empty(t, entries, "probes are removed")

		n.free = 10 << 20
		n.probe()
		require.ErrorContains(t, n.Check(), "the disk of the spool folder is full")
		n.free = 20 << 20
		n.probe()
		require.Error(t, n.Check(), "a node does not go back and forth")
		n.free = 30 << 20
		n.probe()
		require.NoError(t, n.Check())
	})
}

// While transactions fail, a probe that succeeds does not make the node ready; other errors of transactions do not make
// it unready; and a node whose probes show nothing for long is not ready.
func TestEvidence(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		n := newNode(t, s)
		fail := func(err error) { _ = s.DB.Tx(t.Context(), func(*sql.Tx) error { return err }) }
		fail(errors.New("a rule"))
		fail(context.DeadlineExceeded)
		require.NoError(t, n.Check())
		n.probe()
		if s.DB.Engine() == db.SQLite {
			var full error
			_, err := s.DB.Write().ExecContext(t.Context(), "PRAGMA query_only = 1")
			require.NoError(t, err)
			full = n.write()
			_, err = s.DB.Write().ExecContext(t.Context(), "PRAGMA query_only = 0")
			require.NoError(t, err)
			require.Error(t, n.Check())
			_, err = n.Probe(t.Context())
			require.NoError(t, err)
			require.Error(t, n.Check(), "it failed a moment ago")
			n.clock.Advance(time.Second)
			fail(full)
			n.clock.Advance(time.Second)
			wait, err := n.Probe(t.Context())
			require.NoError(t, err)
			require.Error(t, n.Check(), "it failed a moment ago")
			require.Equal(t, time.Second, wait)
			n.clock.Advance(time.Second)
			wait, err = n.Probe(t.Context())
			require.NoError(t, err)
			require.NoError(t, n.Check())
			require.Equal(t, 5*time.Second, wait)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		n.clock.Advance(10 * time.Second)
		_, err := n.Probe(ended)
		require.Error(t, err)
		require.NoError(t, n.Check(), "a probe that took too long shows nothing")
		n.clock.Advance(6 * time.Second)
		require.ErrorContains(t, n.Check(), "does not store anything in time")
		n.probe()
		require.NoError(t, n.Check())
	})
}
