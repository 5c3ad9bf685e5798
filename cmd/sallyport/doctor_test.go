package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/operator"
	"sallyport/internal/platform/clock"
)

// outcomes runs doctor and returns its checks by name.
func (in installation) outcomes(t *testing.T, args ...string) (int, map[string]operator.Check) {
	t.Helper()
	r := in.run(t, append([]string{"doctor", "--json"}, args...)...)
	require.Empty(t, r.stderr)
	d := decode[operator.Diagnosis](t, r.out)
	checks := map[string]operator.Check{}
	worst := operator.CheckOK
	for _, c := range d.Checks {
		require.NotEmpty(t, c.Message, c.Name)
		require.Equal(t, c.Status == operator.CheckWarn || c.Status == operator.CheckFail, c.Hint != "", "%s: %s", c.Name,
			c.Message)
		if c.Status == operator.CheckFail || c.Status == operator.CheckWarn && worst == operator.CheckOK {
			worst = c.Status
		}
		checks[c.Name] = c
	}
	require.Equal(t, worst, d.Status)
	require.Equal(t, worst == operator.CheckFail, r.code == exitFailed)
	return r.code, checks
}

// A sound installation passes, with a running server and without one; the text says what the JSON says.
func TestDoctorSound(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		code, checks := in.outcomes(t)
		require.Equal(t, exitOK, code)
		require.Equal(t, operator.CheckWarn, checks["public URL"].Status, "nobody is there to answer")

		s := in.serve(t, clock.System())
		key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes",
			"connections"))
		s.make(t, "/connections", key, map[string]any{"provider": "github", "connection_id": "repo",
			"webhook_secret": githubSecret})
		code, checks = in.outcomes(t, "--public-url", s.base)
		require.Equal(t, exitOK, code)
		for _, name := range []string{"disk", "database", "schema", "keyset", "sealed values", "providers", "deliveries",
			"listeners", "public URL", "trusted proxies", "egress"} {
			require.Equal(t, operator.CheckOK, checks[name].Status, "%s: %s", name, checks[name].Message)
		}
		require.Equal(t, operator.CheckSkip, checks["certificate"].Status)
		want := operator.CheckOK
		if in.url == "" {
			want = operator.CheckSkip
		}
		require.Equal(t, want, checks["clock"].Status)
		require.Contains(t, checks["sealed values"].Message, "3 looked at")

		text := in.do(t, "doctor", "--public-url", s.base)
		for name, c := range checks {
			if name != "disk" && name != "clock" { // their figures move
				require.Contains(t, text, c.Message)
			}
		}
		require.NotContains(t, text, githubSecret)
		status, _ := s.ask(t, http.MethodGet, "/readyz", "", nil)
		require.Equal(t, http.StatusOK, status, "the server is none the worse for it")
	})
}

// Before the first start there is nothing to look at, and looking makes nothing.
func TestDoctorBeforeFirstStart(t *testing.T) {
	t.Parallel()
	in := installation{dir: filepath.Join(t.TempDir(), "data")}
	code, checks := in.outcomes(t)
	require.Equal(t, exitFailed, code)
	require.Equal(t, operator.CheckFail, checks["database"].Status)
	require.Equal(t, operator.CheckFail, checks["keyset"].Status)
	for _, name := range []string{"disk", "schema", "clock", "sealed values", "deliveries"} {
		require.Equal(t, operator.CheckSkip, checks[name].Status, name)
	}
	require.NoDirExists(t, in.dir)
}

// A server in development mode that uses the folder may have other settings, which doctor says; its key is not shown.
func TestDoctorNextToDevelopment(t *testing.T) {
	t.Parallel()
	dir := write(t, t.TempDir(), "dev-credentials.json",
		`{"base_url":"http://127.0.0.1:21080/api/v1","api_key":"spk_test_dev"}`)
	require.NoError(t, os.Chmod(filepath.Join(dir, "dev-credentials.json"), 0o600))
	r := call(command{ctx: t.Context(), clock: clock.System(), args: []string{"doctor"}},
		[]string{"SALLYPORT_DATA=" + dir})
	require.Contains(t, r.stderr, "A server in development mode uses this data folder, at http://127.0.0.1:21080.")
	require.NotContains(t, r.out+r.stderr, "spk_test_dev")
}

// Each trouble fails the check that is about it, with the fix, and no password or key is printed.
func TestDoctorTroubles(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		file := filepath.Join(in.dir, "keyset.json")
		failing := func(name, hint string, args ...string) {
			t.Helper()
			code, checks := in.outcomes(t, args...)
			require.Equal(t, exitFailed, code)
			require.Equal(t, operator.CheckFail, checks[name].Status, checks[name].Message)
			require.Contains(t, checks[name].Hint, hint)
		}
		require.NoError(t, os.Chmod(file, 0o640))
		failing("keyset", "chmod 600")
		require.NoError(t, os.Chmod(file, 0o600))

		other := filepath.Join(t.TempDir(), "other.json")
		in.do(t, "keyset", "create", "--keyset-file", other)
		failing("sealed values", "--keyset-file", "--keyset-file", other)
		failing("keyset", "sallyport keyset create", "--keyset-file", other+".none")

		definitions := write(t, filepath.Join(t.TempDir(), "definitions"), "acme.yaml", acme)
		s := in.serve(t, clock.System(), "--providers-dir="+definitions)
		key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes",
			"connections"))
		s.make(t, "/connections", key, map[string]any{"provider": "acme", "webhook_secret": githubSecret})
		s.stop()
		_, checks := in.outcomes(t, "--providers-dir="+definitions)
		require.Equal(t, operator.CheckOK, checks["providers"].Status)
		require.Contains(t, checks["providers"].Message, "1 in providers-dir")
		failing("providers", "delete the connections")
		failing("providers", "Name a folder", "--providers-dir="+definitions+"-none")
		write(t, definitions, "b.yaml", "x")
		failing("providers", "providers lint", "--providers-dir="+definitions)

		w := in.open(t).Write()
		_, err := w.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (1000, TRUE)")
		require.NoError(t, err)
		failing("schema", "release")
		_, err = w.ExecContext(t.Context(), "DELETE FROM goose_db_version WHERE version_id >= 3")
		require.NoError(t, err)
		failing("schema", "sallyport migrate")
	})
	r := call(command{ctx: t.Context(), clock: clock.System(), args: []string{"doctor"}}, []string{
		"SALLYPORT_DATA=" + t.TempDir(), "SALLYPORT_DATABASE_URL=postgres://ada:hunter2@127.0.0.1:1/x?sslmode=disable",
		"SALLYPORT_KEYSET=hunter2",
	})
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "fail  database")
	require.Contains(t, r.out, "fail  keyset")
	require.NotContains(t, r.out+r.stderr, "hunter2")
}
