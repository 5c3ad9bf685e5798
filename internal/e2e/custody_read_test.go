package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// read reads every list, and everything in the lists, with the command line as well.
func (c *custody) read() {
	c.t.Helper()
	for _, path := range []string{"/connections?limit=100", "/provider-configs", "/webhook-events?limit=100",
		"/webhook-events/types", "/webhook-rejections", "/webhook-replays", "/api-keys", "/roles", "/roles/bindings", "/team",
		"/team/members", "/team/sessions", "/team/sso", "/team/invitations", "/team/me", "/team/me/totp",
		"/admin/audit-events?limit=100", "/admin/audit-events/export"} {
		as := c.user
		if strings.HasPrefix(path, "/webhook-") {
			as = c.key
		}
		status, text := c.send(as, http.MethodGet, path, nil)
		require.Equal(c.t, http.StatusOK, status, "%s: %s", path, text)
	}
	var events []struct {
		EventUUID string `json:"event_uuid"`
	}
	_, text := c.send(c.key, http.MethodGet, "/webhook-events?limit=100", nil)
	require.NoError(c.t, json.Unmarshal(text, &events))
	require.NotEmpty(c.t, events)
	for _, e := range events {
		for _, part := range []string{"", "/attempts", "/explain", "/payload"} {
			c.send(c.key, http.MethodGet, "/webhook-events/"+e.EventUUID+part, nil)
		}
	}
	for _, args := range [][]string{{"doctor"}, {"keyset", "list"}, {"providers", "show", "custody"}, {"config"}} {
		out, _ := c.try(args...) // doctor may find something
		c.saw(strings.Join(args, " "), out)
	}
}

// try runs a command that may fail and returns its output.
func (c *custody) try(args ...string) ([]byte, error) {
	cmd := exec.CommandContext(c.t.Context(), c.binary, args...)
	cmd.Env = c.environ
	return cmd.CombinedOutput()
}

// watch reads what the admin listener shows.
func (c *custody) watch() {
	c.t.Helper()
	c.mu.Lock()
	log := c.seen["the log"].String()
	c.mu.Unlock()
	var admin string
	for line := range strings.Lines(log) {
		var entry struct {
			Admin string `json:"admin_listen"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Admin != "" {
			admin = entry.Admin
		}
	}
	require.NotEmpty(c.t, admin)
	for _, path := range []string{"/metrics", "/health", "/debug/pprof/goroutine?debug=2"} {
		r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+admin+path, http.NoBody)
		require.NoError(c.t, err)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(c.t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(c.t, err)
		require.NoError(c.t, resp.Body.Close())
		require.Equal(c.t, http.StatusOK, resp.StatusCode, path)
		c.saw("the admin listener's "+path, text)
	}
}

// readStores keeps every file, and on PostgreSQL a dump. The keyset is not among them.
func (c *custody) readStores(databaseURL, dir string) {
	c.t.Helper()
	files := func() {
		require.NoError(c.t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "keyset.json") {
				return err
			}
			text, err := os.ReadFile(path) //nolint:gosec // the test's own folder
			c.saw("the file "+d.Name(), text)
			return err
		}))
	}
	files()
	if databaseURL != "" {
		text, err := exec.CommandContext(c.t.Context(), tool(c.t, "pg_dump"), databaseURL).Output()
		require.NoError(c.t, err)
		require.Contains(c.t, string(text), "connection_credential_values")
		c.saw("the dump", text)
		return
	}
	require.Positive(c.t, c.seen["the file sallyport.db-wal"].Len(), "the process was killed, so its log is there")
	backup := filepath.Join(c.t.TempDir(), "backup.db")
	out, err := c.try("backup", backup, "--without-keyset")
	require.NoError(c.t, err, "%s", out)
	c.saw("backup", out)
	text, err := os.ReadFile(backup)
	require.NoError(c.t, err)
	c.saw("the backup", text)
	files() // with the log copied into the database
}

// search looks for the secrets in everything.
func (c *custody) search() {
	c.t.Helper()
	size := 0
	var leaks []string
	for source, text := range c.seen {
		size += text.Len()
		leaks = append(leaks, c.marks.leaks(source, text.Bytes())...)
	}
	if len(leaks) > 0 {
		c.t.Log("the places of the marks:\n" + c.marks.index())
	}
	require.Empty(c.t, leaks, "%d leaks", len(leaks))
	c.t.Logf("%d marks and %d generated secrets, %d sources, %d bytes", len(c.marks.places), len(c.marks.generated),
		len(c.seen), size)
}

// crash ends the server with a dump of all its goroutines, as a fatal error does.
func (c *custody) crash() {
	c.t.Helper()
	require.NoError(c.t, c.process.Signal(syscall.SIGQUIT))
	await.Condition(c.t, "the end of the process", func() bool { return c.process.Signal(syscall.Signal(0)) != nil })
	await.Condition(c.t, "the dump", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return bytes.Contains(c.seen["the log"].Bytes(), []byte("goroutine "))
	})
}
