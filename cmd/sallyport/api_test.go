package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/reference"
)

// remote runs commands that have the address of a server and a key, and no access to its data.
type remote struct {
	t       *testing.T
	environ []string
}

// remote creates a key of the environment production and returns its holder.
func (in installation) remote(t *testing.T, s server, routes string) remote {
	t.Helper()
	key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes", routes))
	return remote{t, []string{"SALLYPORT_SERVER=" + s.base, "SALLYPORT_API_KEY=" + key, "SALLYPORT_DATA=" +
		filepath.Join(t.TempDir(), "none")}}
}

func (r remote) run(stdin string, args ...string) result {
	r.t.Helper()
	return call(command{ctx: r.t.Context(), clock: clock.System(), stdin: stdin, args: args}, r.environ)
}

// do runs a command that must succeed and returns what it printed.
func (r remote) do(args ...string) string {
	r.t.Helper()
	out := r.run("", args...)
	require.Equal(r.t, exitOK, out.code, "%v: %s%s", args, out.out, out.stderr)
	return out.out
}

// refuse runs a command that must fail with the code and say so.
func (r remote) refuse(code int, want string, args ...string) {
	r.t.Helper()
	out := r.run("", args...)
	require.Equal(r.t, code, out.code, "%v: %s%s", args, out.out, out.stderr)
	require.Contains(r.t, out.stderr, want, "%v", args)
	require.Empty(r.t, out.out, "%v", args)
}

// eventually waits until a command prints the text so many times.
func (r remote) eventually(times int, want string, args ...string) {
	r.t.Helper()
	var last result
	await.Condition(r.t, fmt.Sprintf("%d times %q from %v", times, want, args), func() bool {
		last = r.run("", args...)
		return last.code == exitOK && strings.Count(last.out, want) == times
	}, func() string { return last.out + last.stderr })
}

// A command finds its key in the variable or the file, or in the data folder next to a server in development mode, and
// sends that one to no other server. It reports an impossible setting before it sends anything, and never shows the
// key.
func TestCredentials(t *testing.T) {
	t.Parallel()
	const key = "spk_test_hunter2"
	var seen string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Api-Key")
		_, _ = io.WriteString(w, "[]")
	}))
	await.Close(t, s)
	dir := t.TempDir()
	file := filepath.Join(write(t, dir, "key", key+"\r\n", "empty", " \n", "large", strings.Repeat("x", 5000)), "key")
	dev := write(t, filepath.Join(dir, "dev"), "dev-credentials.json", `{"base_url":"`+s.URL+
		`/api/v1","api_key":"spk_test_dev"}`)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen = "asked the other" }))
	await.Close(t, other)
	for _, tt := range []struct {
		environ, args []string
		code          int
		seen, want    string
	}{
		{[]string{"SALLYPORT_API_KEY=" + key + "\n", "SALLYPORT_SERVER=" + s.URL}, nil, exitOK, key, ""},
		{[]string{"SALLYPORT_API_KEY=another", "SALLYPORT_SERVER=" + other.URL}, []string{"--server", s.URL + "/",
			"--api-key-file", file}, exitOK, key, ""},
		{[]string{"SALLYPORT_API_KEY=" + key, "SALLYPORT_PUBLIC_URL=" + s.URL}, nil, exitOK, key, ""},
		{[]string{"SALLYPORT_DATA=" + dev}, nil, exitOK, "spk_test_dev", ""},
		{[]string{"SALLYPORT_DATA=" + dev, "SALLYPORT_API_KEY=" + key, "SALLYPORT_PUBLIC_URL=" + other.URL}, nil, exitOK, key,
			""},
		{[]string{"SALLYPORT_DATA=" + dev, "SALLYPORT_API_KEY=" + key}, []string{"--server", other.URL}, exitFailed,
			"asked the other", "not one of a Sallyport server"},
		{[]string{"SALLYPORT_DATA=" + dev}, []string{"--server", s.URL}, exitOK, "spk_test_dev", ""},
		{[]string{"SALLYPORT_DATA=" + dev}, []string{"--server", s.URL + "/api/v1"}, exitOK, "spk_test_dev", ""},
		{[]string{"SALLYPORT_DATA=" + dev, "SALLYPORT_SERVER=" + strings.Replace(s.URL, "127.0.0.1", "localhost", 1)}, nil,
			exitOK, "spk_test_dev", ""},
		{[]string{"SALLYPORT_DATA=" + dev}, []string{"--server", strings.Replace(s.URL, "127.0.0.1", "[::1]", 1)},
			exitOK, "spk_test_dev", ""},
		{[]string{"SALLYPORT_DATA=" + dev}, []string{"--server", other.URL + "/"}, exitFailed, "",
			"the credentials in " + dev + " are for " + s.URL + ", not for " + other.URL + ": "},
		{[]string{"SALLYPORT_DATA=" + dev}, []string{"--server", strings.Replace(s.URL, "http:", "https:", 1)}, exitFailed,
			"", "not for https://127.0.0.1"},
		{[]string{"SALLYPORT_DATA=" + dev}, []string{"--server", strings.TrimPrefix(s.URL, "http://")}, exitUsage, "",
			"Name the server with --server"},
		{[]string{"SALLYPORT_DATA=" + dir, "SALLYPORT_SERVER=localhost:8080"}, nil, exitUsage, "", "SALLYPORT_SERVER"},
		{[]string{"SALLYPORT_DATA=" + dir}, nil, exitFailed, "", "there is no API key"},
		{[]string{"SALLYPORT_API_KEY=" + key}, []string{"--server", "http://gateway.example"}, exitFailed, "", "https://"},
		{[]string{"SALLYPORT_API_KEY=" + key}, []string{"--server", "gateway.example"}, exitUsage, "", "--server"},
		{[]string{"SALLYPORT_API_KEY=" + key}, []string{"--server", "http://127.0.0.1:1"}, exitFailed, "",
			"no response from http://127.0.0.1:1"},
		{[]string{"SALLYPORT_API_KEY=" + key + "\x1b[2J"}, nil, exitFailed, "", "no key has"},
		{nil, []string{"--api-key-file", file + ".none"}, exitFailed, "", "read the API key"},
		{nil, []string{"--api-key-file", filepath.Join(dir, "empty")}, exitFailed, "", "is empty"},
		{nil, []string{"--api-key-file", filepath.Join(dir, "large")}, exitFailed, "", "too large"},
		{[]string{"SALLYPORT_API_KEY=" + key}, []string{"--timeout", "0s"}, exitUsage, "", "--timeout must be above 0"},
		{[]string{"SALLYPORT_API_KEY=" + key}, []string{"--limit", "0"}, exitUsage, "", "--limit must be at least 1"},
		{[]string{"SALLYPORT_API_KEY=" + key, "SALLYPORT_LISTEN=x"}, nil, exitUsage, "", "listen (SALLYPORT_LISTEN)"},
	} {
		seen = ""
		r := call(command{ctx: t.Context(), clock: clock.System(), args: append([]string{"subscriptions", "list"},
			tt.args...)}, tt.environ)
		require.Equal(t, tt.code, r.code, "%v %v: %s", tt.environ, tt.args, r.stderr)
		require.Equal(t, tt.seen, seen, "%v %v", tt.environ, tt.args)
		require.Contains(t, r.stderr, tt.want)
		require.NotContains(t, r.stderr, "hunter2")
		require.NotContains(t, r.stderr, "\x1b")
	}
	require.NoError(t, os.Chmod(filepath.Join(dev, "dev-credentials.json"), 0o644))
	r := call(command{ctx: t.Context(), clock: clock.System(), args: []string{"events", "list"}},
		[]string{"SALLYPORT_DATA=" + dev})
	require.Equal(t, exitFailed, r.code, "a file that others can read is not development mode's")
}

