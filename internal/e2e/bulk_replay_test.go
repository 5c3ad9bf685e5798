package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit/await"
)

// replayJob is a bulk replay, as far as the tests read it.
type replayJob struct {
	ID               string         `json:"id"`
	Status           string         `json:"status"`
	Filter           map[string]any `json:"filter"`
	ToSubscriptionID *string        `json:"to_subscription_id"`
	Counts           replayCounts   `json:"counts"`
	Progress         float64        `json:"progress"`
	Error            *failure       `json:"error"`
	CreatedBy        struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	} `json:"created_by"`
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

type replayCounts struct {
	Matched        int            `json:"matched"`
	Replayed       int            `json:"replayed"`
	InProgress     int            `json:"in_progress"`
	Succeeded      int            `json:"succeeded"`
	Failed         int            `json:"failed"`
	Other          int            `json:"other"`
	Skipped        int            `json:"skipped"`
	SkippedReasons map[string]int `json:"skipped_reasons"`
}

type replayPreview struct {
	Matched        int            `json:"matched"`
	Replayed       int            `json:"replayed"`
	Skipped        int            `json:"skipped"`
	SkippedReasons map[string]int `json:"skipped_reasons"`
	AtLeast        bool           `json:"at_least"`
	Sample         []struct {
		EventUUID      string `json:"event_uuid"`
		SubscriptionID string `json:"subscription_id"`
	} `json:"sample"`
}

func (w *world) startReplay(c credentials, body object) replayJob {
	w.t.Helper()
	var r replayJob
	a := w.call(c, http.MethodPost, "/webhook-replays", body).want(w, http.StatusAccepted)
	a.into(w, &r)
	require.Equal(w.t, prefix+"/webhook-replays/"+r.ID, a.header.Get("Location"))
	return r
}

func (w *world) replayJob(c credentials, replayID string) replayJob {
	w.t.Helper()
	var r replayJob
	w.call(c, http.MethodGet, "/webhook-replays/"+replayID, nil).want(w, http.StatusOK).into(w, &r)
	return r
}

// replays makes a job and waits, while the clock moves, until it is completed.
func (w *world) replays(body object) replayJob {
	w.t.Helper()
	return w.ends(w.startReplay(w.dev(), body), "completed")
}

func (w *world) ends(r replayJob, status string) replayJob {
	w.t.Helper()
	w.ticking("the replay to be "+status, func() bool {
		r = w.replayJob(w.dev(), r.ID)
		return r.Status == status
	})
	return r
}

func (w *world) previews(body object) (p replayPreview) {
	w.t.Helper()
	body["dry_run"] = true
	w.unchanged(func() { w.call(w.dev(), http.MethodPost, "/webhook-replays", body).want(w, http.StatusOK).into(w, &p) })
	return p
}

// only are the reasons that a job has, of all that are shown.
func only(reasons map[string]int) map[string]int {
	out := map[string]int{}
	for why, n := range reasons {
		if n > 0 {
			out[why] = n
		}
	}
	return out
}

// dead makes n events whose deliveries to the receiver are dead.
func (w *world) dead(n int) (uuids []string) {
	w.t.Helper()
	for i := range n {
		uuids = append(uuids, w.fresh("acme", github(`{"action":"opened","n":`+strconv.Itoa(i)+`}`)))
	}
	for _, uuid := range uuids {
		if n < 10 {
			w.awaitEvent(uuid, "dead_letter")
			continue
		}
		// The breaker opens over that many; the others die one probe after another.
		w.ticking("a dead event", func() bool { return w.event(uuid).Status == "dead_letter" })
	}
	return uuids
}

// failing is a receiver that refuses the first n requests and takes all that come later.
func failing(t *testing.T, n int) *receiver {
	t.Helper()
	return newReceiver(t, func(rw http.ResponseWriter, i int) {
		rw.WriteHeader(map[bool]int{true: http.StatusInternalServerError, false: http.StatusOK}[i <= n])
	})
}

