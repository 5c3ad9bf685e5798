package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// files returns the names in a folder with their modes; nil where there is no folder.
func files(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	out := map[string]fs.FileMode{}
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		out[e.Name()] = info.Mode()
	}
	return out
}

// Only its owner can read a backup. It is whole at its place or absent, and the command says what to do with the
// keyset. Restored with its keyset it has the same keys and people, and both commands overwrite nothing.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	in := installation{dir: filepath.Join(t.TempDir(), "data")}
	in.setUp(t)
	s := in.serve(t, clock.System())
	key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes",
		"connections"))
	s.make(t, "/connections", key, map[string]any{"provider": "github", "connection_id": "repo",
		"webhook_secret": githubSecret})
	to := t.TempDir()
	backup, keyset := filepath.Join(to, "backup.db"), filepath.Join(to, "keyset.json")
	r := in.run(t, "backup", backup)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--without-keyset")
	require.Equal(t, exitUsage, in.run(t, "backup", backup, "--keyset-to", keyset, "--without-keyset").code)
	require.Empty(t, files(t, to))

	r = in.run(t, "backup", backup, "--keyset-to", keyset)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^\S+backup\.db: the database, \d+\.\d MiB, schema version \d+, checked\n`+
		`\S+keyset\.json: the keyset, .* \(3 checked\)\n$`, r.out)
	require.Contains(t, r.stderr, "Store the two files apart")
	want := map[string]fs.FileMode{"backup.db": 0o600, "keyset.json": 0o600}
	if runtime.GOOS != "windows" {
		require.Equal(t, want, files(t, to))
	}
	alone := filepath.Join(to, "alone.db")
	r = in.run(t, "backup", alone, "--without-keyset")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stderr, "no secret in the backup can be decrypted")
	require.NoError(t, os.Remove(alone))

	text, err := os.ReadFile(backup)
	require.NoError(t, err)
	require.NotContains(t, string(text), githubSecret)
	for _, args := range [][]string{{backup, "--without-keyset"}, {filepath.Join(to, "second.db"), "--keyset-to",
		keyset}} {
		r = in.run(t, append([]string{"backup"}, args...)...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "nothing was overwritten")
	}
	for _, args := range [][]string{{filepath.Join(to, "no", "second.db"), "--without-keyset"},
		{filepath.Join(to, "second.db"), "--keyset-to", filepath.Join(to, "no", "keyset")}} {
		r = in.run(t, append([]string{"backup"}, args...)...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "no such file or directory")
		require.NotContains(t, r.stderr, "reachable", "a folder that is not there is no matter of the database")
	}
	require.Len(t, files(t, to), 2, "nothing is left of what failed")
	again, err := os.ReadFile(backup)
	require.NoError(t, err)
	require.Equal(t, text, again)

	r = in.run(t, "restore", backup)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "there is a database already")
	s.stop()

	other := installation{dir: filepath.Join(t.TempDir(), "data")}
	refuse := func(want string, args ...string) {
		t.Helper()
		r := other.run(t, append([]string{"restore"}, args...)...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, want)
		require.NotContains(t, files(t, other.dir), "sallyport.db")
		require.NotContains(t, files(t, other.dir), "keyset.json")
	}
	stranger := filepath.Join(to, "stranger.json")
	in.do(t, "keyset", "create", "--keyset-file", stranger)
	bad := write(t, t.TempDir(), "text", "no database", "empty", "", "cut", string(text[:len(text)/2]), "turned",
		turned(text), "live", string(text), "live-wal", "x")
	foreign, err := db.Open(t.Context(), "", filepath.Join(bad, "foreign"))
	require.NoError(t, err)
	_, err = foreign.Write().ExecContext(t.Context(), "CREATE TABLE invoices (id TEXT)")
	require.NoError(t, err)
	require.NoError(t, foreign.Close())
	refuse("no backup of a Sallyport database", filepath.Join(bad, "foreign", "sallyport.db"), "--keyset-from", keyset)
	refuse("--keyset-from", backup)
	refuse("not the keyset of this database", backup, "--keyset-from", stranger)
	refuse("no such file", backup, "--keyset-from", filepath.Join(to, "none.json"))
	refuse("no such file", filepath.Join(to, "none.db"), "--keyset-from", keyset)
	refuse("damaged or is not a database", filepath.Join(bad, "text"), "--keyset-from", keyset)
	refuse("no backup of a Sallyport database", filepath.Join(bad, "empty"), "--keyset-from", keyset)
	refuse("no backup of a Sallyport database", to, "--keyset-from", keyset)
	refuse("write-ahead log", filepath.Join(bad, "live"), "--keyset-from", keyset)
	refuse("damaged", filepath.Join(bad, "cut"), "--keyset-from", keyset)
	refuse("damaged", filepath.Join(bad, "turned"), "--keyset-from", keyset)
	write(t, other.dir, "sallyport.db-wal", "left behind")
	refuse("sallyport.db-wal", backup, "--keyset-from", keyset)
	require.NoError(t, os.Remove(filepath.Join(other.dir, "sallyport.db-wal")))

	r = other.run(t, "restore", backup, "--keyset-from", keyset)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.out, "(3 checked)")
	require.Contains(t, r.stderr, "Keys revoked")
	require.Equal(t, fs.FileMode(0o600), files(t, other.dir)["sallyport.db"])
	require.Equal(t, in.do(t, "keys", "list"), other.do(t, "keys", "list"))
	s = other.serve(t, clock.System())
	s.deliver(t, "after the restore")
	require.Equal(t, in.keys(t), other.keys(t))

	// A keyset that is in its place is the one that counts.
	third := installation{dir: filepath.Join(t.TempDir(), "data")}
	require.NoError(t, os.MkdirAll(third.dir, 0o700))
	require.NoError(t, os.Rename(keyset, filepath.Join(third.dir, "keyset.json")))
	require.Contains(t, third.run(t, "restore", backup, "--keyset-from", stranger).stderr, "there is a keyset already")
	third.do(t, "restore", backup)
	third.do(t, "keys", "list")
}

// turned flips what a disk that fails silently may flip: bits in the middle of a page.
func turned(text []byte) string {
	b := append([]byte{}, text...)
	for i := 4096*2 + 4; i < len(b); i += 4096 {
		b[i] ^= 0xff
	}
	return string(b)
}

// The database of any release is backed up; a backup of an older one is restored, for the first start migrates it, and
// one of a newer one is refused.
func TestRestoreOfOtherSchemas(t *testing.T) {
	t.Parallel()
	in := installation{dir: filepath.Join(t.TempDir(), "data")}
	in.setUp(t)
	to := t.TempDir()
	w := in.open(t).Write()
	try := func(name string) (installation, result) {
		file, keyset := filepath.Join(to, name+".db"), filepath.Join(to, name+".json")
		in.do(t, "backup", file, "--keyset-to", keyset)
		other := installation{dir: filepath.Join(t.TempDir(), "data")}
		return other, other.run(t, "restore", file, "--keyset-from", keyset)
	}
	_, err := w.ExecContext(t.Context(),
		"DELETE FROM goose_db_version WHERE version_id = (SELECT MAX(version_id) FROM goose_db_version)")
	require.NoError(t, err)
	_, r := try("older")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.out, "(1 checked)")
	_, err = w.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (1000, TRUE)")
	require.NoError(t, err)
	other, r := try("newer")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "newer than this binary")
	require.Nil(t, files(t, other.dir))
}

// PostgreSQL's own tools back it up, and the commands say so and touch nothing.
func TestBackupOfPostgres(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{{"backup", filepath.Join(dir, "x.db"), "--without-keyset"},
		{"restore", filepath.Join(dir, "x.db")}} {
		r := call(command{ctx: t.Context(), clock: clock.NewManual(time.Unix(0, 0)), args: args},
			[]string{"SALLYPORT_DATABASE_URL=postgres://ada:hunter2@127.0.0.1:1/x", "SALLYPORT_DATA=" +
				filepath.Join(dir, "data")})
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "pg_dump")
		require.NotContains(t, r.stderr, "hunter2")
	}
	require.Empty(t, files(t, dir))
}
