package e2e_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

type statCounts struct {
	Attempts      struct{ Succeeded, Failed, Superseded int }
	Deliveries    struct{ Succeeded, Dead, Cancelled int }
	Duration      *struct{ P50, P95, P99 float64 } `json:"attempt_duration_ms"`
	TimeToSuccess *struct{ P50, P95, P99 float64 } `json:"time_to_success_ms"`
}

type subscriptionStats struct {
	From, To time.Time
	Open     struct {
		Pending   int
		RetryWait int `json:"retry_wait"`
		Held      int
	}
	Total   statCounts
	Buckets []struct {
		Start time.Time
		statCounts
	}
}

func (w *world) stats(subscriptionID, query string) (s subscriptionStats) {
	w.t.Helper()
	w.call(w.dev(), http.MethodGet, "/webhook-subscriptions/"+subscriptionID+"/stats"+query, nil).want(w,
		http.StatusOK).into(w, &s)
	return s
}

// Statistics show the outcome and the time of a subscription's deliveries, as the recorded attempts do.
func TestSubscriptionStats(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, statuses(http.StatusOK, http.StatusServiceUnavailable, http.StatusOK,
			http.StatusServiceUnavailable))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{3600}})
		w.connectGitHub("acme")
		w.awaitEvent(w.fresh("acme", github(issueOpened)), "forwarded")
		received := w.clk.Now()
		second := w.fresh("acme", github(`{"action":"closed"}`))
		w.awaitDelivery(second, sub.ID, "retry_wait")
		s := w.stats(sub.ID, "")
		require.Len(w.t, s.Buckets, 25)
		require.Equal(w.t, []int{1, 1, 0}, []int{s.Total.Attempts.Succeeded, s.Total.Attempts.Failed,
			s.Total.Attempts.Superseded})
		require.Equal(w.t, []int{0, 1, 0}, []int{s.Open.Pending, s.Open.RetryWait, s.Open.Held})
		require.NotNil(w.t, s.Total.TimeToSuccess)
		require.Equal(w.t, 1, s.Buckets[24].Attempts.Failed)
		require.Equal(w.t, start().Truncate(time.Hour), s.Buckets[24].Start)

		w.minutes("the second try", func() bool { return w.event(second).Status == "forwarded" })
		waited := w.clk.Now().Sub(received) // an hour, or more where the clock outruns the server
		third := w.fresh("acme", github(`{"action":"reopened"}`))
		w.awaitDelivery(third, sub.ID, "retry_wait")
		w.minutes("the third event's end", func() bool { return w.event(third).Status == "dead_letter" })
		w.patchSubscription(sub.ID, object{"enabled": false})
		held := w.fresh("acme", github(`{"action":"edited"}`))
		w.expunge(held).want(w, http.StatusNoContent)
		s = w.stats(sub.ID, "?bucket=day&from="+url.QueryEscape(start().Format(time.RFC3339Nano)))
		require.Len(w.t, s.Buckets, 1)
		require.Equal(w.t, s.Total, s.Buckets[0].statCounts)
		require.Equal(w.t, []int{2, 3, 0}, []int{s.Total.Attempts.Succeeded, s.Total.Attempts.Failed,
			s.Total.Attempts.Superseded})
		require.Equal(w.t, []int{2, 1, 1}, []int{s.Total.Deliveries.Succeeded, s.Total.Deliveries.Dead,
			s.Total.Deliveries.Cancelled})
		const precision = 0.35
		p99 := time.Duration(s.Total.TimeToSuccess.P99) * time.Millisecond
		require.Greater(w.t, p99.Hours(), 1-precision, "the second event waited an hour")
		require.Less(w.t, p99.Hours(), (1+precision)*waited.Hours())

		path := "/webhook-subscriptions/" + sub.ID + "/stats"
		require.Equal(w.t, []string{"query.from order"}, w.call(w.dev(), http.MethodGet, path+
			"?from=2026-03-04T00:00:00Z&to=2026-03-03T00:00:00Z", nil).violations(w))
		require.Equal(w.t, []string{"query.from range"}, w.call(w.dev(), http.MethodGet, path+"?from=2025-01-01T00:00:00Z",
			nil).violations(w))
		require.Equal(w.t, []string{"query.from kept"}, w.call(w.dev(), http.MethodGet,
			path+"?bucket=minute&from=2026-03-01T00:00:00Z&to=2026-03-01T01:00:00Z", nil).violations(w))
		require.ElementsMatch(w.t, []string{"query.bucket enum", "query.from order"},
			w.call(w.dev(), http.MethodGet, path+"?bucket=week&from=2026-03-04T00:00:00Z&to=2026-03-03T00:00:00Z",
				nil).violations(w))
		require.NotEmpty(w.t, w.call(w.dev(), http.MethodGet, path+"?from=yesterday", nil).violations(w))
		w.call(w.user(w.environment("production")), http.MethodGet, path, nil).refused(w, http.StatusNotFound,
			apperr.CodeNotFound)
	})
}