// After an outage one request sends all dead deliveries again: those that a dry run counts, oldest first, each once, as
// replays, and none that came later or had arrived. The job shows the outcome and stays on record.
func TestBulkReplay(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const n = 7
		sink, fine := failing(w.t, n), newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{}})
		w.subscribe(fine.url)
		w.connectGitHub("acme")
		uuids := w.dead(n)
		body := func() object {
			return object{"filter": object{"status": []string{"dead_letter"}, "connection_id": []string{"acme"}}}
		}
		p := w.previews(body())
		require.Equal(w.t, []int{n, n, 0}, []int{p.Matched, p.Replayed, p.Skipped})
		require.False(w.t, p.AtLeast)
		require.Len(w.t, p.Sample, n)
		require.Equal(w.t, uuids[n-1], p.Sample[0].EventUUID)
		require.Equal(w.t, sub.ID, p.Sample[0].SubscriptionID)

		r := w.startReplay(w.dev(), body())
		require.Contains(w.t, []string{"queued", "running"}, r.Status)
		require.Equal(w.t, map[string]any{"status": []any{"dead_letter"}, "connection_id": []any{"acme"}}, r.Filter)
		later := w.fresh("acme", github(`{"action":"closed"}`))
		r = w.ends(r, "completed")
		require.Equal(w.t, replayCounts{Matched: n, Replayed: n, Succeeded: n, SkippedReasons: r.Counts.SkippedReasons},
			r.Counts)
		require.Equal(w.t, []any{1.0, "api_key"}, []any{r.Progress, r.CreatedBy.Type})
		require.NotNil(w.t, r.StartedAt)
		require.NotNil(w.t, r.FinishedAt)
		for _, uuid := range uuids {
			w.awaitEvent(uuid, "forwarded")
			require.Equal(w.t, 2, w.event(uuid).delivery(w, sub.ID).Generation)
		}
		w.awaitEvent(later, "forwarded")
		var again []string
		for _, got := range sink.all() {
			if got.header.Get("Sallyport-Replay") == "true" {
				verify(w, sub.SigningSecret, got)
				again = append(again, got.header.Get("Webhook-Id"))
			}
		}
		require.ElementsMatch(w.t, uuids, again)
		require.Equal(w.t, n+1, fine.count(), "what had arrived is left alone")

		r = w.replays(body())
		require.Zero(w.t, r.Counts.Matched+r.Counts.Replayed)
		var list []replayJob
		w.call(w.dev(), http.MethodGet, "/webhook-replays?status=completed", nil).want(w, http.StatusOK).into(w, &list)
		require.Len(w.t, list, 2)
		w.call(w.dev(), http.MethodGet, "/webhook-replays?status=running,queued", nil).want(w, http.StatusOK).into(w, &list)
		require.Empty(w.t, list)
		w.clk.Advance(30*24*time.Hour + time.Minute)
		w.ticking("old jobs to be deleted", func() bool { return w.countRows("SELECT COUNT(*) FROM webhook_replays") == 0 })
	})
}

// Where a filter asks about deliveries, the job replays those that fit, and leaves the others of the same event.
func TestBulkReplayOfSomeDeliveries(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		one, other := failing(w.t, 2), failing(w.t, 2)
		wanted, left := w.subscribe(one.url, object{"retry_schedule_seconds": []float64{}}), w.subscribe(other.url,
			object{"retry_schedule_seconds": []float64{}})
		w.connectGitHub("acme")
		uuids := w.dead(2)
		for _, uuid := range uuids {
			w.awaitDelivery(uuid, wanted.ID, "dead")
			w.awaitDelivery(uuid, left.ID, "dead")
		}
		r := w.replays(object{"filter": object{"subscription_id": []string{wanted.ID}, "http_status": []int{500}}})
		require.Equal(w.t, []int{2, 2, 2}, []int{r.Counts.Matched, r.Counts.Replayed, r.Counts.Succeeded})
		for _, uuid := range uuids {
			require.Equal(w.t, "dead", w.event(uuid).delivery(w, left.ID).Status)
		}
		require.Equal(w.t, 2, other.count())
	})
}

