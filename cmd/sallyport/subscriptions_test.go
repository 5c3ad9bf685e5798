package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
)

// A subscription is made, shown, changed, tested and deleted; its secret is printed when it is made and never again.
func TestSubscriptionsOverTheAPI(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		r := in.remote(t, in.serve(t, clock.System()), "webhooks,connections")
		require.Equal(t, exitOK, r.run(githubSecret+"\n", "connections", "create", "--provider", "github", "--connection-id",
			"repo", "--webhook-secret-file", "-").code)
		sink := newReceiver(t)
		out := r.run("", "subscriptions", "create", "--event-types", "issues.*,push", "--forward-url", sink.URL,
			"--provider-config-key", "github", "--connection-id", "repo", "--description", "the first", "--payload-mode", "raw",
			"--timeout-ms", "2000", "--retry-schedule-seconds", "0.5,120", "--filter", `event.body.action == "opened"`)
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Contains(t, out.stderr, "shown only once")
		require.Regexp(t, `(?m)^Signing secret  whsec_\S{44}$`, out.out)
		for _, want := range []string{"State           enabled\n", "Event types     issues.* push\n",
			"Connections     github/repo\n", "Payload mode    raw\n", "Timeout         2s\n", "Retries after   500ms 2m\n",
			"Filter          event.body.action == \"opened\"\n"} {
			require.Contains(t, out.out, want)
		}
		list := decode[[]subscriptionRow](t, r.do("subscriptions", "list", "--json", "--enabled", "--connection-id=repo",
			"--provider-config-key=github"))
		require.Len(t, list, 1)
		id := list[0].ID
		require.Equal(t, "[]\n", r.do("subscriptions", "list", "--json", "--no-enabled"))
		require.NotContains(t, r.do("subscriptions", "show", id), "whsec_")
		require.Regexp(t, `(?m)^`+id+`  issues\.\* push  github/repo  http://\S+  enabled$`, r.do("subscriptions", "list"))

		// The caller's own secret comes from a file, and headers from a body; neither is printed.
		dir := write(t, t.TempDir(), "secret", "a secret of sixteen bytes or more\n", "body",
			`{"headers":{"X-Token":"hunter2-hunter2"},"timeout_ms":1500}`)
		text := r.do("subscriptions", "update", id, "--no-enabled", "--signing-secret-file", filepath.Join(dir, "secret"),
			"--secret-grace-seconds", "0", "--from-file", filepath.Join(dir, "body"), "--timeout-ms", "3000", "--clear",
			"filter,connection_id")
		require.Contains(t, text, "State           disabled\n")
		require.Contains(t, text, "Timeout         3s\n")
		require.Contains(t, text, "Connections     github/any\n")
		require.NotContains(t, text, "Filter")
		require.NotContains(t, text, "hunter2-hunter2")
		require.NotContains(t, text, "a secret of")

		// A header of every request comes from a file, and a schedule without retries is said in a word.
		text = r.do("subscriptions", "update", id, "--no-retries", "--header-file", "X-Auth="+filepath.Join(dir, "secret"))
		require.Contains(t, text, "Retries after   none\n")
		require.Contains(t, text, "X-Auth: …more\n")

		// A secret that the server makes is shown once, and the old one for as long as it signs.
		out = r.run("", "subscriptions", "rotate-secret", id, "--secret-grace-seconds", "3600")
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Contains(t, out.stderr, "shown only once")
		require.Regexp(t, `(?m)^Signing secret  whsec_\S{44}$`, out.out)
		text = r.do("subscriptions", "show", id)
		require.NotContains(t, text, "whsec_")
		require.Regexp(t, `(?m)^Old secret      …more signs until 20\S+Z$`, text)
		r.do("subscriptions", "update", id, "--secret-grace-seconds", "0")
		require.NotContains(t, r.do("subscriptions", "show", id), "Old secret")

		test := r.do("subscriptions", "test", id, "--event-type", "issues.opened")
		require.Regexp(t, `(?m)^Outcome      delivered$`, test)
		require.Regexp(t, `(?m)^Response     204$`, test)
		require.Regexp(t, `(?m)^Would match  yes$`, test)
		out = r.run(`{"n":1}`, "subscriptions", "test", id, "--data-file", "-", "--dry-run")
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Contains(t, out.out, "Outcome      nothing was sent\n")
		require.Contains(t, out.out, "webhook-signature: [redacted]\n")
		require.Contains(t, out.out, "\nBody\n"+`{"n":1}`)
		require.Contains(t, out.out, "Event type   webhook.test\n")
		for _, args := range [][]string{
			{"create", "--event-types", "push,issue.*", "--forward-url", sink.URL, "--provider-config-key", "github",
				"--disabled"},
			{"update", id, "--event-types", "push,issue.*"}, {"update", id, "--event-types", "push,issue.*", "--json"},
			{"test", id, "--dry-run"},
		} {
			out = r.run("", append([]string{"subscriptions"}, args...)...)
			require.Equal(t, exitOK, out.code, out.stderr)
			require.Contains(t, out.stderr, "warning: event_types[1]: GitHub is not known to send an event of such a type", args)
			require.Contains(t, out.stderr, ". Did you mean issues.*?\n", args)
			require.NotContains(t, out.out, "warning: ")
		}
		require.NotContains(t, r.run("", "subscriptions", "update", id, "--event-types", "issues.*,push").stderr, "warning")
		require.Equal(t, id+" is disabled\n", r.do("subscriptions", "disable", id))
		require.Regexp(t, `(?m)^State +disabled`, r.do("subscriptions", "show", id))
		out = r.run("", "subscriptions", "enable", "sub_none", id)
		require.Equal(t, exitFailed, out.code)
		require.Equal(t, id+" is enabled\n", out.out)
		require.Regexp(t, `(?m)^State +enabled`, r.do("subscriptions", "show", id))
		r.refuse(exitUsage, `--payload-mode must be one of envelope, raw but got "whole"`, "subscriptions", "update", id,
			"--payload-mode", "whole")
		r.refuse(exitUsage, "or an http:// URL where the server allows that", "subscriptions", "update", id, "--forward-url",
			"ftp://example.com")
		r.refuse(exitUsage, "with --scheme none", "connections", "create", "--provider", "none", "--connection-id", "open")
		r.do("subscriptions", "update", id, "--filter", "event.body.issue == 1")
		require.Contains(t, r.run(`{"n":1}`, "subscriptions", "test", id, "--event-type", "issues.opened", "--data-file", "-",
			"--dry-run").out, "Would match  no: the filter cannot be evaluated: line 1, column 11: no such key: issue\n")
		r.do("subscriptions", "update", id, "--clear", "filter")
		sink.Close()
		out = r.run("", "subscriptions", "test", id, "--json")
		require.Equal(t, exitFailed, out.code)
		require.False(t, decode[subscriptionTestRow](t, out.out).Delivered)
		require.Contains(t, r.run("", "subscriptions", "test", id).out, "Error        connection_refused: ")

		r.refuse(exitUsage, "--forward-url: ", "subscriptions", "create", "--event-types", "x", "--forward-url",
			"ftp://example.com")
		r.refuse(exitUsage, "the field is required", "subscriptions", "create", "--event-types", "x")
		r.refuse(exitUsage, "must be given as a URL", "subscriptions", "list", "--server", "foo")
		r.refuse(exitUsage, "nothing to change", "subscriptions", "update", id)
		r.refuse(exitUsage, "set and cleared at the same time", "subscriptions", "update", id, "--filter", "true", "--clear",
			"filter")
		r.refuse(exitUsage, "standard input", "subscriptions", "update", id, "--from-file=-", "--signing-secret-file=-")
		r.refuse(exitFailed, "it contains no secret", "subscriptions", "update", id, "--signing-secret-file=-")
		r.refuse(exitUsage, "must contain one JSON object", "subscriptions", "update", id, "--from-file="+
			filepath.Join(dir, "secret"))
		r.refuse(exitUsage, "is not valid JSON", "subscriptions", "test", id, "--data-file="+filepath.Join(dir, "secret"))
		out = r.run("", "subscriptions", "delete", id, id)
		require.Equal(t, exitFailed, out.code)
		require.Equal(t, id+" is deleted\n", out.out)
		require.Contains(t, out.stderr, "not_found")
		r.refuse(exitFailed, "not_found", "subscriptions", "show", id)
	})
}

