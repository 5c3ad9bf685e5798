package crash_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
)

// ledger compares, life by life, what arrived at the receiver with what the database holds.
type ledger struct {
	w *world
	// read is how many arrivals have been compared.
	read int
	// seen holds every attempt that arrived, with whether any of its arrivals got a response of success.
	seen map[attemptKey]bool
	// open are the attempts that had arrived without a recorded outcome when the last life ended: those that may be sent
	// again, once.
	open map[attemptKey]bool
	// arrived are the attempts that came in the last life.
	arrived map[attemptKey]bool
	// ended are the deliveries that had ended by then: none of them may be sent again.
	ended map[deliveryKey]bool
	// leases counts, for each delivery, the lives in a row that ended while they held its lease.
	leases map[deliveryKey]int
	// duplicates is the number of arrivals so far that duplicated an attempt.
	duplicates int
}

func newLedger(w *world) *ledger {
	return &ledger{w: w, seen: map[attemptKey]bool{}, open: map[attemptKey]bool{}, ended: map[deliveryKey]bool{},
		leases: map[deliveryKey]int{}}
}

// delivery is a row of the database.
type delivery struct {
	status     string
	generation int64
	attempts   int64
	failure    sql.NullString
}

// attempt is the record of an attempt.
type attempt struct {
	outcome string
	status  sql.NullInt64
}

// books is the content of the database.
type books struct {
	deliveries map[deliveryKey]delivery
	attempts   map[attemptKey]attempt
	// forwardable holds the events that are no duplicates, by uuid, with their provider's id.
	forwardable map[string]string
}

// close compares a life that has just ended. leased is whether deliveries in progress may still be leased to it, as
// after a kill. A server that ends in good order releases everything.
func (l *ledger) close(t *testing.T, leased bool) {
	t.Helper()
	l.w.sink.quiesce(t)
	duplicates := l.compareArrivals(t)
	allowed := len(l.open)
	require.LessOrEqual(t, duplicates, allowed,
		"the duplicates of a life are bounded by what was in flight when the last one ended")
	l.duplicates += duplicates
	d := l.w.database(t)
	b := readBooks(t, d)
	l.checkTransactions(t, d)
	require.NoError(t, d.Close())
	l.checkAcknowledged(t, b)
	l.checkAttempts(t, b)
	l.note(t, b, leased)
}

// compareArrivals checks the arrivals since the last comparison against those that it permits, and returns how many
// duplicated an attempt.
func (l *ledger) compareArrivals(t *testing.T) (duplicates int) {
	t.Helper()
	now := map[attemptKey]bool{}
	l.arrived = now
	arrivals := l.w.sink.since(l.read)
	l.read += len(arrivals)
	for _, a := range arrivals {
		require.False(t, now[a.attemptKey], "attempt %v arrived twice in one life of the server", a.attemptKey)
		now[a.attemptKey] = true
		require.False(t, l.ended[a.deliveryKey], "attempt %v arrived after its delivery had ended", a.attemptKey)
		if _, again := l.seen[a.attemptKey]; again {
			require.True(t, l.open[a.attemptKey], "attempt %v arrived again after its outcome had been recorded", a.attemptKey)
			duplicates++
		}
		l.seen[a.attemptKey] = l.seen[a.attemptKey] || a.status == 200
	}
	return duplicates
}