// A subscription that was made after an outage gets the events of it, those that it takes, once; a repetition sends
// nothing more unless it is forced.
func TestBulkReplayToNewSubscription(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		old := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(old.url)
		w.connectGitHub("acme")
		opened := w.fresh("acme", github(issueOpened))
		w.awaitEvent(opened, "forwarded")
		m := github(`{"action":"closed","label":"bug"}`)
		closed := w.fresh("acme", m)
		w.awaitEvent(closed, "forwarded")
		w.expectDuplicate("acme", m, closed)
		sink := newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(sink.url, object{"event_types": []string{"issues.closed", "issues.opened"},
			"filter": `event.body.action == "closed"`})
		body := func() object {
			return object{"filter": object{"received_after": w.clk.Now().Add(-time.Hour).Format(time.RFC3339)},
				"to_subscription_id": sub.ID}
		}
		p := w.previews(body())
		require.Equal(w.t, map[string]int{"not_matched": 1, "duplicate": 1}, only(p.SkippedReasons))
		require.Equal(w.t, []int{3, 1, 2}, []int{p.Matched, p.Replayed, p.Skipped})
		r := w.replays(body())
		require.Equal(w.t, sub.ID, *r.ToSubscriptionID)
		require.Equal(w.t, only(p.SkippedReasons), only(r.Counts.SkippedReasons))
		require.Equal(w.t, 1, r.Counts.Succeeded)
		got := sink.wait(w.t, 1)[0]
		require.Equal(w.t, []string{closed, "true", "1"}, []string{got.header.Get("Webhook-Id"),
			got.header.Get("Sallyport-Replay"), got.header.Get("Sallyport-Attempt")})
		w.awaitEvent(closed, "forwarded")

		r = w.replays(body())
		require.Equal(w.t, map[string]int{"not_matched": 1, "duplicate": 1, "not_failed": 1}, only(r.Counts.SkippedReasons))
		forced := body()
		forced["force"] = true
		require.Equal(w.t, 1, w.replays(forced).Counts.Succeeded)
		require.Equal(w.t, 2, sink.count())
		require.Equal(w.t, 2, old.count())

		for n := range 2 {
			w.awaitEvent(w.fresh("acme", github(`{"action":"closed","n":`+strconv.Itoa(n)+`}`)), "forwarded")
		}
		r = w.startReplay(w.dev(), object{"filter": object{"all": true}, "to_subscription_id": sub.ID, "force": true,
			"rate_per_second": 1})
		w.call(w.dev(), http.MethodPost, "/webhook-replays/"+r.ID+"/pause", nil).want(w, http.StatusOK)
		w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusNoContent)
		require.Equal(w.t, []string{"body.to_subscription_id exists"}, w.call(w.dev(), http.MethodPost, "/webhook-replays",
			body()).violations(w))
		w.call(w.dev(), http.MethodPost, "/webhook-replays/"+r.ID+"/resume", nil).want(w, http.StatusOK)
		r = w.ends(r, "failed")
		require.Equal(w.t, "subscription_deleted", r.Error.Code)
	})
}

// A job keeps to its rate, pauses from the response to a pause until it is resumed, ends with the response to a cancel,
// and shows its end to later readers. Each of these is on record.
func TestBulkReplayControl(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const n = 8
		sink := failing(w.t, n)
		w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{}})
		w.connectGitHub("acme")
		w.dead(n)
		control := func(r replayJob, verb string) response {
			return w.call(w.dev(), http.MethodPost, "/webhook-replays/"+r.ID+"/"+verb, nil)
		}
		r := w.startReplay(w.dev(), object{"filter": object{"all": true}, "rate_per_second": 1})
		sink.wait(w.t, n+1)
		await.Condition(w.t, "the first delivery to be counted", func() bool {
			return w.replayJob(w.dev(), r.ID).Counts.Succeeded == 1
		})
		require.Equal(w.t, n+1, sink.count(), "the clock stands still, and so does the job")
		before := w.replayJob(w.dev(), r.ID)
		require.Equal(w.t, "running", before.Status)
		for range 2 {
			control(r, "pause").want(w, http.StatusOK).into(w, &r)
			require.Equal(w.t, "paused", r.Status)
		}
		at := w.clk.Now()
		w.ticking("a while to pass", func() bool { return w.clk.Now().Sub(at) > 20*time.Second })
		require.Equal(w.t, n+1, sink.count())
		for range 2 {
			control(r, "resume").want(w, http.StatusOK).into(w, &r)
			require.Contains(w.t, []string{"queued", "running"}, r.Status)
		}
		w.ticking("the job to go on", func() bool { return sink.count() > n+2 })
		for range 2 {
			control(r, "cancel").want(w, http.StatusOK).into(w, &r)
			require.Equal(w.t, "cancelled", r.Status)
			require.NotNil(w.t, r.FinishedAt)
		}
		await.Condition(w.t, "what was started to arrive", func() bool {
			return sink.count() == n+w.replayJob(w.dev(), r.ID).Counts.Succeeded
		})
		r = w.replayJob(w.dev(), r.ID)
		require.Less(w.t, r.Counts.Replayed, n)
		at = w.clk.Now()
		w.ticking("a while to pass", func() bool { return w.clk.Now().Sub(at) > 20*time.Second })
		require.Equal(w.t, n+r.Counts.Replayed, sink.count())
		for _, verb := range []string{"pause", "resume"} {
			control(r, verb).refused(w, http.StatusConflict, apperr.CodeReplayEnded)
		}
		rest := w.replays(object{"filter": object{"all": true}})
		require.Equal(w.t, n-r.Counts.Replayed, rest.Counts.Succeeded)
		control(rest, "cancel").refused(w, http.StatusConflict, apperr.CodeReplayEnded)
		actions := []string{}
		for _, e := range w.trail("environment_id="+w.env+"&target_type=webhook_replay", 5) {
			actions = append(actions, e.Action)
		}
		require.Equal(w.t, []string{"webhook_replay.create", "webhook_replay.pause", "webhook_replay.resume",
			"webhook_replay.cancel", "webhook_replay.create"}, actions)
	})
}

