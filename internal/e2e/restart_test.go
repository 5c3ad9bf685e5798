package e2e_test

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/testkit/await"
)

// Deliveries that wait when the server stops continue when it starts again, on time, and once: retries keep their time,
// held deliveries their hold, keys their events.
func TestRestartGoesOn(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, statuses(http.StatusServiceUnavailable, http.StatusOK))
		paused := newReceiver(w.t, status(http.StatusOK))
		sub, later := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{3600}}), w.subscribe(paused.url,
			object{"enabled": false})
		w.connectGitHub("acme")
		m := github(issueOpened)
		uuid := w.fresh("acme", m)
		d := w.awaitDelivery(uuid, sub.ID, "retry_wait")
		w.stop()

		w.start()
		require.Equal(w.t, *d.NextAttemptAt, *w.event(uuid).delivery(w, sub.ID).NextAttemptAt)
		w.expectDuplicate("acme", m, uuid)
		w.nextAttempt(uuid, sub.ID, sink, 2)
		w.awaitDelivery(uuid, sub.ID, "succeeded")
		require.Equal(w.t, "held", w.event(uuid).delivery(w, later.ID).Status)
		w.stop()

		w.start()
		w.patchSubscription(later.ID, object{"enabled": true})
		paused.wait(w.t, 1)
		require.Equal(w.t, 2, w.awaitEvent(uuid, "forwarded").delivery(w, sub.ID).AttemptCount)
		require.Equal(w.t, 2, sink.count())
	})
}

// Setting the machine's clock back while a server on SQLite does not run delays no retry by as much: it is sent after
// its wait. A clock that is set ahead looks like a long stop, after which the retry is due. The next start moves
// nothing again.
func TestClockSetWhileStopped(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"back": -6 * time.Hour, "ahead": 6 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "", t.TempDir())
			w.start()
			sink := newReceiver(w.t, statuses(http.StatusServiceUnavailable, http.StatusOK))
			sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{600}})
			w.connectGitHub("acme")
			uuid := w.fresh("acme", github(issueOpened))
			w.awaitDelivery(uuid, sub.ID, "retry_wait")
			w.ticking("a probe of the store after it", func() bool {
				var n int
				require.NoError(w.t, w.database().Read().QueryRowContext(w.t.Context(),
					"SELECT COUNT(*) FROM store_probes WHERE shown_ms > $1", w.clk.Now().Add(-time.Minute).UnixMilli()).Scan(&n))
				return n > 0
			})
			w.stop()
			w.clk.Set(by)
			w.start()
			waits := func() time.Duration {
				return w.event(uuid).delivery(w, sub.ID).NextAttemptAt.Sub(w.clk.Now())
			}
			if by < 0 {
				before := waits()
				require.Greater(w.t, before, 5*time.Minute)
				require.Less(w.t, before, 13*time.Minute)
				w.stop()
				w.start()
				require.InDelta(w.t, before, waits(), float64(time.Minute))
				w.clk.Advance(before)
			}
			w.ticking("the retry", func() bool { return sink.count() == 2 })
			w.awaitDelivery(uuid, sub.ID, "succeeded")
		})
	}
}

