package e2e_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// nextAttempt waits until the delivery waits for its next attempt, moves the clock to that time, waits for request n at
// the receiver, and returns when the attempt was due.
func (w *world) nextAttempt(uuid, subscriptionID string, sink *receiver, n int) time.Time {
	w.t.Helper()
	due := *w.awaitDelivery(uuid, subscriptionID, "retry_wait").NextAttemptAt
	w.clk.Advance(due.Sub(w.clk.Now()))
	w.ticking("the next try", func() bool { return sink.count() >= n })
	return due
}

// within requires that the wait is the schedule's, up to 20 % off either way.
func within(w *world, schedule, wait time.Duration) {
	w.t.Helper()
	require.GreaterOrEqual(w.t, wait, schedule*8/10-time.Millisecond)
	require.LessOrEqual(w.t, wait, schedule*12/10+time.Millisecond)
}

// A failing receiver gets attempts by the schedule, with jitter, under one webhook-id, until the schedule is spent;
// then the delivery is dead and nothing more is sent.
func TestRetriesUntilDead(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusInternalServerError))
		sub := w.subscribe(sink.url)
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		schedule := []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour,
			4 * time.Hour, 12 * time.Hour, 24 * time.Hour}
		sink.wait(w.t, 1)
		jitter := map[time.Duration]bool{}
		var due []time.Time
		for n, wait := range schedule {
			e := w.awaitEvent(uuid, "failed")
			require.Equal(w.t, n+1, e.AttemptCount)
			d := e.delivery(w, sub.ID)
			planned := d.NextAttemptAt.Sub(d.LastError.At)
			within(w, wait, planned)
			jitter[planned*100/wait] = true
			due = append(due, w.nextAttempt(uuid, sub.ID, sink, n+2))
		}
		require.Greater(w.t, len(jitter), 1, "every wait is as far off the schedule as the others")
		e := w.awaitEvent(uuid, "dead_letter")
		d := e.delivery(w, sub.ID)
		require.Equal(w.t, "dead", d.Status)
		require.Equal(w.t, 9, d.AttemptCount)
		require.Equal(w.t, "unexpected_status", d.LastError.Code)
		require.Equal(w.t, http.StatusInternalServerError, *d.LastHTTPStatus)
		require.Equal(w.t, sub.ID, e.LastError.SubscriptionID)
		require.Nil(w.t, d.NextAttemptAt)

		list := w.attempts(uuid)
		require.Len(w.t, list, 9)
		for i, a := range list {
			require.Equal(w.t, i+1, a.Number)
			require.Equal(w.t, "failed", a.Outcome)
			if i > 0 {
				require.False(w.t, a.StartedAt.Before(due[i-1]), "a try before its time")
			}
			r := sink.all()[i]
			verify(w, sub.SigningSecret, r)
			require.Equal(w.t, uuid, r.header.Get("Webhook-Id"))
			require.Equal(w.t, strconv.Itoa(i+1), r.header.Get("Sallyport-Attempt"))
			require.Equal(w.t, strconv.FormatBool(i < 8), r.header.Get("Sallyport-Will-Retry"))
			require.Equal(w.t, strconv.FormatInt(a.StartedAt.Unix(), 10), r.header.Get("Webhook-Timestamp"),
				"each try is signed anew")
		}
		require.Equal(w.t, 9, sink.count())
	})
}

// An empty schedule is one attempt.
func TestNoRetries(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusBadRequest))
		w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{}})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		require.Equal(w.t, 1, w.awaitEvent(uuid, "dead_letter").AttemptCount)
		require.Equal(w.t, "false", sink.all()[0].header.Get("Sallyport-Will-Retry"))
	})
}

// A receiver that asks for time gets it: the later of its wish and the schedule, but no more than an hour, and only
// with the statuses that RFC 9110 and RFC 6585 give it for.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		for _, c := range []struct {
			name     string
			status   int
			value    string
			schedule float64
			want     time.Duration // 0: the schedule's
		}{
			{"seconds", http.StatusTooManyRequests, "120", 1, 2 * time.Minute},
			{"a date", http.StatusServiceUnavailable, start().Add(90 * time.Second).UTC().Format(http.TimeFormat), 1,
				89110 * time.Millisecond},
			{"too long", http.StatusServiceUnavailable, "172800", 1, time.Hour},
			{"less than the schedule", http.StatusTooManyRequests, "1", 100, 0},
			{"the past", http.StatusTooManyRequests, "Mon, 02 Jan 2006 15:04:05 GMT", 100, 0},
			{"nonsense", http.StatusTooManyRequests, "soon", 100, 0},
			{"below zero", http.StatusTooManyRequests, "-5", 100, 0},
			{"another status", http.StatusInternalServerError, "1000", 100, 0},
		} {
			w.run(c.name, func(w *world) {
				sink := newReceiver(w.t, func(rw http.ResponseWriter, _ int) {
					rw.Header().Set("Retry-After", c.value)
					rw.WriteHeader(c.status)
				})
				sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{c.schedule}})
				uuid := w.fresh("acme", github(issueOpened))
				d := w.awaitDelivery(uuid, sub.ID, "retry_wait")
				wait := d.NextAttemptAt.Sub(d.LastError.At)
				if c.want == 0 {
					within(w, time.Duration(c.schedule*float64(time.Second)), wait)
				} else {
					require.Equal(w.t, c.want, wait)
				}
				w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusNoContent)
			})
		}
	})
}

