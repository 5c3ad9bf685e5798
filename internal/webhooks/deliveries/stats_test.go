package deliveries

import (
	"database/sql"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// A percentile is within a tenth of the one by nearest rank over the durations themselves, however they are spread.
func TestPercentiles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		exact := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) time.Duration {
			return time.Duration(math.Exp2(rapid.Float64Range(0, 45).Draw(rt, "log"))) * time.Microsecond
		}), 1, 300).Draw(rt, "durations")
		classes := map[int64]int64{}
		for _, d := range exact {
			classes[classOf(d)]++
		}
		classes[noDuration] = 7
		slices.Sort(exact)
		got := percentiles(classes)
		for percent, d := range map[int]time.Duration{50: got.P50, 95: got.P95, 99: got.P99} {
			want := exact[(len(exact)*percent+99)/100-1]
			require.InEpsilon(rt, want.Microseconds(), float64(d)/float64(time.Microsecond), 0.1, "p%d", percent)
		}
	})
	require.Nil(t, percentiles(nil))
	require.Nil(t, percentiles(map[int64]int64{noDuration: 3}))
	require.Zero(t, classOf(0))
	require.Zero(t, classOf(time.Microsecond))
}

// attempted stores the outcome of a new delivery's attempt, made after the wait and lasting so long, and returns the
// delivery as it then stands.
func (w *world) attempted(t *testing.T, sub string, wait, took time.Duration, failure *Failure) Delivery {
	t.Helper()
	e, d := w.event(Delivery{Status: Sending, ClaimID: "claim", Due: w.clock.Now().Add(time.Hour)}, sub)
	w.insertAs(t, e, []Delivery{d})
	d.CreatedAt = w.clock.Now()
	w.clock.Advance(wait)
	r := w.result(d, outcome{At: w.clock.Now().Add(took), Failure: failure})
	r.attempt.StartedAt, r.attempt.Timings = w.clock.Now(), egress.Timings{Total: took}
	require.NoError(t, w.recorder.storeResults(t.Context(), []*result{r}))
	return r.next
}

func (w *world) stats(t *testing.T, sub string, r StatsRequest) Stats {
	t.Helper()
	s, err := w.Stats(t.Context(), access.Whole(w.env), sub, r)
	require.NoError(t, err)
	return s
}

