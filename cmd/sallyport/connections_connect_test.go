package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

// acmeWithAKey is a provider with a key, whose API is where the connection says.
const acmeWithAKey = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
connection_config:
  base_url: {type: url, title: URL, example: "https://api.acme.example"}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth:
  - mode: bearer
health:
  probes: [{path: /me, account: {id: /id, label: /login}}]
errors: {message: /message}
`

// newAcme starts a server of the provider, and returns its URL and the folder with its definition.
func newAcme(t *testing.T) (apiURL, folder string) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good-token" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{"id":7,"login":"octo"}`)
	}))
	await.Close(t, api)
	return api.URL, write(t, t.TempDir(), "acme.yaml", acmeWithAKey)
}

// person opens a link, and sends its form as their browser does, and returns the page that follows.
func person(t *testing.T, s server, link, token string) (int, string) {
	t.Helper()
	at, err := url.Parse(link)
	require.NoError(t, err)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	visit := func(r *http.Request) (int, string) {
		resp, err := browser.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		return resp.StatusCode, string(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+at.Path, http.NoBody)
	require.NoError(t, err)
	status, page := visit(r)
	require.Equal(t, http.StatusOK, status, page)
	r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+at.Path, strings.NewReader(url.Values{
		"mode": {"bearer"}, "credential.token": {token}}.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return visit(r)
}

// A person connects an account under a link that a command makes, opens and waits for; another command connects it
// again. An interrupt ends the wait only.
func TestConnect(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		apiURL, folder := newAcme(t)
		s := in.serve(t, clock.System(), "--providers-dir", folder)
		r := in.remote(t, s, "connections")
		create := []string{"connections", "create", "--provider", "acme", "--connection-config", "base_url=" + apiURL}
		linkOf := func(out string) string {
			_, rest, found := strings.Cut(out, "Connect URL  ")
			require.True(t, found, out)
			return strings.Fields(rest)[0]
		}
		waiting := func(args ...string) (*running, string) {
			c := r.start(args...)
			c.waits(1, `Ctrl-C ends only the wait`, &c.stderr)
			require.Contains(t, c.stderr.String(), "Open the link in the browser of the person")
			return c, linkOf(c.out.String())
		}

		c, link := waiting(append(create, "--connection-id", "octo", "--connect")...)
		require.Regexp(t, `(?m)^Status +pending$`, c.out.String())
		status, page := person(t, s, link, "bad-token")
		require.Equal(t, http.StatusUnprocessableEntity, status, page)
		c.waits(1, `The last attempt failed: invalid_credentials\. Still waiting\.`, &c.stderr)
		c.end()
		c.exits(exitFailed)
		require.Regexp(t, `The link can be used until \S+Z\. Another link: sallyport connections reconnect acme octo\n$`,
			c.stderr.String())
		require.Regexp(t, `(?m)^Status +pending$`, r.do("connections", "show", "acme/octo"))

		c, link = waiting("connections", "reconnect", "acme/octo")
		_, page = person(t, s, link, "good-token")
		require.Contains(t, page, "Acme is connected")
		c.exits(exitOK)
		for _, want := range []string{`Status +active`, `Account +octo \(7\)`, `Credentials +token \(`} {
			require.Regexp(t, `(?m)^`+want, c.out.String())
		}
		before := decode[connectionRow](t, r.do("connections", "show", "acme", "octo", "--json"))
		c, link = waiting("connections", "reconnect", "acme", "octo")
		_, page = person(t, s, link, "good-token")
		require.Contains(t, page, "Acme is connected")
		c.exits(exitOK)
		after := decode[connectionRow](t, r.do("connections", "show", "acme", "octo", "--json"))
		require.Equal(t, before.UUID, after.UUID)
		require.True(t, after.Credentials.StoredAt.After(before.Credentials.StoredAt))

		// For programs, and where someone else has to open it, the link is printed immediately.
		made := decode[linkRow](t, r.do(append(create, "--connect", "--json", "--expires-in", "24h", "--state", "order-1",
			"--scopes", "a,b")...))
		require.NotEmpty(t, *made.ConnectURL)
		require.Greater(t, time.Until(*made.ConnectExpiresAt), 23*time.Hour)
		terms := write(t, t.TempDir(), "f.json", `{"provider":"acme","connect":{"expires_in":60}}`)
		made = decode[linkRow](t, r.do("connections", "create", "--from-file", filepath.Join(terms, "f.json"),
			"--state", "order-2", "--json"))
		require.Less(t, time.Until(*made.ConnectExpiresAt), 2*time.Minute)
		out := r.run("", "connections", "reconnect", "acme", "octo", "--no-wait")
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Contains(t, out.stderr, "Another link: sallyport connections reconnect acme octo\n")
		require.NotEmpty(t, linkOf(out.out))

		r.refuse(exitUsage, "connect_redirect_urls", "connections", "reconnect", "acme", "octo", "--redirect-url",
			"https://app.example.com/")
		r.refuse(exitUsage, "give --connect, too", append(create, "--state", "s")...)
		r.refuse(exitUsage, "give --connect, too", append(create, "--user-id", "usr_00000000000000000000000000")...)
		r.refuse(exitUsage, "must be an active member of the team", append(create, "--connect", "--user-id",
			"usr_00000000000000000000000000")...)
		require.NotContains(t, r.do("connections", "list", "--owner-user-id", "usr_00000000000000000000000000"), "octo")
		r.refuse(exitUsage, "--expires-in: ", append(create, "--connect", "--expires-in", "25h")...)
		r.refuse(exitUsage, "from 1m to 24h", append(create, "--connect", "--expires-in", "1ms")...)
		r.refuse(exitFailed, "not_found", "connections", "reconnect", "acme", "missing")
	})
}

