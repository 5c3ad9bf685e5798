package crash_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
)

// A server whose disk is full refuses what it cannot store and stops sending what it could not record. When there is
// space again it continues by itself, has lost nothing, and sends nothing twice.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	// Without the filler there is room for the log, which grows to some 60 MB before a checkpoint.
	const size = 256 << 20
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skip("mounting a small file system is not permitted here; TestFileSizeLimit lets writes fail in another way")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	w := newWorld(t, "", dir)
	s := startServer(t, dir, "")
	w.populate(t, s)
	filler := filepath.Join(dir, "filler")
	w.outage(t, s, outage{
		remnant: true,
		begin:   func() { fill(t, filler, size) },
		end:     func() { require.NoError(t, os.Remove(filler)) },
		during: func() {
			w.requireUnready(t, s)
			w.requireRefusal(t, s, 1<<20) // of this size it would wait on the disk until it is complete
		},
	})
}

// fill writes the file until no byte more fits into its file system.
func fill(t *testing.T, path string, atMost int) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	block := make([]byte, 1<<20)
	for written := 0; ; {
		n, err := f.Write(block)
		written += n
		require.LessOrEqual(t, written, atMost)
		if err == nil {
			continue
		}
		require.ErrorIs(t, err, unix.ENOSPC)
		if len(block) == 1 {
			break
		}
		block = block[:1]
	}
	require.NoError(t, f.Close())
}

// A limit on the size of files, which needs no privilege to set, makes writes fail where a full disk does, with another
// error.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	dir := t.TempDir()
	w := newWorld(t, "", dir)
	s := startServer(t, dir, "")
	w.populate(t, s)
	var old unix.Rlimit
	w.outage(t, s, outage{
		remnant: true,
		begin: func() {
			// At the size of the database itself neither can the log grow on, nor can it be emptied into the database.
			file, err := os.Stat(filepath.Join(dir, db.FileName))
			require.NoError(t, err)
			require.NoError(t, unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &old))
			limit := unix.Rlimit{Cur: uint64(file.Size()), Max: old.Max}
			require.NoError(t, unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))
		},
		end: func() {
			require.NoError(t, unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, &old, nil))
		},
		during: func() { w.requireUnready(t, s) },
	})
}
