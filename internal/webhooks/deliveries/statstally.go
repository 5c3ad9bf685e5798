package deliveries

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Widths of the periods of statistics: minutes at first, hours after StatMinutesKept.
const (
	statMinute = int64(time.Minute / time.Millisecond)
	statHour   = int64(time.Hour / time.Millisecond)
)

// measure names a count.
type measure string

// The measures. The first two have the class of the attempt's duration; measureSuccess has that of the time from the
// event's receipt to the success of a delivery that was not replayed.
const (
	measureSucceeded  measure = "succeeded"
	measureFailed     measure = "failed"
	measureSuperseded measure = "superseded"
	measureSuccess    measure = "time_to_success"
	measureDead       measure = "dead"
	measureCancelled  measure = "cancelled"
)

// classesPerDoubling makes a class a fifth wide, so that its middle is within a tenth of every duration in it.
const classesPerDoubling = 4

// noDuration is the class of an attempt that was refused before a request was sent.
const noDuration = -1

// classOf returns the class of a duration: microseconds on a logarithmic scale.
func classOf(d time.Duration) int64 {
	us := d.Microseconds()
	if us < 1 {
		return 0
	}
	return int64(math.Floor(classesPerDoubling * math.Log2(float64(us))))
}

// middleOf returns the duration in the middle of a class.
func middleOf(class int64) time.Duration {
	return time.Duration(math.Exp2((float64(class)+0.5)/classesPerDoubling) * float64(time.Microsecond))
}

// tallyKey names a row of the statistics.
type tallyKey struct {
	subscriptionID string
	startMillis    int64
	measure        measure
	class          int64
	environment    id.Environment
}

// tally counts the effects of a transaction on deliveries.
type tally map[tallyKey]int64

func (t tally) add(env id.Environment, subscriptionID string, at time.Time, m measure, class int64) {
	ms := clock.Millis(at)
	t[tallyKey{subscriptionID, ms - ms%statMinute, m, class, env}]++
}

// move counts a delivery that has died or was cancelled.
func (t tally) move(m *move, now time.Time) {
	if m.to.Status == m.from.Status {
		return
	}
	switch m.to.Status {
	case Dead:
		t.add(m.to.Environment, m.to.SubscriptionID, now, measureDead, 0)
	case Cancelled:
		t.add(m.to.Environment, m.to.SubscriptionID, now, measureCancelled, 0)
	case Pending, Sending, RetryWait, Held, Succeeded:
	}
}

// addAttempt counts a recorded attempt, at the time when it began.
func (t tally) addAttempt(r *result) {
	a, d := &r.attempt, &r.delivery
	class := int64(noDuration)
	if a.Timings.Total > 0 {
		class = classOf(a.Timings.Total)
	}
	switch a.Outcome {
	case AttemptSucceeded:
		t.add(d.Environment, d.SubscriptionID, a.StartedAt, measureSucceeded, class)
		if r.next.Status == Succeeded && r.next.CompletedAt != nil && d.Generation == 1 {
			t.add(d.Environment, d.SubscriptionID, a.StartedAt, measureSuccess, classOf(r.next.CompletedAt.Sub(d.CreatedAt)))
		}
	case AttemptFailed:
		t.add(d.Environment, d.SubscriptionID, a.StartedAt, measureFailed, class)
	case AttemptSuperseded:
		t.add(d.Environment, d.SubscriptionID, a.StartedAt, measureSuperseded, 0)
	}
}

// split returns the counts in parts of at most n rows.
func (t tally) split(n int) []tally {
	var parts []tally
	for k, v := range t {
		if len(parts) == 0 || len(parts[len(parts)-1]) == n {
			parts = append(parts, tally{})
		}
		parts[len(parts)-1][k] = v
	}
	return parts
}

var countStats = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO delivery_stats (subscription_id, width_ms, start_ms, measure, class, environment_id, n)",
	Types:  []string{"text", "bigint", "bigint", "text", "bigint", "text", "bigint"},
	After: "ON CONFLICT (subscription_id, width_ms, start_ms, measure, class) DO UPDATE SET n = delivery_stats.n + " +
		"excluded.n",
}

// statement adds the counts to the rows of the width, in one order, so that two transactions lock rows alike.
func (t tally) statement(width int64) db.Statement {
	keys := slices.SortedFunc(maps.Keys(t), func(a, b tallyKey) int {
		return cmp.Or(cmp.Compare(a.subscriptionID, b.subscriptionID), cmp.Compare(a.startMillis, b.startMillis),
			cmp.Compare(a.measure, b.measure), cmp.Compare(a.class, b.class))
	})
	args := make([]any, 0, len(keys)*countStats.Columns())
	for _, k := range keys {
		args = append(args, k.subscriptionID, width, k.startMillis, string(k.measure), k.class, string(k.environment), t[k])
	}
	return db.Statement{Rows: countStats, Args: args}
}