// A wait for an account outlasts a server that is away, and ends with the link, by the server's clock, or when the
// connection is disabled. The link is opened unless that is not wanted.
func TestConnectWait(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	states := []string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", now.Format(http.TimeFormat))
		state := "pending"
		if r.Method == http.MethodGet && len(states) > 0 {
			state, states = states[0], states[1:]
		}
		body := map[string]any{"provider_config_key": "acme", "connection_id": "octo", "status": state}
		switch {
		case r.Method == http.MethodPost:
			body["connect_url"], body["connect_expires_at"] = "https://gw.example/connect/x", now.Add(5*time.Second)
			w.WriteHeader(http.StatusCreated)
		case state == "":
			w.WriteHeader(http.StatusServiceUnavailable)
		case state == "active":
			body["credentials"] = map[string]any{"fields": []string{"token"}, "stored_at": now}
		case state == "access_denied":
			body["status"], body["status_reason"] = "pending", state
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	await.Close(t, s)
	var opened []string
	wait := func(come []string, args ...string) result {
		var out, stderr screen
		states, opened = come, nil
		// The user's clock is an hour behind.
		clk := skippingClock{Manual: clock.NewManual(now.Add(-time.Hour)), meanwhile: func() {}}
		code := run(t.Context(), process{args: append([]string{"connections"}, args...), clock: clk, stdout: &out,
			stderr: &stderr, stdin: strings.NewReader(""), environ: []string{"SALLYPORT_SERVER=" + s.URL,
				"SALLYPORT_API_KEY=k"},
			browse: func(_ context.Context, page string) bool { opened = append(opened, page); return true }})
		return result{code: code, out: out.String(), stderr: stderr.String()}
	}
	create := []string{"create", "--provider", "acme", "--connect"}
	r := wait([]string{"pending", "", "", "access_denied", "access_denied", "active"}, create...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `(?m)^Status +active$`, r.out)
	require.Equal(t, 1, strings.Count(r.stderr, "status 503"), r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "The last attempt failed: access_denied."), r.stderr)
	require.Equal(t, []string{"https://gw.example/connect/x"}, opened)
	require.Contains(t, r.stderr, "The link was opened in a browser.")

	r = wait(nil, append(create, "--no-open")...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "sallyport: the link has expired, and no account was connected\n"+
		"Another link: sallyport connections reconnect acme octo\n")
	require.Empty(t, opened)

	r = wait([]string{"disabled"}, "reconnect", "acme", "octo")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "the connection was disabled, and no account was connected")
}

// A page is opened with the program of the system, where there is a screen, and only if it is a page: a server's text
// must not start another program.
func TestBrowserOf(t *testing.T) {
	t.Parallel()
	const page = "https://gw.example/connect/x"
	screen := []string{"DISPLAY=:0"}
	require.Equal(t, []string{"xdg-open", page}, browserOf("linux", screen, page))
	require.Equal(t, []string{"xdg-open", page}, browserOf("linux", []string{"WAYLAND_DISPLAY=wayland-0"}, page))
	require.Equal(t, []string{"open", page}, browserOf("darwin", nil, page))
	require.Equal(t, []string{"rundll32", "url.dll,FileProtocolHandler", page}, browserOf("windows", nil, page))
	require.Empty(t, browserOf("linux", []string{"DISPLAY="}, page))
	require.Empty(t, browserOf("linux", append(screen, "SSH_CONNECTION=a 1 b 2"), page))
	for _, bad := range []string{"", "file:///etc/passwd", "-e", "javascript:alert(1)", "https:///x", "/x", "http://[x"} {
		require.Empty(t, browserOf("darwin", nil, bad), bad)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	require.False(t, browseWith("linux", screen, file)(t.Context(), page), "no terminal")
}

// A machine without a desktop has no program that shows a page, or one that fails: then the link is only printed, and
// the command waits as ever. A program that goes on is a browser.
func TestShow(t *testing.T) {
	t.Parallel()
	const long = time.Minute
	require.False(t, show(t.Context(), []string{filepath.Join(t.TempDir(), "xdg-open"), "https://gw.example/"}, long))
	require.False(t, show(t.Context(), []string{"false"}, long))
	require.True(t, show(t.Context(), []string{"true"}, long))
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, exec.CommandContext(t.Context(), "mkfifo", pipe).Run())
	browser := []string{"cat", pipe} // until someone has written into it
	require.True(t, show(t.Context(), browser, time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, show(ctx, browser, long), "interrupted")
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