// Events are counted in the bucket of their time, once, for their own subscription. Empty buckets are listed too, and
// waiting deliveries are counted as they are.
func TestStats(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub, other := w.subscription(), w.subscription()
		failure := &Failure{Code: codeUnexpectedStatus, Message: "m", At: w.clock.Now()}
		w.attempted(t, sub, time.Second, 100*time.Millisecond, nil)
		w.attempted(t, sub, 0, 100*time.Millisecond, nil)
		w.attempted(t, sub, 0, time.Second, failure)
		w.attempted(t, other, 0, time.Minute, nil)
		w.clock.Advance(2 * time.Hour)
		w.attempted(t, sub, 0, 0, failure) // refused before anything was sent
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			return w.store.Control().Cancel(t.Context(), tx, w.env, sub, w.clock.Now())
		}))
		_, waiting := w.event(Delivery{Status: Held}, sub)
		w.insert(t, []events.NewEvent{{Event: events.Event{UUID: waiting.EventUUID, Environment: w.env, Verification: "{}"},
			Counters: waiting.counters()}}, []Delivery{waiting})

		s := w.stats(t, sub, StatsRequest{Bucket: ByHour, From: new(testTime()),
			To: new(testTime().Add(2*time.Hour + time.Minute))})
		require.Equal(t, []time.Time{testTime(), testTime().Add(3 * time.Hour)}, []time.Time{s.From, s.To})
		require.Equal(t, map[Status]int64{Pending: 0, RetryWait: 0, Held: 1}, s.Open)
		require.Len(t, s.Buckets, 3)
		counts := func(c Counts) []int64 { return []int64{c.Succeeded, c.Failed, c.Superseded, c.Dead, c.Cancelled} }
		require.Equal(t, []int64{2, 1, 0, 0, 0}, counts(s.Buckets[0].Counts))
		require.Equal(t, []int64{0, 0, 0, 0, 0}, counts(s.Buckets[1].Counts))
		require.Equal(t, []int64{0, 1, 0, 0, 2}, counts(s.Buckets[2].Counts))
		require.Equal(t, []int64{2, 2, 0, 0, 2}, counts(s.Total))
		require.InEpsilon(t, 100*time.Millisecond, s.Total.Duration.P50, 0.1)
		require.InEpsilon(t, time.Second, s.Total.Duration.P99, 0.1)
		require.InEpsilon(t, 100*time.Millisecond, s.Total.TimeToSuccess.P50, 0.1)
		require.InEpsilon(t, 1100*time.Millisecond, s.Total.TimeToSuccess.P95, 0.1)
		require.Nil(t, s.Buckets[1].Duration)
		require.Nil(t, s.Buckets[2].Duration)

		byDay := w.stats(t, sub, StatsRequest{Bucket: ByDay})
		require.Len(t, byDay.Buckets, 31)
		require.Equal(t, s.Total, byDay.Total)
		require.Equal(t, s.Total, byDay.Buckets[30].Counts)
		byMinute := w.stats(t, sub, StatsRequest{Bucket: ByMinute, From: new(testTime())})
		require.Equal(t, s.Total, byMinute.Total)
		require.EqualValues(t, 2, byMinute.Buckets[0].Succeeded)
		require.Len(t, w.stats(t, sub, StatsRequest{Bucket: ByMinute}).Buckets, 61, "an hour and the minute that has begun")
		require.Len(t, w.stats(t, sub, StatsRequest{}).Buckets, 25)

		_, err := w.Stats(t.Context(), access.Whole(w.env), id.New(id.PrefixSubscription), StatsRequest{})
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		foreign, err := w.store.stats(t.Context(), w.db.Read(), id.Environment(id.New(id.PrefixEnvironment)), sub, s.From,
			s.To, time.Hour)
		require.NoError(t, err)
		require.Empty(t, foreign)
		open, err := w.store.countOpen(t.Context(), w.db.Read(), id.Environment(id.New(id.PrefixEnvironment)), sub)
		require.NoError(t, err)
		require.Zero(t, open[Held])
	})
}

// A replay that succeeds says nothing of how long a delivery takes; a lost lease's try is counted as superseded, and no
// outcome that is stored twice is counted twice.
func TestStatsOfUnusualAttempts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.subscription()
		d := w.attempted(t, sub, 0, time.Millisecond, nil)
		w.clock.Advance(time.Hour)
		_, err := w.Replay(t.Context(), w.anybody(), d.EventUUID, ReplayRequest{Force: true})
		require.NoError(t, err)
		leased := w.claim(t, w.clock.Now(), 1, sub)
		again, lost := w.result(leased[0], outcome{At: w.clock.Now()}), w.result(leased[0], outcome{At: w.clock.Now()})
		for range 2 {
			require.NoError(t, w.recorder.storeResults(t.Context(), []*result{again}))
		}
		require.NoError(t, w.recorder.storeResults(t.Context(), []*result{lost}))
		s := w.stats(t, sub, StatsRequest{})
		require.Equal(t, []int64{2, 0, 1}, []int64{s.Total.Succeeded, s.Total.Failed, s.Total.Superseded})
		require.InEpsilon(t, time.Millisecond, s.Total.TimeToSuccess.P99, 0.1)
	})
}