func readBooks(t *testing.T, d *db.DB) books {
	t.Helper()
	b := books{deliveries: map[deliveryKey]delivery{}, attempts: map[attemptKey]attempt{},
		forwardable: map[string]string{}}
	each(t, d, `SELECT event_uuid, subscription_id, status, generation, attempt_count, last_error FROM deliveries`,
		func(r *sql.Rows) error {
			var k deliveryKey
			var v delivery
			err := r.Scan(&k.event, &k.subscription, &v.status, &v.generation, &v.attempts, &v.failure)
			b.deliveries[k] = v
			return err
		})
	each(t, d, `SELECT event_uuid, subscription_id, number, outcome, http_status FROM delivery_attempts`,
		func(r *sql.Rows) error {
			var k attemptKey
			var v attempt
			err := r.Scan(&k.event, &k.subscription, &k.number, &v.outcome, &v.status)
			_, twice := b.attempts[k]
			require.False(t, twice, "one attempt is recorded once: %v", k)
			b.attempts[k] = v
			return err
		})
	each(t, d, `SELECT event_uuid, idempotency_key FROM webhook_events WHERE duplicate_of IS NULL`,
		func(r *sql.Rows) error {
			var uuid, key string
			err := r.Scan(&uuid, &key)
			b.forwardable[uuid] = key
			return err
		})
	return b
}

func each(t *testing.T, d *db.DB, query string, scan func(*sql.Rows) error) {
	t.Helper()
	rows, err := d.Read().QueryContext(t.Context(), query) //nolint:rowserrcheck // Each checks it
	require.NoError(t, err)
	require.NoError(t, db.Each(rows, scan))
}

// checkTransactions requires that what one transaction writes is there together, whenever the server ended.
func (l *ledger) checkTransactions(t *testing.T, d *db.DB) {
	t.Helper()
	for what, query := range map[string]string{
		"one key gives one forwardable event": `SELECT COUNT(*) FROM (SELECT idempotency_key FROM webhook_events
			WHERE duplicate_of IS NULL GROUP BY connection_uuid, idempotency_key HAVING COUNT(*) > 1) q`,
		"a duplicate names an event that is there": `SELECT COUNT(*) FROM webhook_events e WHERE e.duplicate_of IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM webhook_events o WHERE o.event_uuid = e.duplicate_of AND o.duplicate_of IS NULL)`,
		"a duplicate is not forwarded": `SELECT COUNT(*) FROM webhook_events e WHERE e.duplicate_of IS NOT NULL
			AND EXISTS (SELECT 1 FROM deliveries d WHERE d.event_uuid = e.event_uuid)`,
		"an event has its payload": `SELECT COUNT(*) FROM webhook_events e WHERE e.duplicate_of IS NULL
			AND NOT EXISTS (SELECT 1 FROM webhook_event_payloads p WHERE p.event_uuid = e.event_uuid)`,
		"a delivery belongs to an event": `SELECT COUNT(*) FROM deliveries d
			WHERE NOT EXISTS (SELECT 1 FROM webhook_events e WHERE e.event_uuid = d.event_uuid)`,
		"an event's counters are those of its deliveries": `SELECT COUNT(*) FROM webhook_events e
			LEFT JOIN (SELECT d.event_uuid,
			SUM(CASE WHEN d.status = 'sending' THEN 1 ELSE 0 END) AS sending, SUM(CASE WHEN d.status = 'pending' THEN 1
			ELSE 0 END) AS pending,
			SUM(CASE WHEN d.status = 'retry_wait' THEN 1 ELSE 0 END) AS retry_wait, SUM(CASE WHEN d.status = 'dead' THEN 1
			ELSE 0 END) AS dead,
			SUM(CASE WHEN d.status = 'succeeded' THEN 1 ELSE 0 END) AS succeeded, SUM(d.attempt_count) AS attempts
			FROM deliveries d GROUP BY d.event_uuid) s ON s.event_uuid = e.event_uuid
			WHERE e.n_sending <> COALESCE(s.sending, 0) OR e.n_pending <> COALESCE(s.pending, 0)
			OR e.n_retry_wait <> COALESCE(s.retry_wait, 0)
			OR e.n_dead <> COALESCE(s.dead, 0) OR e.n_succeeded <> COALESCE(s.succeeded, 0)
			OR e.attempt_count <> COALESCE(s.attempts, 0)`,
	} {
		var exceptions int
		require.NoError(t, d.Read().QueryRowContext(t.Context(), query).Scan(&exceptions), what)
		require.Zero(t, exceptions, what)
	}
}

