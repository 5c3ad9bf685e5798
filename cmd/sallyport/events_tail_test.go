package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/sse"
	"sallyport/internal/platform/terminal"
)

// tailed is a line of a tail with --json.
type tailed struct {
	ID    string `json:"id"`
	Event string `json:"event"`
	Data  struct {
		EventUUID      string `json:"event_uuid"`
		IdempotencyKey string `json:"idempotency_key"`
	} `json:"data"`
}

func tailedLines(t *testing.T, out string) (list []tailed) {
	t.Helper()
	for line := range strings.Lines(out) {
		list = append(list, decode[tailed](t, line))
	}
	return list
}

// A tail shows events from now on, by the filters of lists. Another continues where it ended without a gap or a
// duplicate.
func TestTail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		s, r, good, bad := prepare(t, in)
		tail := r.start("events", "tail", "--json", "--only", "received", "--event-type", "issues.*", "--no-duplicate",
			"--count", "2")
		rows := r.start("events", "tail")
		none := r.start("events", "tail", "--connection-id", "other")
		for _, c := range []*running{tail, rows, none} {
			c.waits(1, `(?m)^Watching http://\S+\. Press Ctrl-C to stop\.\n`, &c.stderr)
		}
		s.deliver(t, "first")
		s.deliver(t, "first")
		s.deliver(t, "second")
		tail.exits(exitOK)
		s.deliver(t, "third")
		seen := tailedLines(t, tail.out.String())
		require.Len(t, seen, 2)
		for i, key := range []string{"first", "second"} {
			require.Equal(t, messageReceived, seen[i].Event)
			require.Equal(t, key, seen[i].Data.IdempotencyKey)
		}
		again := r.start("events", "tail", "--json", "--only", "received", "--no-duplicate", "--last-event-id", seen[0].ID,
			"--count", "2")
		again.exits(exitOK)
		rest := tailedLines(t, again.out.String())
		require.Len(t, rest, 2)
		require.Equal(t, seen[1], rest[0])
		require.Equal(t, "third", rest[1].Data.IdempotencyKey)

		// For people: one line a message.
		const lead = `(?m)^\d\d:\d\d:\d\d  `
		event := seen[0].Data.EventUUID
		rows.waits(4, lead+`received  [0-9a-f-]{36}  issues\.opened  github/repo`, &rows.out)
		rows.waits(1, lead+`received  [0-9a-f-]{36}  issues\.opened  github/repo, duplicate$`, &rows.out)
		rows.waits(1, lead+`attempt   `+event+`  issues\.opened  succeeded  `+good+
			` attempt 1 of generation 1, [\d.]+ ms, status 204$`, &rows.out)
		rows.waits(1, lead+`attempt   `+event+`  issues\.opened  failed  `+bad+
			` attempt 1 of generation 1, [\d.]+ ms, connection_refused$`, &rows.out)
		rows.waits(1, lead+`updated   `+event+`  issues\.opened  dead_letter  connection_refused$`, &rows.out)
		rows.interrupt()
		require.Regexp(t, `\nTo continue from here: --last-event-id \S+\n$`, rows.stderr.String())
		none.interrupt()
		require.Empty(t, none.out.String())

		r.refuse(exitUsage, "--only must be one", "events", "tail", "--only", "lost")
		r.refuse(exitUsage, "--count must not be below 0", "events", "tail", "--count=-1")
		r.refuse(exitUsage, "Last-Event-ID: is not from a stream of this environment", "events", "tail", "--last-event-id",
			"1-2-3")
		r.refuse(exitUsage, "--event-type: ", "events", "tail", "--event-type", "iss*")
		in.remote(t, s, "connections").refuse(exitFailed, "grant_denied", "events", "tail")
	})
}

// The tail reports a server that goes away once and waits for it. An interrupt meanwhile ends the tail in good order.
func TestTailWaitsForTheServer(t *testing.T) {
	t.Parallel()
	in := installation{dir: t.TempDir()}
	s, r, _, _ := prepare(t, in)
	tail := r.start("events", "tail")
	tail.waits(1, "Watching", &tail.stderr)
	s.stop()
	tail.waits(1, `\nThe stream broke off: no response from http://\S+: .+\. Retrying in \d+s\.\n`, &tail.stderr)
	tail.interrupt()
	require.Equal(t, 1, strings.Count(tail.stderr.String(), "broke off"))
}