// Deliveries that cannot be sent are skipped with the reason: a removed payload, an attempt in progress, a deleted
// subscription.
func TestBulkReplaySkips(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		hanging := newHanging(w.t, http.StatusOK)
		gone, busy := failing(w.t, 3), w.subscribe(hanging.url, object{"timeout_ms": 30000})
		deleted := w.subscribe(gone.url, object{"retry_schedule_seconds": []float64{}})
		w.connectGitHub("acme")
		first, second := w.fresh("acme", github(issueOpened)), w.fresh("acme", github(`{"action":"closed"}`))
		for _, uuid := range []string{first, second} {
			w.awaitDelivery(uuid, deleted.ID, "dead")
		}
		hanging.wait(w.t, 2)
		w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+deleted.ID, nil).want(w, http.StatusNoContent)
		w.expunge(first).want(w, http.StatusNoContent)
		all := func() object {
			return object{"filter": object{"event_uuids": []string{first, second, id.NewUUID()}}, "force": true}
		}
		want := map[string]int{"payload_expired": 1, "in_flight": 1, "subscription_deleted": 1}
		require.Equal(w.t, want, only(w.previews(all()).SkippedReasons))
		r := w.replays(all())
		require.Equal(w.t, want, only(r.Counts.SkippedReasons))
		require.Equal(w.t, replayCounts{Matched: 2, Skipped: 3, SkippedReasons: r.Counts.SkippedReasons}, r.Counts)
		hanging.open()
		w.awaitDelivery(second, busy.ID, "succeeded")
		require.Equal(w.t, 2, hanging.count())
	})
}

// A job without restrictions must say so, and every validation error of a request is in one response. The number of an
// environment's jobs is limited.
func TestBulkReplayRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		violations := func(body object) []string {
			return w.call(w.dev(), http.MethodPost, "/webhook-replays", body).violations(w)
		}
		for _, nothing := range []object{{}, {"event_type": []string{"*", "a"}}, {"duplicate": false, "control": false},
			{"all": false}} {
			require.Equal(w.t, []string{"body.filter restriction"}, violations(object{"filter": nothing}), "%v", nothing)
		}
		require.ElementsMatch(w.t, []string{"body.filter.q pattern", "body.filter.provider[1] pattern",
			"body.filter.idempotency_key[0] pattern"}, violations(object{"dry_run": true, "filter": object{"q": "a\x00",
			"provider": []string{"a", "\x00"}, "idempotency_key": []string{"\x00"}}}))
		require.Equal(w.t, []string{"body.filter.all alone"},
			violations(object{"filter": object{"all": true, "status": []string{"failed"}}}))
		require.ElementsMatch(w.t, []string{"body.filter.event_uuids[1] format", "body.filter.event_type[0] pattern",
			"body.filter.status[0] enum", "body.to_subscription_id format", "body.rate_per_second maximum",
			"body.filter.colour unknown_field"}, violations(object{"filter": object{"event_uuids": []string{id.NewUUID(), "x"},
			"event_type": []string{"a*"}, "status": []string{"lost"}, "colour": "a"},
			"to_subscription_id": "sub_", "rate_per_second": 501}))
		require.Equal(w.t, []string{"body.filter.status type"}, violations(object{"filter": object{"status": "failed"}}),
			"and not that it restricts nothing")
		require.Equal(w.t, []string{"body.filter required"}, violations(object{"force": true}))

		sink := failing(w.t, 11)
		w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{}})
		w.dead(11)
		slow := object{"filter": object{"all": true}, "rate_per_second": 1}
		var last replayJob
		for range 10 {
			last = w.startReplay(w.dev(), slow)
		}
		w.call(w.dev(), http.MethodPost, "/webhook-replays", slow).refused(w, http.StatusConflict, apperr.CodeReplaysLimit)
		w.startReplay(w.user(w.environment("production")), slow)
		w.call(w.dev(), http.MethodPost, "/webhook-replays/"+last.ID+"/cancel", nil).want(w, http.StatusOK)
		w.startReplay(w.dev(), slow)
	})
}