// An ordered stop lets requests on the wire end, keeps their outcome, and releases deliveries that have not begun, so
// that the next start sends them immediately.
func TestStopInOrder(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newHanging(w.t, http.StatusOK)
		sub := w.subscribe(sink.url, object{"timeout_ms": 30000})
		w.connectGitHub("acme")
		first := w.fresh("acme", github(`{"action":"opened","n":0}`))
		sink.wait(w.t, 1)
		waiting := []string{}
		for n := range 3 {
			waiting = append(waiting, w.fresh("acme", github(`{"action":"opened","n":`+strconv.Itoa(n+1)+`}`)))
		}
		for _, uuid := range waiting {
			require.Equal(w.t, "sending", w.event(uuid).delivery(w, sub.ID).Status, "leased, and waiting for its turn")
		}
		address := strings.TrimPrefix(w.base, "http://")
		count := func(status string) int {
			var n int
			require.NoError(w.t, w.database().Read().QueryRowContext(w.t.Context(),
				"SELECT COUNT(*) FROM deliveries WHERE status = $1", status).Scan(&n))
			return n
		}
		require.Equal(w.t, 4, count("sending"))
		stopped := make(chan error, 1)
		server := w.app
		w.app = nil
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), await.Limit)
			defer cancel()
			stopped <- server.Stop(ctx)
		}()
		await.Condition(w.t, "the leases given back", func() bool { return count("pending") == 3 })
		_, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", address)
		require.Error(w.t, err, "nothing is accepted any more")
		require.Equal(w.t, 1, count("sending"), "the try on the wire")
		select {
		case err := <-stopped:
			require.FailNow(w.t, "the stop did not wait for the try on the wire", "%v", err)
		default:
		}
		sink.open()
		require.NoError(w.t, await.Value(w.t, "the end of the server", stopped))
		require.Equal(w.t, 1, count("succeeded"))

		w.start()
		sink.wait(w.t, 4)
		for _, uuid := range append(waiting, first) {
			require.Equal(w.t, 1, w.awaitEvent(uuid, "forwarded").AttemptCount)
		}
		require.Equal(w.t, 4, sink.count())
	}, func(c *config.Config) { c.DeliveryConcurrencyPerSubscription = 1 })
}

// The target is checked at every attempt, not only when the URL was stored: a target that the operator no longer
// permits gets nothing, and no schedule is spent on it.
func TestTargetTurnedPrivate(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusServiceUnavailable))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{60, 60, 60}})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		due := *w.awaitDelivery(uuid, sub.ID, "retry_wait").NextAttemptAt
		w.stop()

		w.cfg.Dev = false // which no longer lets requests reach this machine
		w.start()
		w.clk.Advance(due.Sub(w.clk.Now()))
		w.ticking("the delivery to die", func() bool { return w.event(uuid).Status == "dead_letter" })
		d := w.event(uuid).delivery(w, sub.ID)
		require.Equal(w.t, "target_refused", d.LastError.Code)
		require.Equal(w.t, 2, d.AttemptCount)
		require.NotContains(w.t, d.LastError.Message, "127.0.0.1")
		require.Equal(w.t, 1, sink.count())
		require.Equal(w.t, []string{"body.forward_url target_refused"}, w.call(w.dev(), http.MethodPost,
			"/webhook-subscriptions", object{"event_types": []string{"*"}, "forward_url": sink.url}).violations(w))
	})
}

// Nodes that share a database use its clock, and one whose own is more than two seconds off is not ready: leases and
// due times must mean the same to all. It is alive all the same.
func TestClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.get("/readyz").want(w, http.StatusOK)
		w.get("/healthz").want(w, http.StatusOK)
		if w.databaseURL == "" {
			return // SQLite has no clock of its own
		}
		w.ahead.Store(int64(2*time.Second + time.Millisecond))
		w.ticking("the node to notice", func() bool { return w.get("/readyz").status == http.StatusServiceUnavailable })
		w.get("/healthz").want(w, http.StatusOK)
		const behind = -2 * time.Second
		w.ahead.Store(int64(behind))
		w.ticking("the node to be ready again", func() bool { return w.get("/readyz").status == http.StatusOK })
		w.connectGitHub("acme")
		e := w.event(w.fresh("acme", github(issueOpened)))
		require.Equal(w.t, w.clk.Now().Add(behind).Truncate(time.Millisecond), e.ReceivedAt)
	})
}

// Two servers must not work in one data folder of SQLite: the second is refused and does not disturb the first.
func TestSecondServerOnOneFolder(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		if w.databaseURL != "" {
			w.t.Skip("nodes on PostgreSQL may share a folder")
		}
		_, err := app.New(w.t.Context(), app.Options{Config: w.cfg, Logger: w.logger(), Clock: w.clk, Version: "test"})
		require.ErrorContains(w.t, err, "another `sallyport serve` is using this data folder")
		w.deliverable()
	})
}

// deliverable requires that the server still takes requests.
func (w *world) deliverable() {
	w.t.Helper()
	w.connectGitHub("still-there")
	w.fresh("still-there", github(issueOpened))
}
