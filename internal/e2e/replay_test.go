package e2e_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

func (w *world) replay(uuid string, body any) response {
	w.t.Helper()
	return w.call(w.dev(), http.MethodPost, "/webhook-events/"+uuid+"/replay", body)
}

// A replay sends dead deliveries again, in a new generation with a schedule of its own and under the same webhook-id;
// successful ones are left alone unless it is forced.
func TestReplay(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		broken, fine := newReceiver(w.t, statuses(500, 500, 500, 200)), newReceiver(w.t, status(http.StatusOK))
		dead := w.subscribe(broken.url, object{"retry_schedule_seconds": []float64{1}})
		w.subscribe(fine.url)
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		w.nextAttempt(uuid, dead.ID, broken, 2)
		w.awaitEvent(uuid, "dead_letter")

		a := w.replay(uuid, nil).want(w, http.StatusAccepted)
		require.Equal(w.t, prefix+"/webhook-events/"+uuid, a.header.Get("Location"))
		w.nextAttempt(uuid, dead.ID, broken, 4)
		w.awaitEvent(uuid, "forwarded")
		require.Equal(w.t, 1, fine.count())
		w.replay(uuid, object{}).refused(w, http.StatusConflict, apperr.CodeNothingToReplay)
		w.replay(uuid, object{"force": true, "subscription_ids": []string{dead.ID}}).want(w, http.StatusAccepted)
		broken.wait(w.t, 5)
		w.awaitEvent(uuid, "forwarded")
		require.Equal(w.t, 1, fine.count())
		w.replay(uuid, object{"force": true}).want(w, http.StatusAccepted)
		broken.wait(w.t, 6)
		fine.wait(w.t, 2)
		w.awaitEvent(uuid, "forwarded")

		type sent struct {
			generation, number int
			outcome            string
		}
		var attempts []sent
		for _, a := range w.attempts(uuid) {
			if a.SubscriptionID == dead.ID {
				attempts = append(attempts, sent{a.Generation, a.Number, a.Outcome})
			}
		}
		require.Equal(w.t, []sent{{1, 1, "failed"}, {1, 2, "failed"}, {2, 1, "failed"}, {2, 2, "succeeded"},
			{3, 1, "succeeded"}, {4, 1, "succeeded"}}, attempts)
		for i, r := range broken.all() {
			require.Equal(w.t, uuid, r.header.Get("Webhook-Id"))
			require.Equal(w.t, []string{"false", "false", "true", "true", "true", "true"}[i], r.header.Get("Sallyport-Replay"))
			require.Equal(w.t, []string{"1", "2", "1", "2", "1", "1"}[i], r.header.Get("Sallyport-Attempt"))
			verify(w, dead.SigningSecret, r)
		}
		require.Equal(w.t, 8, w.event(uuid).AttemptCount)
	})
}

// A replay ends the wait between two attempts: the old schedule sends nothing more.
func TestReplayEndsTheOldSchedule(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink, probe := newReceiver(w.t, statuses(500, 200)), newReceiver(w.t, statuses(500, 200))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{600}})
		late := w.subscribe(probe.url, object{"retry_schedule_seconds": []float64{900}})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		w.awaitDelivery(uuid, late.ID, "retry_wait")
		old := *w.awaitDelivery(uuid, sub.ID, "retry_wait").NextAttemptAt
		w.replay(uuid, object{"subscription_ids": []string{sub.ID}}).want(w, http.StatusAccepted)
		sink.wait(w.t, 2)
		w.awaitDelivery(uuid, sub.ID, "succeeded")
		// An attempt that is due later than the old one shows that the old time has passed without one.
		require.True(w.t, w.nextAttempt(uuid, late.ID, probe, 2).After(old))
		w.awaitEvent(uuid, "forwarded")
		require.Equal(w.t, 2, sink.count())
	})
}

// A delivery on the wire is not sent a second time meanwhile.
func TestReplayInFlight(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newHanging(w.t, http.StatusOK)
		sub := w.subscribe(sink.url, object{"timeout_ms": 30000})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		sink.wait(w.t, 1)
		for _, body := range []object{{}, {"force": true}, {"force": true, "subscription_ids": []string{sub.ID}}} {
			w.replay(uuid, body).refused(w, http.StatusConflict, apperr.CodeDeliveryInFlight)
		}
		require.Equal(w.t, "sending", w.event(uuid).delivery(w, sub.ID).Status)
		require.Equal(w.t, "forwarding", w.event(uuid).Status)
		sink.open()
		w.awaitEvent(uuid, "forwarded")
		require.Equal(w.t, 1, sink.count())
	})
}

// A replay that has nothing to send says so, and one that names what the event does not go to is refused whole.
func TestReplayOfNothing(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		m := github(issueOpened)
		alone := w.fresh("acme", m)
		w.expectDuplicate("acme", m, alone)
		sink := newReceiver(w.t, status(http.StatusInternalServerError))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{}})
		dead := w.fresh("acme", github(`{"action":"closed"}`))
		w.awaitEvent(dead, "dead_letter")
		duplicate := w.events("&duplicate=true")[0].EventUUID
		w.unchanged(func() {
			for _, uuid := range []string{alone, duplicate} {
				w.replay(uuid, object{"force": true}).refused(w, http.StatusConflict, apperr.CodeNothingToReplay)
				require.Equal(w.t, []string{"body.subscription_ids[0] exists"},
					w.replay(uuid, object{"subscription_ids": []string{sub.ID}}).violations(w))
			}
			require.Equal(w.t, []string{"body.subscription_ids[1] exists"},
				w.replay(dead, object{"subscription_ids": []string{sub.ID, id.New(id.PrefixSubscription)}}).violations(w))
			w.replay(id.NewUUID(), object{}).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		})
		require.Equal(w.t, 1, sink.count())
	})
}

// A replay to a paused subscription waits with the rest.
func TestReplayWhilePaused(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, statuses(500, 200))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{}})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		w.awaitEvent(uuid, "dead_letter")
		w.patchSubscription(sub.ID, object{"enabled": false})
		w.replay(uuid, object{}).want(w, http.StatusAccepted)
		d := w.event(uuid).delivery(w, sub.ID)
		require.Equal(w.t, "held", d.Status)
		require.Equal(w.t, 2, d.Generation)
		w.patchSubscription(sub.ID, object{"enabled": true})
		sink.wait(w.t, 2)
		w.awaitEvent(uuid, "forwarded")
	})
}
