package app_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
)

// started starts a server on SQLite in dir, calls fn and stops it. It returns what was logged.
func started(t *testing.T, dir string, level slog.Level, change func(*config.Config),
	fn func(url string)) (log string, err error) {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.KeysetFile, cfg.Listen = dir, filepath.Join(dir, "keyset.json"), "127.0.0.1:0"
	change(&cfg)
	var b bytes.Buffer
	a, err := app.New(t.Context(),
		app.Options{Config: cfg, Logger: slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: level})),
			Clock: clock.System(), Version: "test"})
	require.NoError(t, err)
	if err = a.Start(t.Context()); err == nil {
		fn("http://" + a.Addr() + "/api/v1")
	}
	require.NoError(t, a.Stop(t.Context()))
	return b.String(), err
}

// A server without a team logs a token that works, whatever level it logs at; one that is configured is not repeated,
// and works from a file as it does from the variable. With a team nothing is said, and a file that is gone does no
// harm.
func TestSetupTokenOfAServer(t *testing.T) {
	t.Parallel()
	const configured = "0123456789abcdef0123456789abcdef"
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "token")
	none := func(string) {}
	token := regexp.MustCompile(`"setup_token":"([^"]*)"`)

	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelError} {
		log, err := started(t, dir, level, func(*config.Config) {}, none)
		require.NoError(t, err)
		require.Regexp(t, `"setup_token":"sps_[0-9a-z]{26}"`, log)
		require.Contains(t, log, `/api/v1/team/setup"`)
	}
	log, err := started(t, dir, slog.LevelInfo, func(c *config.Config) { c.SetupToken = configured }, none)
	require.NoError(t, err)
	require.Equal(t, "as configured", token.FindStringSubmatch(log)[1])
	require.NotContains(t, log, configured)

	withFile := func(c *config.Config) { c.SetupTokenFile = file }
	for _, bad := range []string{"", "short", configured + " " + configured, string(make([]byte, 5000))} {
		require.NoError(t, os.WriteFile(file, []byte(bad), 0o600))
		_, err = started(t, dir, slog.LevelInfo, withFile, none)
		require.Error(t, err, "a server whose token cannot work does not start")
	}
	require.NoError(t, os.WriteFile(file, []byte(configured+"\n"), 0o600))
	log, err = started(t, dir, slog.LevelInfo, withFile, func(url string) {
		body := `{"token":"` + configured + `","team_name":"Analytical Engines","email":"ada@example.test",` +
			`"password":"correct horse battery"}`
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/team/setup", strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusCreated, response.StatusCode)
	})
	require.NoError(t, err)
	require.NotContains(t, log, configured)
	require.NoError(t, os.Remove(file))
	log, err = started(t, dir, slog.LevelInfo, withFile, none)
	require.NoError(t, err)
	require.NotContains(t, log, "setup_token")
}
