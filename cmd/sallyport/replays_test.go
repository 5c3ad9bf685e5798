package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

// After an outage what did not arrive is counted, sent again as one job that is waited for, and accounted for; a job
// can be paused, resumed and cancelled.
func TestReplaysOverTheAPI(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		r := in.remote(t, s, "webhooks,connections")
		require.Equal(t, exitOK, r.run(githubSecret, "connections", "create", "--provider", "github", "--connection-id",
			"repo", "--webhook-secret-file", "-").code)
		var up, hangs atomic.Bool
		wakes := make(chan struct{})
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if hangs.Load() {
				<-wakes
			}
			if !up.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		await.Close(t, receiver)
		wake := sync.OnceFunc(func() { close(wakes) })
		t.Cleanup(wake)
		id := decode[subscriptionRow](t, r.run(`{"retry_schedule_seconds":[]}`, "subscriptions", "create", "--json",
			"--event-types", "*", "--forward-url", receiver.URL, "--from-file", "-").out).ID
		for n := range 5 {
			s.deliver(t, strconv.Itoa(n))
		}
		r.eventually(5, "dead_letter", "events", "list")

		preview := r.do("replays", "create", "--status", "dead_letter", "--received-after", "1h", "--http-status", "503",
			"--subscription-id", id, "--dry-run")
		require.Contains(t, preview, "Events       5\nWould start  5\nWould skip   0\n")
		require.Equal(t, 5, strings.Count(preview, id))
		require.Equal(t, "[]\n", r.do("replays", "list", "--json"))
		none := decode[replayCounts](t, r.do("replays", "create", "--event-type", "push", "--no-duplicate", "--no-control",
			"--received-before", "1ms", "--dry-run", "--json"))
		require.Zero(t, none.Matched)
		require.Contains(t, r.run("", "replays", "create", "--event-type", "push", "--dry-run").stderr,
			"--force sends those again that have succeeded")

		up.Store(true)
		done := r.do("replays", "create", "--status", "dead_letter", "--rate-per-second", "500", "--wait")
		for _, want := range []string{"Status           completed\n", "Progress         100 %\n", "Started          5\n",
			"Succeeded        5\n", "Failed at first  0\n"} {
			require.Contains(t, done, want)
		}
		r.eventually(5, "forwarded", "events", "list")
		list := decode[[]replayRow](t, r.do("replays", "list", "--json", "--status", "completed"))
		require.Len(t, list, 1)
		require.Regexp(t, `(?m)^`+list[0].ID+`  .*  completed  100 %  5        5          0                k$`,
			r.do("replays", "list"))
		require.Equal(t, done, r.do("replays", "show", list[0].ID))
		require.Equal(t, done, r.do("replays", "show", list[0].ID, "--wait"))

		// The receiver hangs, so that the second job does not end while it is steered.
		hangs.Store(true)
		events := decode[[]eventRow](t, r.do("events", "list", "--json"))
		slow := decode[replayRow](t, r.do("replays", "create", "--event-uuid", events[0].EventUUID+","+events[1].EventUUID,
			"--force", "--rate-per-second", "1", "--json"))
		require.Contains(t, r.do("replays", "pause", slow.ID), "Status           paused\n")
		require.NotContains(t, r.do("replays", "resume", slow.ID), "paused")
		require.Contains(t, r.do("replays", "cancel", slow.ID), "Status           cancelled\n")
		r.refuse(exitFailed, "status 409", "replays", "resume", slow.ID)
		wake()

		out := r.run("", "replays", "create", "--to-subscription-id", id, "--all", "--force", "--json", "--rate-per-second",
			"500")
		require.Equal(t, exitOK, out.code, out.stderr)
		require.Equal(t, id, *decode[replayRow](t, out.out).ToSubscriptionID)
		r.refuse(exitUsage, "nothing restricts the replay", "replays", "create", "--force")
		r.refuse(exitUsage, "--all: must not be combined with", "replays", "create", "--all", "--status", "failed")
		r.refuse(exitUsage, "--rate-per-second: ", "replays", "create", "--all", "--rate-per-second", "0")
		r.refuse(exitUsage, "--to-subscription-id: must be the id", "replays", "create", "--all", "--to-subscription-id", "x")
		r.refuse(exitUsage, "--status must be one of", "replays", "list", "--status", "lost")
		r.refuse(exitUsage, "--wait and --dry-run", "replays", "create", "--all", "--wait", "--dry-run")
		r.refuse(exitUsage, "--event-uuid: ", "replays", "create", "--event-uuid", "x")
		r.refuse(exitFailed, "not_found", "replays", "show", "rpl_none")
	})
}

// A wait shows the job's progress, outlasts a server that is away, and ends with the job, by its outcome. An interrupt
// ends only the wait, and the message says how to wait again.
func TestReplaysWait(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	states := []string{"queued", "running", "", "running", "failed"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state := states[min(int(asked.Add(1)), len(states))-1]
		if r.Header.Get("Api-Key") == "slow" {
			state = "running"
		}
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		case state == "":
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "rpl_1", "status": state, "progress": 0.999,
			"counts": map[string]any{"replayed": 7}, "error": map[string]any{"code": "subscription_deleted", "message": "gone"}})
	}))
	await.Close(t, s)
	wait := func(ctx context.Context, key string, meanwhile func(), args ...string) result {
		clk := skippingClock{Manual: clock.NewManual(time.Now()), meanwhile: meanwhile}
		return call(command{ctx: ctx, clock: clk, args: append([]string{"replays"}, args...)},
			[]string{"SALLYPORT_SERVER=" + s.URL, "SALLYPORT_API_KEY=" + key})
	}
	r := wait(t.Context(), "k", func() {}, "create", "--all", "--wait")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "Status           failed\n")
	require.Contains(t, r.out, "Error            subscription_deleted: gone\n")
	require.Equal(t, int64(5), asked.Load())
	require.Regexp(t, `^queued, 99 %: 7 started, 0 succeeded, 0 failed at first\.\nrunning, 99 %: .*\n`+
		`.*status 503.*Still waiting\.\n$`, r.stderr)

	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r = wait(ctx, "slow", interrupt, "show", "rpl_1", "--wait")
	require.Equal(t, exitFailed, r.code)
	require.Empty(t, r.out)
	require.Contains(t, r.stderr, "rpl_1 continues. To wait for it again: sallyport replays show rpl_1 --wait\n")
}
