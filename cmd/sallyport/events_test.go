package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
)

// prepare makes a server with a connection and two subscriptions, one of which reaches a receiver.
func prepare(t *testing.T, in installation) (s server, r remote, good, bad string) {
	t.Helper()
	in.setUp(t)
	s = in.serve(t, clock.System())
	r = in.remote(t, s, "webhooks,connections")
	// A second replay that restarted dead deliveries would make the counts below a matter of time.
	dir := write(t, t.TempDir(), "secret", githubSecret+"\n", "body", `{"webhook":{"redeliver_on_duplicate":false}}`)
	out := r.run("", "connections", "create", "--provider", "github", "--connection-id", "repo", "--webhook-secret-file",
		dir+"/secret", "--from-file", dir+"/body")
	require.Equal(t, exitOK, out.code, out.stderr)
	require.Contains(t, out.out, "/api/v1/webhook/whk_")
	subscribe := func(url string, more ...string) string {
		args := append([]string{"subscriptions", "create", "--json", "--event-types", "issues.*", "--forward-url", url},
			more...)
		return decode[subscriptionRow](t, r.do(args...)).ID
	}
	good = subscribe(newReceiver(t).URL)
	bad = subscribe("http://127.0.0.1:1/", "--from-file", write(t, t.TempDir(), "body", `{"retry_schedule_seconds":[]}`)+
		"/body")
	return s, r, good, bad
}

// Events are listed by the API's filters, shown with all that happened to them, explained and replayed, from a machine
// that has the server's address and a key.
func TestEventsOverTheAPI(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		s, r, good, bad := prepare(t, in)
		s.deliver(t, "first")
		s.deliver(t, "second")
		s.deliver(t, "second") // its duplicate
		require.Contains(t, r.do("events", "list"), "EVENT ")
		r.eventually(2, "dead_letter", "events", "list")

		list := decode[[]eventRow](t, r.do("events", "list", "--json"))
		require.Len(t, list, 3)
		require.NotNil(t, list[0].DuplicateOf)
		require.Equal(t, list[1].EventUUID, *list[0].DuplicateOf)
		text := r.do("events", "list")
		require.Regexp(t, `(?m)^`+list[0].EventUUID+
			`  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  issues.opened  github/repo  received     0         duplicate$`, text)
		require.Regexp(t, `(?m)^`+list[1].EventUUID+`  .*  dead_letter  2         connection_refused$`, text)
		out := r.run("", "events", "list", "--limit", "2")
		require.Equal(t, 3, strings.Count(out.out, "\n"))
		require.Contains(t, out.stderr, "There are more events")
		require.Empty(t, r.run("", "events", "list", "--all").stderr)
		oldest := decode[[]eventRow](t, r.do("events", "list", "--json", "--order", "asc", "--limit", "1"))
		require.Equal(t, list[2].EventUUID, oldest[0].EventUUID)

		// Every filter reaches the API: those that hold leave both events, and each of the others leaves none.
		kept := []string{"--status=dead_letter,forwarded", "--provider=github", "--provider-config-key=github",
			"--connection-id=repo", "--event-type=issues.*", "--subscription-id=" + bad, "--no-duplicate", "--no-control",
			"--received-after=1h", "--error-code=connection_refused", "--received-before=" +
				time.Now().Add(time.Hour).Format(time.RFC3339)}
		require.Len(t, decode[[]eventRow](t, r.do(append([]string{"events", "list", "--json"}, kept...)...)), 2)
		for _, none := range []string{"--status=failed", "--provider=gitea", "--provider-config-key=gitea",
			"--connection-id=other", "--event-type=push", "--subscription-id=sub_06dyxk8z3pk6n5q1v7wc4t2m9r", "--control",
			"--received-before=1h", "--http-status=503", "--error-code=timeout", "--idempotency-key=none", "--q=second.",
			"--received-after=" + time.Now().Add(time.Hour).Format(time.RFC3339)} {
			require.Equal(t, "[]\n", r.do("events", "list", "--json", none), none)
		}
		require.Len(t, decode[[]eventRow](t, r.do("events", "list", "--json", "--duplicate")), 1)
		require.Len(t, decode[[]eventRow](t, r.do("events", "list", "--json", "--idempotency-key=first")), 1)
		require.Len(t, decode[[]eventRow](t, r.do("events", "list", "--json", "--q=first")), 1)
		require.Len(t, decode[[]eventRow](t, r.do("events", "list", "--json", "--q=issues.")), 3)

		event := list[1].EventUUID
		text = r.do("events", "show", event, "--headers", "--body", "--explain")
		for _, want := range []string{
			"Event            " + event + "\n", "Status           dead_letter\n", "Connection       github/repo\n",
			"Idempotency key  second (header:x-github-delivery)\n", "x-github-event: issues\n",
			"x-hub-signature-256: [redacted]\n", `    "title": "second"`, "yes      issues.*",
		} {
			require.Contains(t, text, want)
		}
		require.Regexp(t, `(?m)^`+good+`  succeeded  1           1                             204$`, text)
		require.Regexp(t, `(?m)^`+bad+`  dead       1           1 {44}connection_refused$`, text)
		require.Regexp(t, `(?m)`+bad+
			`  1           1        failed .*connection_refused: The target refused the connection\.$`, text)
		shown := decode[struct {
			eventRow
			payload
			Attempts     []attemptRow     `json:"attempts"`
			Explanations []explanationRow `json:"explanations"`
		}](t, r.do("events", "show", event, "--json", "--explain"))
		require.Equal(t, event, shown.EventUUID)
		require.Len(t, shown.Attempts, 2)
		require.Len(t, shown.Explanations, 2)
		require.Len(t, shown.Deliveries, 2)

		text = r.do("events", "replay", event, list[2].EventUUID)
		require.Regexp(t, `(?m)^`+event+`  `+bad+`  \w+ +2 `, text)
		require.Equal(t, 5, strings.Count(text, "\n"))
		r.eventually(2, "dead_letter", "events", "list")
		replays := decode[[]json.RawMessage](t, r.do("events", "replay", event, "--force", "--subscription-id", good,
			"--json"))
		require.Len(t, replays, 1)
		r.eventually(1, good+"  succeeded  2 ", "events", "show", event)

		// An event that cannot be replayed does not stop the others, and makes the command fail.
		out = r.run("", "events", "replay", "nothing", event, list[0].EventUUID)
		require.Equal(t, exitFailed, out.code)
		require.Contains(t, out.stderr, "sallyport: nothing: No such webhook event (status 404, not_found, request ")
		require.Contains(t, out.stderr, "sallyport: "+list[0].EventUUID+": ")
		require.Contains(t, out.out, bad)

		r.refuse(exitFailed, "No such webhook event (status 404, not_found, request ", "events", "show", "nothing")
		r.refuse(exitUsage, "--event-type: ", "events", "list", "--event-type", "iss*")
		r.refuse(exitUsage, "--status must be one of received, forwarding, forwarded, failed, dead_letter but got \"lost\"\n",
			"events", "list", "--status", "lost")
		for typed, meant := range map[string]string{"dead": "dead_letter", "forwaded": "forwarded"} {
			r.refuse(exitUsage, `but got "`+typed+`". Did you mean `+meant+"?", "events", "list", "--status", typed)
		}
		r.refuse(exitUsage, "nor a duration such as 48h", "events", "list", "--received-after", "yesterday")
		in.remote(t, s, "connections").refuse(exitFailed, "grant_denied", "events", "list")
	})
}
