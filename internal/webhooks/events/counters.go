package events

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// statusCase is StatusOf in SQL over the new counters: the row's plus the change's.
func statusCase() string {
	n := func(counter string) string { return "(e.n_" + counter + " + v." + counter + ")" }
	return "CASE WHEN " + n("sending") + " = 0 AND " + n("tried") + " = 0 THEN 'received'" +
		" WHEN " + n("sending") + " > 0 OR " + n("pending") + " > 0 THEN 'forwarding'" +
		" WHEN " + n("retry_wait") + " > 0 OR " + n("held_failed") + " > 0 THEN 'failed'" +
		" WHEN " + n("dead") + " > 0 THEN 'dead_letter'" +
		" WHEN " + n("succeeded") + " > 0 THEN 'forwarded'" +
		" ELSE 'failed' END"
}

// changeCounters returns the names of a change's counters, in the order of its values.
func changeCounters() []string {
	return []string{"sending", "pending", "retry_wait", "held", "held_failed", "dead", "succeeded", "cancelled", "tried"}
}

var applyChanges = sync.OnceValue(func() *db.MultiRow { //nolint:gochecknoglobals // a constant statement
	var set strings.Builder
	types := []string{"text", "text"}
	for _, c := range changeCounters() {
		set.WriteString("n_" + c + " = e.n_" + c + " + v." + c + ", ")
		types = append(types, "bigint")
	}
	return &db.MultiRow{
		Before: "WITH v (environment_id, event_uuid, " + strings.Join(changeCounters(), ", ") +
			", attempts, last_error, now_ms) AS (", Types: append(types, "bigint", "text", "bigint"),
		After: ") UPDATE webhook_events AS e SET " + set.String() +
			"attempt_count = e.attempt_count + v.attempts, last_error = COALESCE(v.last_error, e.last_error), updated_ms = " +
			"v.now_ms, " +
			"forwarded_ms = CASE WHEN e.forwarded_ms IS NULL AND " + statusCase() +
			" = 'forwarded' THEN v.now_ms ELSE e.forwarded_ms END, " +
			"failed_ms = CASE WHEN e.failed_ms IS NULL AND " + statusCase() +
			" IN ('failed', 'dead_letter') THEN v.now_ms ELSE e.failed_ms END, " +
			"status = " + statusCase() + " FROM v WHERE e.environment_id = v.environment_id AND e.event_uuid = v.event_uuid",
	}
})

// Apply returns the statement that changes the counters of events, and with them their status, and the number of events
// that it must affect. It merges changes of one event, and adds them to the log, whose statement belongs in the same
// transaction.
func Apply(changes []Change, log *Log) (list int, st db.Statement) {
	changes = mergeByEvent(changes)
	args := make([]any, 0, len(changes)*applyChanges().Columns())
	for i := range changes {
		c := &changes[i]
		log.Updated(c.Environment, c.EventUUID)
		var lastError any
		if c.LastError != "" {
			lastError = c.LastError
		}
		args = append(args, string(c.Environment), c.EventUUID, c.Sending, c.Pending, c.RetryWait, c.Held, c.HeldFailed,
			c.Dead, c.Succeeded, c.Cancelled, c.Attempted, c.Attempts, lastError, clock.Millis(c.At))
	}
	return len(changes), db.Statement{Rows: applyChanges(), Args: args}
}

// mergeByEvent merges the changes of each event and sorts by event, so that concurrent writers lock rows in one order
// where the engine follows ours.
func mergeByEvent(changes []Change) []Change {
	sorted := slices.Clone(changes)
	slices.SortStableFunc(sorted, func(a, b Change) int { return cmp.Compare(a.EventUUID, b.EventUUID) })
	out := sorted[:0]
	for _, c := range sorted {
		if n := len(out); n > 0 && out[n-1].EventUUID == c.EventUUID {
			out[n-1].Merge(c)
			continue
		}
		out = append(out, c)
	}
	return out
}
