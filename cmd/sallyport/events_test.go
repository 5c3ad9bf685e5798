package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
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

// An event of one's own is published from a flag, a file or standard input. A duplicate says so, and warns if its data
// are others than those that were forwarded.
func TestPublish(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		r := in.remote(t, in.serve(t, clock.System()), "connections,webhooks,events,events:write")
		out := r.run(githubSecret, "connections", "create", "--provider", "github", "--connection-id", "repo",
			"--webhook-secret-file", "-")
		require.Equal(t, exitOK, out.code, out.stderr)
		out = r.run("", "events", "publish", "invoice.paid", "--data-json", `{"invoice":"4711"}`, "--idempotency-key", "4711")
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Regexp(t, `(?m)^Type +invoice.paid$`, out.out)
		uuid := strings.Fields(out.out)[1]
		require.Contains(t, out.stderr, "sallyport events show "+uuid+" --explain")
		require.Contains(t, r.do("events", "show", uuid, "--body"), `"invoice": "4711"`)

		same := r.run(`{"invoice":"4711"}`, "events", "publish", "invoice.paid", "--data-file", "-", "--idempotency-key",
			"4711")
		require.Equal(t, "Duplicate of  "+uuid+"\n", same.out)
		require.Empty(t, same.stderr)
		other := r.run("", "events", "publish", "invoice.paid", "--data-json", "1", "--idempotency-key", "4711", "--json")
		require.Contains(t, other.stderr, "with other data; these were not forwarded")
		require.Equal(t, publishedRow{uuid, true, "same_id_new_body"}, decode[publishedRow](t, other.out))

		// The words of a receiver about its refusal are among the attempts.
		refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no invoice\n"+strings.Repeat("é", 200), http.StatusTeapot)
		}))
		await.Close(t, refusing)
		r.do("subscriptions", "create", "--event-types", "b", "--forward-url", refusing.URL, "--retry-schedule-seconds",
			"600")
		refused := decode[publishedRow](t, r.do("events", "publish", "b", "--data-json", "1", "--json")).EventUUID
		r.eventually(1, "with status 418: no invoice "+strings.Repeat("é", 109)+"…\n", "events", "show", refused)

		about := decode[publishedRow](t, r.do("events", "publish", "a", "--data-json", "null", "--connection-id",
			"github/repo", "--json"))
		require.Contains(t, r.do("events", "show", about.EventUUID), "github/repo")
		for want, args := range map[string][]string{
			"not valid JSON":              {"--data-json", "paid"},
			"--data-json=JSON":            {},
			"there is no such connection": {"--data-json", "1", "--connection-id", "nobody"},
			"different provider configurations": {"--data-json", "1", "--connection-id", "github/repo", "--provider",
				"slack"},
			"--data-json and --data-file can't be us": {"--data-json", "1", "--data-file", "-"},
		} {
			r.refuse(exitUsage, want, append([]string{"events", "publish", "a"}, args...)...)
		}
		r.refuse(exitUsage, "must not begin with sallyport", "events", "publish", "sallyport.x", "--data-json", "1")
	})
}
