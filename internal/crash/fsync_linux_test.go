package crash_test

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/pgserver"
)

// startTraced starts a server on SQLite and returns a function that reads how often it has synced a file.
func startTraced(t *testing.T, dir string) (s *server, syncs func() uint64) {
	t.Helper()
	counts := filepath.Join(t.TempDir(), "syncs")
	require.NoError(t, os.WriteFile(counts, make([]byte, 8), 0o600))
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, testkit.Binary(t), "serve", "--dev", "--data", dir, "--listen",
		"127.0.0.1:0", "--log-format", "json")
	cmd.Env = []string{tracerVariable + "=" + counts}
	return launch(t, cmd), func() uint64 {
		text, err := os.ReadFile(counts)
		require.NoError(t, err)
		return binary.LittleEndian.Uint64(text)
	}
}

// Each acknowledged event is on the disk: the process has synced a file between the request and its response.
func TestAcknowledgedEventsAreSynced(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	needTracing(t)
	const counted = 30
	w := newWorld(t, "", t.TempDir())
	s, syncs := startTraced(t, w.dir)
	w.credentials(t)
	w.sender.segment = w.connect(t, s, "busy")
	for i := range counted {
		before := syncs()
		require.True(t, w.sender.post(t.Context(), s.base, fmt.Sprintf("00000000-0000-4000-8000-%012x", i)))
		require.Greater(t, syncs(), before, "the event is acknowledged and not on the disk")
	}
}

// needTracing skips the test where a process may not trace its children.
func needTracing(t *testing.T) {
	t.Helper()
	counts := filepath.Join(t.TempDir(), "syncs")
	require.NoError(t, os.WriteFile(counts, make([]byte, 8), 0o600))
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "/bin/true")
	cmd.Env = []string{tracerVariable + "=" + counts}
	if out, err := cmd.CombinedOutput(); err != nil {
		require.Contains(t, string(out), unix.EPERM.Error())
		t.Skipf("tracing a process is not permitted here: %s", out)
	}
}

// As on SQLite: a PostgreSQL server that waits for its disk has synced its log at least once for each acknowledged
// event, although the operator has turned that off for everyone else.
func TestAcknowledgedEventsAreSyncedByPostgres(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	const counted = 200 // many more than the commits of a start and a stop
	//nolint:usetesting // the parent of a test's folder is closed to the server's user
	folder, err := os.MkdirTemp("", "sallyport-fsync-*")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, 0o755))
	// The server's own process that syncs what no commit waits for would be counted as well. It hardly runs.
	own, err := pgserver.NewOwn(folder, "fsync=on", "full_page_writes=on", "synchronous_commit=off",
		"wal_writer_delay=10000")
	if errors.Is(err, pgserver.ErrNone) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(own.Kill)
	admin, err := sql.Open("pgx", own.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close()) }()
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE counted")
	require.NoError(t, err)
	u, err := url.Parse(own.URL)
	require.NoError(t, err)
	u.Path = "/counted"
	w := newWorld(t, u.String(), t.TempDir())
	s := startServer(t, w.dir, w.databaseURL)
	w.credentials(t)
	w.sender.segment = w.connect(t, s, "busy")
	s.terminate(t) // a session reports what it has counted when it ends, at the latest
	before := w.walSyncs(t, admin)
	s = startServer(t, w.dir, w.databaseURL)
	for i := range counted {
		require.True(t, w.sender.post(t.Context(), s.base, fmt.Sprintf("00000000-0000-4000-8000-%012x", i)))
	}
	s.terminate(t)
	require.GreaterOrEqual(t, w.walSyncs(t, admin)-before, counted, "events are acknowledged and not on the disk")
}

// walSyncs returns how often the server's sessions that have ended have synced its log.
func (w *world) walSyncs(t *testing.T, admin *sql.DB) (n int) {
	t.Helper()
	waitFor(t, "the sessions end", func() bool {
		var open int
		require.NoError(t, admin.QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM pg_stat_activity WHERE datname = 'counted'").Scan(&open))
		return open == 0
	})
	var version int
	require.NoError(t, admin.QueryRowContext(t.Context(),
		"SELECT CAST(current_setting('server_version_num') AS integer)").Scan(&version))
	query := "SELECT wal_sync FROM pg_stat_wal"
	if version >= 180000 {
		query = "SELECT SUM(fsyncs) FROM pg_stat_io WHERE object = 'wal'"
	}
	require.NoError(t, admin.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}