// The tail reports missed events, in JSON too, and that the reader was too slow, but not an end that costs nothing. It
// skips unknown messages of a newer server.
func TestTailOfTheStreamItself(t *testing.T) {
	t.Parallel()
	var out, stderr strings.Builder
	e := &env{process: process{stdout: &out, stderr: &stderr}}
	c := &eventsTail{}
	require.False(t, c.wanted("webhook_event.dreamt_of"))
	for event, data := range map[string]string{
		messageGap:    `{"message":"More than 10,000 messages were missed\u001b[2J","missed_since":"a","missed_until":"b"}`,
		messageLagged: `{"reason":"lagged","message":"The reader did not keep up","reconnect":true}`,
		messageClosed: `{"reason":"time_limit","message":"Half an hour","reconnect":true}`,
	} {
		m := sse.Message{Event: event, Data: json.RawMessage(data)}
		require.NoError(t, e.reportStream(m))
		require.Equal(t, c.wanted(event), event == messageGap)
		if c.wanted(event) {
			require.NoError(t, c.print(e, terminal.Screen{}, m))
			require.Empty(t, out.String())
			require.NoError(t, (&eventsTail{apiFlags: apiFlags{JSON: true}}).print(e, terminal.Screen{}, m))
		}
	}
	require.Equal(t, messageGap, tailedLines(t, out.String())[0].Event)
	require.Len(t, strings.Split(strings.TrimSpace(stderr.String()), "\n"), 2)
	require.Contains(t, stderr.String(), `Messages from a to b were missed: More than 10,000 messages were missed\x1b[2J.`+
		"\n")
	require.Contains(t, stderr.String(), "The reader did not keep up.\n")
	require.Error(t, c.print(e, terminal.Screen{}, sse.Message{Event: messageReceived, Data: []byte("no JSON")}))
	require.Error(t, e.reportStream(sse.Message{Event: messageGap, Data: []byte("no JSON")}))
}

// Rejected webhooks show up in tails and in listen as they happen, with the connection, the reason and the sender,
// unless they are hidden or a filter asks for what only events have.
func TestRejectionsAsTheyHappen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		s, r, _, _ := prepare(t, in)
		forge := func() {
			status, _ := s.ask(t, http.MethodPost, "/api/v1/webhook/repo", "", map[string]any{"a": 1})
			require.Equal(t, http.StatusUnauthorized, status)
		}
		forge()
		r.eventually(1, "signature_missing", "rejections", "list")
		app := newLocal(t, nil)
		shown := []*running{
			r.start("events", "tail"), r.start("events", "tail", "--provider", "github", "--connection-id", "repo"),
			r.start("listen", "--forward", app.URL),
		}
		lines := []*running{r.start("events", "tail", "--json", "--only", "rejected", "--count", "1"),
			r.start("listen", "--forward", app.URL, "--json")}
		hidden := []*running{
			r.start("events", "tail", "--no-rejections"), r.start("events", "tail", "--event-type", "*"),
			r.start("events", "tail", "--provider", "stripe"), r.start("events", "tail", "--only", "received"),
			r.start("listen", "--forward", app.URL, "--no-rejections"),
		}
		for _, c := range slices.Concat(shown, lines, hidden) {
			c.waits(1, `Press Ctrl-C to stop\.\n`, &c.stderr)
		}
		forge()
		const line = `(?m)^\d\d:\d\d:\d\d  rejected  github/repo  signature_missing  from 127\.0\.0\.1: .+$`
		for _, c := range shown {
			c.waits(1, line, &c.out)
		}
		lines[0].exits(exitOK)
		for _, c := range lines {
			c.waits(1, `(?m)^\{"event":"webhook_rejection\.recorded","data":\{.*"reason":"signature_missing"`, &c.out)
		}
		forge()
		for _, c := range append(shown, lines[1]) {
			c.waits(2, `signature_missing`, &c.out)
			c.interrupt()
			require.Len(t, regexp.MustCompile("signature_missing").FindAllString(c.out.String(), -1), 2,
				"no rejection shows twice, nor one from before")
		}
		for _, c := range hidden {
			c.interrupt()
			require.NotContains(t, c.output(), "signature_missing")
		}
	})
}