// checkAcknowledged requires that every acknowledged event is there, under its provider's id, with a delivery to each
// subscription, and that the same holds for events whose acknowledgement was lost on the way.
func (l *ledger) checkAcknowledged(t *testing.T, b books) {
	t.Helper()
	for guid, event := range l.w.sender.acknowledgedEvents() {
		require.Equal(t, guid, b.forwardable[event], "acknowledged event %s", event)
	}
	perEvent := map[string]int{}
	for k := range b.deliveries {
		perEvent[k.event]++
	}
	for event := range b.forwardable {
		require.Equal(t, receivers, perEvent[event], "deliveries of event %s", event)
	}
}

// checkAttempts requires that the recorded attempts were made and ended as the record says, and that they are numbered
// without gaps, with a success only at the end.
func (l *ledger) checkAttempts(t *testing.T, b books) {
	t.Helper()
	count := map[deliveryKey]int64{}
	for k, a := range b.attempts {
		success, arrived := l.seen[k]
		require.True(t, arrived, "attempt %v is on record and never arrived", k)
		d := b.deliveries[k.deliveryKey]
		switch a.outcome {
		case "succeeded":
			require.True(t, success, "attempt %v is on record as a success that the receiver never gave", k)
			require.Equal(t, "succeeded", d.status, "attempt %v", k)
			require.Equal(t, d.attempts, k.number, "attempt %v is a success and not the last", k)
		default:
			require.Equal(t, "failed", a.outcome, "attempt %v", k)
			require.EqualValues(t, 500, a.status.Int64, "attempt %v", k)
		}
		count[k.deliveryKey]++
	}
	for k, d := range b.deliveries {
		require.Equal(t, d.attempts, count[k], "recorded attempts of delivery %v", k)
		require.EqualValues(t, 1, d.generation, "delivery %v", k)
	}
}

// note remembers how the life ended, for the next comparison.
func (l *ledger) note(t *testing.T, b books, leased bool) {
	t.Helper()
	l.open = map[attemptKey]bool{}
	for k := range l.seen {
		if _, recorded := b.attempts[k]; recorded {
			continue
		}
		l.open[k] = true
		d, exists := b.deliveries[k.deliveryKey]
		require.True(t, exists, "attempt %v was sent before its delivery was stored", k)
		require.Equal(t, d.attempts+1, k.number, "attempt %v was sent out of turn", k)
		if leased {
			states := []string{"sending", "dead"}
			if !l.arrived[k] { // the last life has taken it back from the one before, and may have ended right after that
				states = append(states, "pending", "retry_wait")
			}
			require.Contains(t, states, d.status, "attempt %v was sent without a lease", k)
		}
	}
	for k, d := range b.deliveries {
		switch d.status {
		case "sending":
			require.True(t, leased, "delivery %v is still leased", k)
			l.leases[k]++
		case "succeeded", "dead":
			l.ended[k] = true
		default:
			delete(l.leases, k)
		}
	}
}

// maxLeasesLost is how many leases in a row a delivery may lose before it dies as worker_lost.
const maxLeasesLost = 5

// checkEnded requires that every delivery has ended: with a success, or with a reason that is true.
func (l *ledger) checkEnded(t *testing.T) {
	t.Helper()
	d := l.w.database(t)
	b := readBooks(t, d)
	require.NoError(t, d.Close())
	require.NotEmpty(t, b.deliveries)
	for k, row := range b.deliveries {
		if row.status == "succeeded" {
			continue
		}
		require.Equal(t, "dead", row.status, "delivery %v", k)
		require.True(t, row.failure.Valid, "delivery %v is dead without a reason", k)
		if row.attempts == maxAttempts {
			require.Contains(t, row.failure.String, `"unexpected_status"`, "delivery %v", k)
			continue
		}
		require.Contains(t, row.failure.String, `"worker_lost"`, "delivery %v", k)
		require.GreaterOrEqual(t, l.leases[k], maxLeasesLost, "delivery %v lost fewer leases than that", k)
	}
}