// A key without the grant of replays cannot make, see or end them, and a user who may only look can only look.
func TestBulkReplayRights(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		body := object{"filter": object{"all": true}}
		r := w.replays(body)
		reader := byKey(w.newKey(w.env, allow("events")).Key)
		for _, call := range []struct{ method, path string }{{http.MethodGet, ""}, {http.MethodGet, "/" + r.ID},
			{http.MethodPost, "/" + r.ID + "/cancel"}} {
			w.call(reader, call.method, "/webhook-replays"+call.path, nil).refused(w, http.StatusForbidden,
				apperr.CodeGrantDenied)
		}
		w.call(reader, http.MethodPost, "/webhook-replays", body).refused(w, http.StatusForbidden, apperr.CodeGrantDenied)
	})
}

// A stop and a start in the middle of a job send nothing twice and leave nothing out.
func TestBulkReplayGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const n = 9 // a breaker opens at ten, and would delay what this test counts
		sink := failing(w.t, n)
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{}})
		w.connectGitHub("acme")
		uuids := w.dead(n)
		r := w.startReplay(w.dev(), object{"filter": object{"all": true}, "rate_per_second": 2})
		for stops := range 3 {
			w.ticking("the job to get on", func() bool { return sink.count() >= n+2*stops+1 })
			w.stop()
			w.start()
		}
		r = w.ends(r, "completed")
		require.Equal(w.t, replayCounts{Matched: n, Replayed: n, Succeeded: n, SkippedReasons: r.Counts.SkippedReasons},
			r.Counts)
		require.Equal(w.t, 2*n, sink.count())
		for _, uuid := range uuids {
			require.Equal(w.t, 2, w.event(uuid).delivery(w, sub.ID).Generation)
		}
	})
}

// Nodes share the jobs of a database: what one of them makes another may work on, each obeys what is said to any, and
// each event is sent once.
func TestBulkReplayOnTwoNodes(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		if w.databaseURL == "" {
			w.t.Skip("SQLite has one node")
		}
		const n = 9 // a breaker opens at ten, and would delay what this test counts
		sink := failing(w.t, n)
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{}})
		w.connectGitHub("acme")
		uuids := w.dead(n)
		second := newWorld(w.t, w.databaseURL, w.dir)
		second.clk = w.clk
		second.start()
		r := w.startReplay(w.dev(), object{"filter": object{"all": true}, "rate_per_second": 2})
		w.ticking("the job to begin", func() bool { return sink.count() > n })
		second.call(second.dev(), http.MethodPost, "/webhook-replays/"+r.ID+"/pause", nil).want(second, http.StatusOK)
		await.Condition(w.t, "what was started to arrive", func() bool {
			c := w.replayJob(w.dev(), r.ID).Counts
			return c.InProgress == 0 && sink.count() == n+c.Succeeded
		})
		paused, at := sink.count(), w.clk.Now()
		w.ticking("a while to pass", func() bool { return w.clk.Now().Sub(at) > 20*time.Second })
		require.Equal(w.t, paused, sink.count())
		w.call(w.dev(), http.MethodPost, "/webhook-replays/"+r.ID+"/resume", nil).want(w, http.StatusOK)
		// On a busy machine the clock is ahead of what has arrived, so that much may have been started before the pause.
		w.ticking("the job to get on", func() bool { return sink.count() > min(paused+2, 2*n-1) })
		w.stop()
		second.ticking("the other node to end it", func() bool {
			return second.replayJob(second.dev(), r.ID).Status == "completed"
		})
		r = second.replayJob(second.dev(), r.ID)
		require.Equal(w.t, replayCounts{Matched: n, Replayed: n, Succeeded: n, SkippedReasons: r.Counts.SkippedReasons},
			r.Counts)
		var again []string
		for _, got := range sink.all()[n:] {
			again = append(again, got.header.Get("Webhook-Id"))
		}
		slices.Sort(again)
		require.Equal(w.t, slices.Sorted(slices.Values(uuids)), again, fmt.Sprint(sub.ID))
	})
}
