package jobs

import (
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
)

// Table names a domain's table of jobs and the columns that a queue reads and writes. Times are bigint Unix
// milliseconds. Every other column is the domain's. Names and Where are constants: they become SQL text.
type Table struct {
	Name string
	// ID is the primary key, a text.
	ID string
	// Due is when a job may next be claimed. Without Lease it also holds the end of the lease of a claimed job.
	Due string
	// Claim is the text that identifies a claim, empty while no process holds the job. A table without it needs Attempts,
	// which then identifies the claim; leases of an earlier process of the node are not recovered, but expire.
	Claim string
	// Lease is the end of the lease, and 0 while no process holds the job. With it the domain may set Due of a job that it
	// holds. It needs Claim.
	Lease string
	// Attempts counts the claims since the job was last due by its own schedule or saved something; a bigint, 0 at first.
	// Back-off and MaxAttempts need it. Without Claim, what a job saves does not begin the count again.
	Attempts string
	// Lost counts the leases in a row that expired without an outcome; a bigint, 0 at first. MaxLost needs it.
	Lost string
	// Key groups jobs that must not starve others; a text. An index of it and Due serves the claim.
	Key string
	// Progress is JSON text that SaveProgress writes, empty at first.
	Progress string
	// Finished is when the job ended, null until then. Without it the row of a job that ends is deleted.
	Finished string
	// Where is a condition that a row must meet to be claimed; empty for none. Where a partial index serves the claim, it
	// is the predicate of that index word for word, because SQLite requires that.
	Where string
}

// check returns what is missing from the declaration; empty for nothing.
func (t *Table) check() string {
	switch {
	case t.Name == "" || t.ID == "" || t.Due == "":
		return "needs Name, ID and Due"
	case t.Claim == "" && t.Attempts == "":
		return "needs Claim or Attempts"
	case t.Lease != "" && t.Claim == "":
		return "needs Claim for Lease"
	default:
		return ""
	}
}

// query is a statement that is being built. Its text depends on the table's declaration, never on a value.
type query struct {
	text strings.Builder
	args []any
}

// add appends text in which each ? stands for the next value.
func (q *query) add(text string, values ...any) *query {
	for _, v := range values {
		before, after, _ := strings.Cut(text, "?")
		q.args = append(q.args, v)
		q.text.WriteString(before)
		q.text.WriteByte('$')
		q.text.WriteString(strconv.Itoa(len(q.args)))
		text = after
	}
	q.text.WriteString(text)
	return q
}

// String returns the statement's text.
func (q *query) String() string { return q.text.String() }

// addOpen adds the condition of jobs that have not ended and that may be claimed as far as the domain is concerned.
func (t *Table) addOpen(q *query) {
	switch {
	case t.Where != "" && t.Finished != "":
		q.add("(" + t.Where + ") AND " + t.Finished + " IS NULL")
	case t.Where != "":
		q.add("(" + t.Where + ")")
	case t.Finished != "":
		q.add(t.Finished + " IS NULL")
	default:
		q.add(t.ID + " IS NOT NULL")
	}
}

// addFree adds the condition of open jobs that no process holds. They need not be due yet.
func (t *Table) addFree(q *query, now time.Time) {
	t.addOpen(q)
	if t.Lease != "" {
		q.add(" AND ("+t.Claim+" = '' OR "+t.Lease+" <= ?)", clock.Millis(now))
	}
}

// earliest returns the query of the earliest time at which a job can be claimed.
func (t *Table) earliest(now time.Time) *query {
	q := new(query).add("SELECT min(" + t.Due + ") FROM " + t.Name + " WHERE ")
	t.addFree(q, now)
	return q
}

// keys returns the query of up to limit keys that have open jobs, each with the earliest time at which one of its jobs
// can be claimed, or null: those after the key given, or the first where it is nil. It hops through an index from one
// key to the next, so its cost follows the number of keys and not that of the jobs.
func (t *Table) keys(after *string, now time.Time, limit int) *query {
	q := new(query).add("WITH RECURSIVE hop (k, n) AS (SELECT (SELECT " + t.Key + " FROM " + t.Name + " WHERE ")
	if after != nil {
		q.add(t.Key+" > ? AND ", *after)
	}
	t.addOpen(q)
	q.add(" ORDER BY " + t.Key + " LIMIT 1), 1 UNION ALL SELECT (SELECT " + t.Key + " FROM " + t.Name + " WHERE " + t.Key +
		" > hop.k AND ")
	t.addOpen(q)
	q.add(" ORDER BY "+t.Key+" LIMIT 1), hop.n + 1 FROM hop WHERE hop.k IS NOT NULL AND hop.n < ?) ", limit)
	q.add("SELECT hop.k, (SELECT " + t.Due + " FROM " + t.Name + " WHERE " + t.Key + " = hop.k AND ")
	t.addFree(q, now)
	return q.add(" ORDER BY " + t.Due + " LIMIT 1) FROM hop WHERE hop.k IS NOT NULL ORDER BY hop.k")
}

