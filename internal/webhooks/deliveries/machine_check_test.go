package deliveries

import (
	"database/sql"
	"slices"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/webhooks/events"
)

// ending is how something ended.
type ending int

const (
	notTried ending = iota
	wentWell
	wentWrong
)

// status is the event's status by the table of docs/arch/states.md, over its deliveries and how their last attempts
// ended. It knows nothing of counters.
func (m *machine) status(list []Delivery) events.Status {
	anyIs := func(states ...Status) bool {
		return slices.ContainsFunc(list, func(d Delivery) bool { return slices.Contains(states, d.Status) })
	}
	tried := slices.ContainsFunc(list, func(d Delivery) bool { return m.last[d.Key] != notTried })
	heldAfterFailure := slices.ContainsFunc(list, func(d Delivery) bool {
		return d.Status == Held && m.last[d.Key] == wentWrong
	})
	switch {
	case !tried && !anyIs(Sending):
		return events.Received
	case anyIs(Sending, Pending):
		return events.Forwarding
	case anyIs(RetryWait), heldAfterFailure:
		return events.Failed
	case anyIs(Dead):
		return events.DeadLetter
	case anyIs(Succeeded):
		return events.Forwarded
	default:
		return events.Failed
	}
}

// check compares the database with the model, and every event's status with the function of its deliveries.
func (m *machine) check() {
	ctx := m.t.Context()
	rows, err := m.s.store.query(ctx, m.s.db.Read(), "1 = 1")
	require.NoError(m.rt, err)
	require.Len(m.rt, rows, len(m.model), "one delivery per event and subscription")
	m.checkStats()
	byEvent := map[string][]Delivery{}
	for _, d := range rows {
		want := m.model[d.Key]
		require.Equal(m.rt, want.Status, d.Status, "%v", d.Key)
		require.Equal(m.rt, []int64{want.Generation, want.GenerationAttempts, want.AttemptCount, want.LeasesLost},
			[]int64{d.Generation, d.GenerationAttempts, d.AttemptCount, d.LeasesLost}, "%v", d.Key)
		for _, n := range m.sent[d.Key] {
			require.LessOrEqual(m.rt, n, 1, "one recorded success per generation")
		}
		byEvent[d.EventUUID] = append(byEvent[d.EventUUID], d)
	}
	for event, list := range byEvent {
		e, err := m.s.events.Get(ctx, access.Whole(machineEnvironment), event)
		require.NoError(m.rt, err)
		var sum events.Change
		attempts := int64(0)
		for _, d := range list {
			sum.Merge(events.Change{Counters: d.counters()})
			attempts += d.AttemptCount
		}
		require.Equal(m.rt, m.status(list), e.Status, "the table's status, which the database computed")
		require.Equal(m.rt, events.StatusOf(sum.Counters), e.Status, "the function's status")
		require.Equal(m.rt, attempts, e.AttemptCount)
		var recorded int64
		require.NoError(m.rt, m.s.db.Read().QueryRowContext(ctx, `SELECT COUNT(*) FROM delivery_attempts WHERE event_uuid = $1
			AND outcome <> 'superseded'`, event).Scan(&recorded))
		require.Equal(m.rt, e.AttemptCount, recorded, "every counted try is on record")
	}
}

// checkStats compares the statistics with the recorded attempts and with the ends that the model has seen.
func (m *machine) checkStats() {
	counts := func(query string) map[string]int64 {
		rows, err := m.s.db.Read().QueryContext(m.t.Context(), query)
		require.NoError(m.rt, err)
		out := map[string]int64{}
		require.NoError(m.rt, db.Each(rows, func(r *sql.Rows) error {
			var name string
			var n int64
			err := r.Scan(&name, &n)
			out[name] = n
			return err
		}))
		return out
	}
	m.s.recorder.storeCounts(m.t.Context())
	got := counts("SELECT measure, CAST(SUM(n) AS bigint) FROM delivery_stats GROUP BY measure")
	delete(got, string(measureSuccess))
	want := counts("SELECT outcome, COUNT(*) FROM delivery_attempts GROUP BY outcome")
	for status, n := range m.ended {
		want[string(status)] = n
	}
	require.Equal(m.rt, want, got, "every try and every end is counted once")
}