// Ranges that are empty, too long, or further back than minutes are kept are refused at their place.
func TestStatsRanges(t *testing.T) {
	t.Parallel()
	now := testTime()
	at := func(d time.Duration) *time.Time { return new(now.Add(d)) }
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		r     StatsRequest
		fault string
	}{
		"nothing":              {StatsRequest{}, ""},
		"backwards":            {StatsRequest{From: at(0), To: at(-time.Second), Bucket: ByHour}, "query.from order"},
		"empty":                {StatsRequest{From: at(0), To: at(0), Bucket: ByHour}, "query.from order"},
		"begins in the future": {StatsRequest{From: at(time.Hour), Bucket: ByHour}, "query.from order"},
		"a month of hours":     {StatsRequest{From: at(-31 * day), Bucket: ByHour}, ""},
		"more than a month":    {StatsRequest{From: at(-31*day - 1), Bucket: ByHour}, "query.from range"},
		"a year of days":       {StatsRequest{From: at(-366 * day), Bucket: ByDay}, ""},
		"more than a year":     {StatsRequest{From: at(-366*day - 1), Bucket: ByDay}, "query.from range"},
		"a day of minutes":     {StatsRequest{From: at(-day), Bucket: ByMinute}, ""},
		"minutes of yesterday": {StatsRequest{From: at(-25 * time.Hour), To: at(-24 * time.Hour), Bucket: ByMinute},
			"query.from kept"},
		"more than a day": {StatsRequest{From: at(-day - 1), To: at(0), Bucket: ByMinute},
			"query.from range query.from kept"},
		"the far future":        {StatsRequest{From: at(0), To: at(32 * day), Bucket: ByDay}, ""},
		"the very far future":   {StatsRequest{From: at(366 * day), To: at(367 * day), Bucket: ByDay}, "query.to range"},
		"long ago, by the hour": {StatsRequest{To: at(-1000 * day), Bucket: ByHour}, ""},
	} {
		_, _, err := c.r.resolve(now)
		if c.fault == "" {
			require.NoError(t, err, name)
			continue
		}
		var e *apperr.Error
		require.ErrorAs(t, err, &e, name)
		var got []string
		for _, d := range e.Details {
			got = append(got, d.Location+" "+d.Rule)
		}
		require.Equal(t, c.fault, strings.Join(got, " "), name)
	}
}

// Statistics are read by the primary key, so that what they cost follows the range and not the history, on SQLite by
// its plan and on PostgreSQL by what it reads.
func TestStatsPlan(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.subscription()
		counted := tally{}
		for n := range 4000 {
			counted.add(w.env, []string{sub, "other"}[n%2], testTime().Add(-time.Duration(n)*time.Minute), measureFailed,
				int64(n%10))
		}
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := w.db.ExecAll(t.Context(), tx, counted.statement(statMinute))
			return err
		}))
		if store.DB.Engine() == db.SQLite {
			plan := explain(t, store, `SELECT s.start_ms - s.start_ms % $5, s.measure, s.class, CAST(SUM(s.n) AS bigint)
				FROM delivery_stats s
				WHERE s.subscription_id = $1 AND s.environment_id = $2 AND s.width_ms IN ($6, $7) AND s.start_ms >= $3
				AND s.start_ms < $4
				GROUP BY 1, 2, 3`, sub, string(w.env), 1, 2, 3, 4, 5)
			require.Contains(t, plan, "USING PRIMARY KEY (subscription_id=? AND width_ms=? AND start_ms>? AND start_ms<?)")
			require.NotContains(t, plan, "SCAN")
			return
		}
		_, err := store.DB.Write().ExecContext(t.Context(), "ANALYZE delivery_stats")
		require.NoError(t, err)
		before := readsOf(t, store, "delivery_stats")
		s := w.stats(t, sub, StatsRequest{})
		require.Positive(t, s.Total.Failed)
		require.Equal(t, before, readsOf(t, store, "delivery_stats"))
	})
}

func explain(t *testing.T, store testkit.Store, query string, args ...any) string {
	t.Helper()
	rows, err := store.DB.Read().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err)
	var plan []string
	require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := r.Scan(&id, &parent, &unused, &detail)
		plan = append(plan, detail)
		return err
	}))
	return strings.Join(plan, "\n")
}

// readsOf returns how many rows of a table PostgreSQL has read without an index, on the connections for reading.
func readsOf(t *testing.T, store testkit.Store, table string) (n int64) {
	t.Helper()
	store.DB.Read().SetMaxOpenConns(1) // its statistics are all there are
	_, err := store.DB.Read().ExecContext(t.Context(), "SELECT pg_stat_force_next_flush()")
	require.NoError(t, err)
	require.NoError(t, store.DB.Read().QueryRowContext(t.Context(),
		"SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = $1", table).Scan(&n))
	return n
}