// claim returns the statement that leases up to limit due jobs, of one key where the table has keys, and returns what
// a Job holds of each. skipLocked is the suffix of the dialect.
func (t *Table) claim(claimID, key string, now, until time.Time, limit int, skipLocked string) *query {
	q := new(query).add("WITH due (job_id) AS MATERIALIZED (SELECT " + t.ID + " FROM " + t.Name + " WHERE ")
	t.addFree(q, now)
	q.add(" AND "+t.Due+" <= ?", clock.Millis(now))
	if t.Key != "" {
		q.add(" AND "+t.Key+" = ?", key)
	}
	q.add(" ORDER BY "+t.Due+", "+t.ID+" LIMIT ?"+skipLocked+") UPDATE "+t.Name+" SET ", limit)
	if t.Lease != "" {
		q.add(t.Lease+" = ?", clock.Millis(until))
	} else {
		q.add(t.Due+" = ?", clock.Millis(until))
	}
	if t.Claim != "" {
		q.add(", "+t.Claim+" = ?", claimID)
	}
	if t.Attempts != "" {
		q.add(", " + t.Attempts + " = " + t.Attempts + " + 1")
	}
	if t.Lost != "" && t.Claim != "" {
		// A claim that is still there belongs to a lease that expired without an outcome.
		q.add(", " + t.Lost + " = CASE WHEN " + t.Claim + " = '' THEN " + t.Lost + " ELSE " + t.Lost + " + 1 END")
	}
	return q.add(" FROM due WHERE " + t.ID + " = due.job_id RETURNING " + t.ID + ", " + orElse(t.Attempts, "0") + ", " +
		orElse(t.Lost, "0") + ", " + orElse(t.Key, "''") + ", " + orElse(t.Progress, "''"))
}

func orElse(column, constant string) string {
	if column == "" {
		return constant
	}
	return column
}

// addFence adds the condition that the job is still the claim's.
func (t *Table) addFence(q *query, j *Job) *query {
	q.add(" WHERE "+t.ID+" = ?", j.ID)
	if t.Claim != "" {
		return q.add(" AND "+t.Claim+" = ?", j.claim)
	}
	return q.add(" AND "+t.Attempts+" = ?", j.Attempt)
}

// token returns what identifies the job's claim among those of its row.
func (t *Table) token(j *Job) any {
	if t.Claim != "" {
		return j.claim
	}
	return j.Attempt
}

// addUnleased adds the assignments that end a lease, each followed by a comma.
func (t *Table) addUnleased(q *query) {
	if t.Claim != "" {
		q.add(t.Claim + " = '', ")
	}
	if t.Lease != "" {
		q.add(t.Lease + " = 0, ")
	}
}

// finish returns the statement that ends a job.
func (t *Table) finish(j *Job, now time.Time) *query {
	if t.Finished == "" {
		return t.addFence(new(query).add("DELETE FROM "+t.Name), j)
	}
	q := new(query).add("UPDATE " + t.Name + " SET ")
	t.addUnleased(q)
	if t.Lost != "" {
		q.add(t.Lost + " = 0, ")
	}
	return t.addFence(q.add(t.Finished+" = ?", clock.Millis(now)), j)
}

// counting says what releasing a job does to its counters.
type counting int

const (
	// keepCount leaves the attempt counted.
	keepCount counting = iota
	// startCount begins the count again, because the job is due by its own schedule.
	startCount
	// dropCount removes the attempt from the count, because it did not begin.
	dropCount
)

// release returns the statement that ends a lease and makes the job due at the time given.
func (t *Table) release(j *Job, due time.Time, c counting) *query {
	q := new(query).add("UPDATE " + t.Name + " SET ")
	t.addUnleased(q)
	if t.Lost != "" && c != dropCount {
		q.add(t.Lost + " = 0, ")
	}
	// Where the count identifies the claim it must only rise.
	if t.Attempts != "" && t.Claim != "" {
		switch c {
		case startCount:
			q.add(t.Attempts + " = 0, ")
		case dropCount:
			q.add(t.Attempts + " = " + t.Attempts + " - 1, ")
		case keepCount:
		}
	}
	return t.addFence(q.add(t.Due+" = ?", clock.Millis(due)), j)
}