// 410 means that the receiver wants no more: the delivery is dead immediately and the subscription disabled, with the
// reason, until a user enables it. Later events wait.
func TestGoneDisables(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, statuses(http.StatusGone, http.StatusOK))
		sub := w.subscribe(sink.url)
		w.connectGitHub("acme")
		first := w.fresh("acme", github(issueOpened))
		e := w.awaitEvent(first, "dead_letter")
		require.Equal(w.t, "gone", e.LastError.Code)
		require.Equal(w.t, 1, e.AttemptCount)
		var now subscription
		await.Condition(w.t, "the subscription disabled", func() bool {
			w.call(w.dev(), http.MethodGet, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusOK).into(w, &now)
			return !now.Enabled
		})
		require.Contains(w.t, *now.DisabledReason, "410")

		second := w.fresh("acme", github(`{"action":"closed"}`))
		require.Equal(w.t, "held", w.event(second).delivery(w, sub.ID).Status)
		require.Equal(w.t, "received", w.event(second).Status)
		require.Nil(w.t, w.patchSubscription(sub.ID, object{"enabled": true}).DisabledReason)
		w.ticking("the held delivery", func() bool { return sink.count() == 2 })
		w.awaitEvent(second, "forwarded")
		require.Equal(w.t, "dead_letter", w.event(first).Status)
	})
}

// A redirect is a failure: the receiver cannot send the event elsewhere.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		elsewhere := newReceiver(w.t, status(http.StatusOK))
		sink := newReceiver(w.t, func(rw http.ResponseWriter, n int) {
			rw.Header().Set("Location", elsewhere.url)
			rw.WriteHeader([]int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
				http.StatusNotModified}[n-1])
		})
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{1, 1, 1}})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		for n := 2; n <= 4; n++ {
			w.nextAttempt(uuid, sub.ID, sink, n)
		}
		w.awaitEvent(uuid, "dead_letter")
		for _, a := range w.attempts(uuid) {
			require.Equal(w.t, "redirect_refused", a.Error.Code)
		}
		require.Zero(w.t, elsewhere.count())
	})
}

// A receiver that does not respond in time has failed, and the record says so without a status.
func TestTimeout(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newHanging(w.t, http.StatusOK)
		w.subscribe(sink.url, object{"timeout_ms": 1000, "retry_schedule_seconds": []float64{}})
		dead := newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(strings.Replace(dead.url, "127.0.0.1", "127.0.0.2", 1),
			object{"retry_schedule_seconds": []float64{}})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		var e event
		await.Condition(w.t, "both tries", func() bool {
			e = w.event(uuid)
			return e.AttemptCount == 2
		})
		require.Equal(w.t, "dead_letter", e.Status)
		for _, d := range e.Deliveries {
			want := "timeout"
			if d.SubscriptionID == sub.ID {
				want = "connection_refused" // nothing listens there
			}
			require.Equal(w.t, want, d.LastError.Code)
			require.Nil(w.t, d.LastHTTPStatus)
		}
		for _, a := range w.attempts(uuid) {
			require.Nil(w.t, a.Response)
			require.NotContains(w.t, a.Error.Message, "127.0.0")
		}
	})
}

// A receiver's response is kept up to 16 KiB, and the record says whether there was more.
func TestResponseIsCapped(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const kept = 16 << 10
		w.connectGitHub("acme")
		for _, c := range []struct {
			name, body, shown, encoding string
			truncated                   bool
		}{
			{"as much as is kept", strings.Repeat("x", kept), strings.Repeat("x", kept), "text", false},
			{"one more", strings.Repeat("x", kept+1), strings.Repeat("x", kept), "text", true},
			{"far more", strings.Repeat("x", 1<<20), strings.Repeat("x", kept), "text", true},
			{"a character cut in two", strings.Repeat("x", kept-1) + "é", strings.Repeat("x", kept-1), "text", true},
			{"no text", "\x00\xff", "AP8=", "base64", false},
			{"NUL", "a\x00b", "a\x00b", "text", false},
		} {
			w.run(c.name, func(w *world) {
				sink := newReceiver(w.t, func(rw http.ResponseWriter, _ int) {
					rw.Header().Set("X-Odd", "\xff")
					_, _ = rw.Write([]byte(c.body)) // the sender may have enough before the end
				})
				sub := w.subscribe(sink.url)
				uuid := w.fresh("acme", github(issueOpened))
				w.awaitDelivery(uuid, sub.ID, "succeeded")
				a := w.attempts(uuid)[0]
				require.Equal(w.t, c.shown, a.Response.Body)
				require.Equal(w.t, c.encoding, a.Response.BodyEncoding)
				require.Equal(w.t, c.truncated, a.Response.Truncated)
				w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusNoContent)
			})
		}
	})
}
