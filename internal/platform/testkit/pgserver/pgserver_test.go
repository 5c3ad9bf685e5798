//go:build unix

package pgserver

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// soon is how long the servers of these tests outlive their last holder.
const soon = 10 * time.Millisecond

func joined(t *testing.T, dir string) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	s, err := join(ctx, dir, soon)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.hold.Close() }) // the test may have done so
	return s
}

// reach connects to a server.
func reach(t *testing.T, s *Server) error {
	t.Helper()
	d, err := sql.Open("pgx", s.URL)
	require.NoError(t, err)
	err = d.PingContext(t.Context())
	require.NoError(t, d.Close())
	return err
}

// serverDir returns a folder that the user who runs the server for root may enter. Without an installed server the test
// is skipped.
func serverDir(t *testing.T) string {
	t.Helper()
	if _, _, err := find(); err != nil && os.Getenv("SALLYPORT_REQUIRE_ENGINES") == "" {
		t.Skip(err)
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711))
	t.Cleanup(func() { ends(t, dir) })
	return dir
}

// ends waits until a server is gone, and its data with it.
func ends(t *testing.T, dir string) {
	t.Helper()
	await.Condition(t, "the end of the server", func() bool {
		_, err := os.Stat(filepath.Join(dir, dataFolder))
		return errors.Is(err, os.ErrNotExist)
	})
}

// All processes share one server, which ends soon after the last of them, and the next one gets another.
func TestServerIsSharedAndEnds(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	first, second := joined(t, dir), joined(t, dir)
	require.Equal(t, first.URL, second.URL)
	require.NoError(t, reach(t, first))
	require.NoError(t, first.hold.Close())
	time.AfterFunc(5*look, func() { _ = second.hold.Close() }) // until then the server stays
	ends(t, dir)
	require.Error(t, reach(t, second))
	third := joined(t, dir)
	require.NotEqual(t, first.URL, third.URL)
	require.NoError(t, reach(t, third))
}

// A keeper that is killed takes its server with it or, where the system cannot see to that, the next one does.
func TestKeeperIsKilled(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	first := joined(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, keeperLock))
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	await.Condition(t, "the end of the keeper", func() bool {
		runs, err := keeperRuns(dir)
		return err == nil && !runs
	})
	second := joined(t, dir)
	require.NotEqual(t, first.URL, second.URL)
	require.NoError(t, reach(t, second))
	require.Error(t, reach(t, first))
}

// A server whose folder is deleted, as folders for temporary files are, ends.
func TestFolderIsDeleted(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	s := joined(t, dir)
	require.NoError(t, os.Rename(dir, dir+" was here"))
	await.Condition(t, "the end of the server", func() bool { return reach(t, s) != nil })
}