// save returns the statement that extends a lease and stores progress where it is not nil.
func (t *Table) save(j *Job, until time.Time, progress []byte) *query {
	q := new(query).add("UPDATE "+t.Name+" SET "+t.leaseColumn()+" = ?", clock.Millis(until))
	if t.Lost != "" {
		q.add(", " + t.Lost + " = 0")
	}
	// Where the count identifies the claim it must only rise.
	if t.Attempts != "" && t.Claim != "" {
		q.add(", " + t.Attempts + " = 1")
	}
	if progress != nil {
		q.add(", "+t.Progress+" = ?", string(progress))
	}
	return t.addFence(q, j)
}

// leaseColumn returns the column that holds the end of a lease.
func (t *Table) leaseColumn() string {
	if t.Lease != "" {
		return t.Lease
	}
	return t.Due
}

// renew returns the statement that extends the leases of jobs and returns the ids of those that are still held.
func (t *Table) renew(held []*Job, until time.Time) *query {
	ids, tokens := make([]any, len(held)), make([]any, len(held))
	for i, j := range held {
		ids[i], tokens[i] = j.ID, t.token(j)
	}
	token := t.Claim
	if token == "" {
		token = t.Attempts
	}
	// An id can match with the token of another job in the list. That extends the lease of its present holder, which is
	// harmless, and the caller compares the pairs that come back.
	return new(query).add("UPDATE "+t.Name+" SET "+t.leaseColumn()+" = ? WHERE ", clock.Millis(until)).
		add(t.ID+" IN "+placeholders(len(held)), ids...).add(" AND "+token+" IN "+placeholders(len(held)), tokens...).
		add(" RETURNING " + t.ID + ", " + token)
}

func placeholders(n int) string { return "(" + strings.Repeat("?, ", n-1) + "?)" }

// recover returns the statement that ends the leases of a node's earlier processes. Their claims stay, so that the next
// claim counts the leases as lost.
func (t *Table) recover(prefix string, now time.Time) *query {
	q := new(query).add("UPDATE "+t.Name+" SET "+t.leaseColumn()+" = ? WHERE ", clock.Millis(now))
	t.addOpen(q)
	return q.add(" AND substr("+t.Claim+", 1, "+strconv.Itoa(len(prefix))+") = ?", prefix)
}

// disown returns the statement that releases every job under a claim that no process knows of.
func (t *Table) disown(claimID string, now time.Time) *query {
	q := new(query).add("UPDATE " + t.Name + " SET ")
	if t.Attempts != "" {
		q.add(t.Attempts + " = " + t.Attempts + " - 1, ")
	}
	if t.Lease == "" {
		q.add(t.Due+" = ?, ", clock.Millis(now))
	} else {
		q.add(t.Lease + " = 0, ")
	}
	q.add(t.Claim + " = '' WHERE ")
	t.addOpen(q)
	return q.add(" AND "+t.Claim+" = ?", claimID)
}

// recall returns the statement that takes a job from its holder.
func (t *Table) recall(jobID string, now time.Time) *query {
	q := new(query).add("UPDATE " + t.Name + " SET ")
	switch {
	case t.Claim == "":
		return q.add(t.Attempts+" = "+t.Attempts+" + 1 WHERE "+t.ID+" = ?", jobID)
	case t.Lease != "":
		q.add(t.Lease + " = 0, ")
	default:
		q.add(t.Due+" = ?, ", clock.Millis(now))
	}
	return q.add(t.Claim+" = '' WHERE "+t.ID+" = ? AND "+t.Claim+" <> ''", jobID)
}

// shift returns the statement that moves the due times and leases of jobs that have not ended.
func (t *Table) shift(by time.Duration) *query {
	q := new(query).add("UPDATE "+t.Name+" SET "+t.Due+" = "+t.Due+" + ?", by.Milliseconds())
	if t.Lease != "" {
		q.add(", "+t.Lease+" = CASE WHEN "+t.Lease+" = 0 THEN 0 ELSE "+t.Lease+" + ? END", by.Milliseconds())
	}
	t.addOpen(q.add(" WHERE "))
	return q
}

// progress returns the query of a job's stored progress.
func (t *Table) progress(jobID string) *query {
	return new(query).add("SELECT "+t.Progress+" FROM "+t.Name+" WHERE "+t.ID+" = ?", jobID)
}