// A connection is made with its secret from a file or standard input, listed, shown and deleted; the secret is not
// shown.
func TestConnectionsOverTheAPI(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		r := in.remote(t, s, "connections,events")
		out := r.run(githubSecret+"\n", "connections", "create", "--provider", "github", "--connection-id", "repo",
			"--webhook-secret-file", "-")
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Empty(t, out.stderr)
		require.Contains(t, out.out, "Connection      github/repo\n")
		require.NotContains(t, out.out, githubSecret)
		out = r.run(`{"provider":"github","tags":{"team":"a"}}`, "connections", "create", "--from-file", "-",
			"--connection-id", "second")
		require.Contains(t, out.stderr, "no webhook secret yet")
		require.Regexp(t, `(?m)^github    second      active  none +missing  http\S+\n`+
			`github    repo        active  none +…ider    http\S+$`, r.do("connections", "list"))
		require.Len(t, decode[[]json.RawMessage](t, r.do("connections", "list", "--json", "--q", "sec", "--provider",
			"github", "--status", "active")), 1)
		require.Contains(t, out.out, "\nDuplicates      A webhook with the id of an earlier one is a duplicate "+
			"(header:x-github-delivery). The signature does not cover the id: an equal body under another id or without one "+
			"within one hour is marked as suspect. Without an id, each webhook is a new event.\n")
		require.Equal(t, "second", decode[connectionRow](t, r.do("connections", "show", "github", "second",
			"--json")).ConnectionID)
		require.Equal(t, "github/second is deleted\n", r.do("connections", "delete", "github", "second"))
		r.refuse(exitFailed, "not_found", "connections", "show", "github", "second")
		r.refuse(exitFailed, "not_found", "connections", "delete", "github", "second")
		status, _ := s.ask(t, http.MethodPost, "/api/v1/webhook/repo", "", map[string]any{})
		require.Equal(t, http.StatusUnauthorized, status)
		r.eventually(1, "signature_missing", "rejections", "list", "--connection-id=repo", "--provider-config-key=github",
			"--reason=signature_missing")
		require.Equal(t, "[]\n", r.do("rejections", "list", "--json", "--connection=other"))
		rejected := decode[[]rejectionRow](t, r.do("rejections", "list", "--json"))[0].ID
		shown := r.do("rejections", "show", rejected)
		for _, want := range []string{"signature_missing", "github/repo", "\nHeaders\n", "content-type: ",
			"2 bytes, which were not read"} {
			require.Contains(t, shown, want)
		}
		require.Equal(t, rejected, decode[rejectionRow](t, r.do("rejections", "show", rejected, "--json")).ID)
		r.refuse(exitFailed, "not_found", "rejections", "show", "rej_06dprg8dj1v6hckm0sjzmn2m1c")
		r.refuse(exitFailed, "connection_exists", "connections", "create", "--provider", "github", "--connection-id", "repo")
		r.refuse(exitUsage, "Invalid request: --provider: ", "connections", "create", "--connection-id", "third")
		r.refuse(exitUsage, "Invalid request: --param verify_token=…: must not be empty (", "connections", "create",
			"--provider", "meta")
		r.refuse(exitUsage, "--tag: ", "connections", "create", "--provider", "github", "--tag", "a b=c")
		written := filepath.Join(t.TempDir(), "connection.json")
		for properties, want := range map[string]string{
			`{"provider":"meta"}`: "Invalid request: webhook.params.verify_token: must not be empty",
			`{"provider":"meta","webhookSecret":"x"}`: "Invalid request: webhookSecret: the field is unknown. Did you mean " +
				"webhook_secret?",
		} { // in the file they have these names
			require.NoError(t, os.WriteFile(written, []byte(properties), 0o600))
			r.refuse(exitUsage, want, "connections", "create", "--from-file", written)
		}
		none := r.run("", "connections", "create", "--provider", "github", "--webhook-secret-file",
			filepath.Join(t.TempDir(), "none"))
		require.NotContains(t, none.stderr, "database", "the file that is missing is not the database's")
		r.refuse(exitFailed, "no such file", "connections", "create", "--provider", "github", "--webhook-secret-file",
			filepath.Join(t.TempDir(), "none"))
	})
}
