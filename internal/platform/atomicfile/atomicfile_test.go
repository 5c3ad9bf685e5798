package atomicfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/atomicfile"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A file is its owner's alone from the first byte, is at its place only when it is whole, and nothing else stays.
func TestCommit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "backup.db")
	f, err := atomicfile.Create(path)
	require.NoError(t, err)
	_, err = f.WriteString("content")
	require.NoError(t, err)
	require.NoFileExists(t, path)
	require.Len(t, names(t, dir), 1)
	info, err := f.Stat()
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, fs.FileMode(0o600), info.Mode())
	}
	require.NoError(t, f.Commit())
	require.NoError(t, f.Abort(), "does nothing any more")
	require.Equal(t, []string{"backup.db"}, names(t, dir))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "content", string(text))
}

// An existing file is never overwritten, whether it was there at the beginning or came meanwhile.
func TestReplacesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "backup.db")
	late, err := atomicfile.Create(path)
	require.NoError(t, err)
	require.NoError(t, atomicfile.Write(path, []byte("first")))
	require.ErrorIs(t, late.Commit(), fs.ErrExist)
	require.NoError(t, late.Abort())
	_, err = atomicfile.Create(path)
	require.ErrorIs(t, err, fs.ErrExist)
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "link")))
	require.ErrorIs(t, atomicfile.Write(filepath.Join(dir, "link"), []byte("x")), fs.ErrExist)
	require.Equal(t, []string{"backup.db", "link"}, names(t, dir))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "first", string(text))
}

// Replace puts new content in the place of a file or of nothing, for its owner alone, and leaves no other file.
func TestReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "credentials.json")
	require.NoError(t, atomicfile.Replace(path, []byte("first")))
	require.NoError(t, os.Chmod(path, 0o644))
	require.NoError(t, atomicfile.Replace(path, []byte("second")))
	require.Equal(t, []string{"credentials.json"}, names(t, dir))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "second", string(text))
	if info, err := os.Stat(path); runtime.GOOS != "windows" {
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode())
	}

	folder := filepath.Join(dir, "folder")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.Error(t, atomicfile.Replace(folder, []byte("x")))
	require.Equal(t, []string{"credentials.json", "folder"}, names(t, dir))
}

// An unfinished file leaves nothing.
func TestAbort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := atomicfile.Create(filepath.Join(dir, "backup.db"))
	require.NoError(t, err)
	require.NoError(t, f.Abort())
	require.NoError(t, f.Abort())
	require.Empty(t, names(t, dir))
	_, err = atomicfile.Create(filepath.Join(dir, "none", "backup.db"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