// The responses of a hostile server or sender cannot control the terminal, in tables, errors and JSON alike.
func TestResponsesDoNotControlTheTerminal(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/x") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"code":"not\u001b[2J_found","message":"No \u001b]0;title\u0007 such\nevent"}}`)
			return
		}
		_, _ = io.WriteString(w, `[{"event_uuid":"u","event_type":"a\u001b[31m`+"\u009b"+
			`b\r\n","received_at":"2026-03-04T05:06:07Z"}]`)
	}))
	await.Close(t, s)
	r := remote{t, []string{"SALLYPORT_SERVER=" + s.URL, "SALLYPORT_API_KEY=k"}}
	require.Contains(t, r.do("events", "list"), `a\x1b[31m\u009bb\r\n`)
	require.Contains(t, r.do("events", "list", "--json"), `a\u001b[31m\u009bb\r\n`)
	out := r.run("", "events", "show", "x")
	require.Equal(t, exitFailed, out.code)
	require.Regexp(t, `^sallyport: No \\x1b\]0;title\\x07 such\\nevent \(status 404, not\\x1b\[2J_found`, out.stderr)
	require.Equal(t, 1, strings.Count(out.stderr, "\n"))
}

// Next to a server in development mode commands need neither address nor key, for any port.
func TestCommandsNextToDevelopmentMode(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.serve(t, clock.System(), "--dev")
		require.Equal(t, "[]\n", in.do(t, "connections", "list", "--json"))
	})
}

// Every filter that the API has for a list is a flag of the command that lists, so that what can be asked can be typed.
func TestFiltersAreFlags(t *testing.T) {
	t.Parallel()
	text, err := reference.Document()
	require.NoError(t, err)
	document := decode[struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}](t, string(text))
	reference := call(command{ctx: t.Context(), clock: clock.System(), args: []string{"commands"}}, nil).out
	for path, name := range map[string]string{"/webhook-events": "events list",
		"/webhook-subscriptions": "subscriptions list", "/connections": "connections list",
		"/webhook-rejections": "rejections list", "/webhook-replays": "replays list", "/webhook-events/stream": "events tail",
		"/webhook-subscriptions/{id}/stats": "subscriptions stats"} {
		_, section, found := strings.Cut(reference, "\n## sallyport "+name+"\n")
		require.True(t, found, name)
		section, _, _ = strings.Cut(section, "\n## ")
		parameters := document.Paths[path]["get"].Parameters
		require.NotEmpty(t, parameters)
		for _, p := range parameters {
			// Commands turn pages by themselves, rows show what they show, and tickets are for browsers.
			if p.In == "query" && !slices.Contains([]string{"cursor", "include", "ticket"}, p.Name) {
				require.Regexp(t, `--(\[no-\])?`+strings.ReplaceAll(p.Name, "_", "-")+"\\b", section, "%s: %s", name, p.Name)
			}
		}
	}
}
