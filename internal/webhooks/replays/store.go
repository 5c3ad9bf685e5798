package replays

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/deliveries"
)

// errLost says that the job has changed since it was read: somebody paused or ended it, or another worker has it.
var errLost = errors.New("the replay has changed meanwhile")

const columns = `r.id, r.environment_id, r.status, r.filter, r.forced, r.to_subscription_id, r.rate_per_second, r.created_by_type,
	r.created_by_id, r.created_by_name, r.bound, r.counts, r.error_code, r.first_uuid, r.last_uuid, r.place_uuid, r.begun_uuid, r.begun_after,
	r.scanned, r.open_deliveries, r.claim_id, r.lease_ms, r.due_ms, r.version, r.created_ms, r.updated_ms, r.started_ms, r.finished_ms`

// storedCounts is the stored form of Counts.
type storedCounts struct {
	Matched   int64                           `json:"matched"`
	Replayed  int64                           `json:"replayed"`
	Succeeded int64                           `json:"succeeded"`
	Failed    int64                           `json:"failed"`
	Other     int64                           `json:"other"`
	Skipped   map[deliveries.SkipReason]int64 `json:"skipped"`
}

// storedStarted is the stored form of a delivery that was started.
type storedStarted struct {
	Event        string `json:"e"`
	Subscription string `json:"s"`
	Generation   int64  `json:"g"`
}

// changing returns the values of the columns that change, in the order of the updates below.
func (r *Replay) changing() ([]any, error) {
	counts, err := json.Marshal(storedCounts(r.Counts))
	if err != nil {
		return nil, fmt.Errorf("encode the counts of a replay: %w", err)
	}
	open := make([]storedStarted, len(r.work.open))
	for i, st := range r.work.open {
		open[i] = storedStarted{st.EventUUID, st.SubscriptionID, st.Generation}
	}
	list, err := json.Marshal(open)
	if err != nil {
		return nil, fmt.Errorf("encode the open deliveries of a replay: %w", err)
	}
	w := &r.work
	return []any{string(r.Status), string(counts), nullable(string(r.Failure)), w.place, w.begun, w.after, w.scanned,
		string(list), w.claim, clock.Millis(w.lease), clock.Millis(w.due), w.version, clock.Millis(r.UpdatedAt),
		millis(r.StartedAt), millis(r.FinishedAt)}, nil
}

func nullable(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func insert(ctx context.Context, tx *sql.Tx, r *Replay) error {
	filter, err := r.Filter.encode()
	if err != nil {
		return err
	}
	bound, err := r.Bound.Text()
	if err != nil {
		return err
	}
	changing, err := r.changing()
	if err != nil {
		return err
	}
	args := append([]any{r.ID, string(r.Environment), filter, r.Force, nullable(r.To), int64(r.RatePerSecond),
		string(r.CreatedBy.Kind), r.CreatedBy.ID, r.CreatedBy.Name, r.work.first, r.work.last, clock.Millis(r.CreatedAt),
		bound}, changing...)
	_, err = tx.ExecContext(ctx, `INSERT INTO webhook_replays (id, environment_id, filter, forced, to_subscription_id, rate_per_second,
		created_by_type, created_by_id, created_by_name, first_uuid, last_uuid, created_ms, bound, status, counts, error_code, place_uuid, begun_uuid,
		begun_after, scanned, open_deliveries, claim_id, lease_ms, due_ms, version, updated_ms, started_ms, finished_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)`, args...)
	if err != nil {
		return fmt.Errorf("store a replay: %w", err)
	}
	return nil
}

// update stores what has changed of a job, or returns errLost when it is not as it was read.
func update(ctx context.Context, tx *sql.Tx, r *Replay) error {
	before := r.work.version
	r.work.version++
	changing, err := r.changing()
	if err != nil {
		return err
	}
	res, err := tx.ExecContext(ctx, `UPDATE webhook_replays SET status = $1, counts = $2, error_code = $3, place_uuid = $4, begun_uuid = $5,
		begun_after = $6, scanned = $7, open_deliveries = $8, claim_id = $9, lease_ms = $10, due_ms = $11, version = $12, updated_ms = $13,
		started_ms = $14, finished_ms = $15 WHERE id = $16 AND environment_id = $17 AND version = $18`,
		append(changing, r.ID, string(r.Environment), before)...)
	if err != nil {
		return fmt.Errorf("change a replay: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("change a replay: %w", err)
	}
	if n != 1 {
		return errLost
	}
	return nil
}

func scan(fill func(dest ...any) error) (Replay, error) {
	var r Replay
	var filter, bound, counts, open string
	var to, code sql.NullString
	var rate, lease, due, created, updated int64
	var started, finished *int64
	w := &r.work
	if err := fill(&r.ID, &r.Environment, &r.Status, &filter, &r.Force, &to, &rate, &r.CreatedBy.Kind, &r.CreatedBy.ID,
		&r.CreatedBy.Name, &bound, &counts, &code, &w.first, &w.last, &w.place, &w.begun, &w.after, &w.scanned, &open,
		&w.claim, &lease, &due, &w.version, &created, &updated, &started, &finished); err != nil {
		return r, err
	}
	r.To, r.Failure, r.RatePerSecond = to.String, FailureCode(code.String), int(rate)
	w.lease, w.due = clock.FromMillis(lease), clock.FromMillis(due)
	r.CreatedAt, r.UpdatedAt = clock.FromMillis(created), clock.FromMillis(updated)
	r.StartedAt, r.FinishedAt = fromMillis(started), fromMillis(finished)
	var err error
	if r.Filter, err = decodeFilter(filter); err != nil {
		return r, err
	}
	if r.Bound, err = access.ParseBound(bound); err != nil {
		return r, err
	}
	var stored storedCounts
	if err := json.Unmarshal([]byte(counts), &stored); err != nil {
		return r, fmt.Errorf("decode the counts of a replay: %w", err)
	}
	r.Counts = Counts(stored)
	var list []storedStarted
	if err := json.Unmarshal([]byte(open), &list); err != nil {
		return r, fmt.Errorf("decode the open deliveries of a replay: %w", err)
	}
	for _, st := range list {
		w.open = append(w.open, deliveries.Started{Key: deliveries.Key{EventUUID: st.Event, SubscriptionID: st.Subscription},
			Generation: st.Generation})
	}
	return r, nil
}

// shown restricts a query to what the view shows: for whoever is bounded, the jobs that were made under the same bound.
func shown(v access.View) (condition string, args []any, err error) {
	condition, args = "r.environment_id = $1", []any{string(v.Environment)}
	if v.Connections.Unrestricted() {
		return condition, args, nil
	}
	bound, err := v.Connections.Text()
	return condition + " AND r.bound = $2", append(args, bound), err
}

// find returns a job that the view shows, or not_found. lock is the suffix that keeps it as it is until the transaction
// ends.
func find(ctx context.Context, q db.Querier, v access.View, replayID, lock string) (Replay, error) {
	if !id.Is(id.PrefixReplay, replayID) {
		return Replay{}, apperr.NotFound("replay")
	}
	condition, args, err := shown(v)
	if err != nil {
		return Replay{}, err
	}
	args = append(args, replayID)
	row := q.QueryRowContext(ctx, `SELECT `+columns+` FROM webhook_replays r WHERE `+condition+` AND r.id = $`+
		strconv.Itoa(len(args))+lock, args...)
	r, err := scan(row.Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Replay{}, apperr.NotFound("replay")
	}
	if err != nil {
		return Replay{}, fmt.Errorf("read a replay: %w", err)
	}
	return r, nil
}

func query(ctx context.Context, q db.Querier, condition string, args ...any) ([]Replay, error) {
	rows, err := q.QueryContext(ctx, `SELECT `+columns+` FROM webhook_replays r WHERE `+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("read replays: %w", err)
	}
	list := []Replay{}
	if err := db.Each(rows, func(rows *sql.Rows) error {
		r, err := scan(rows.Scan)
		list = append(list, r)
		return err
	}); err != nil {
		return nil, fmt.Errorf("read replays: %w", err)
	}
	return list, nil
}

// list returns a page of the jobs that the view shows, one row more than the page when another follows.
func list(ctx context.Context, q db.Querier, v access.View, f ListFilter, p page.Request) ([]Replay, error) {
	condition, args, err := shown(v)
	if err != nil {
		return nil, err
	}
	if len(f.Statuses) > 0 {
		condition += " AND r.status IN " + db.In(len(args)+1, len(f.Statuses))
		for _, s := range f.Statuses {
			args = append(args, string(s))
		}
	}
	if p.After != "" {
		args = append(args, p.After)
		condition += " AND r.id " + p.Compare() + " $" + strconv.Itoa(len(args))
	}
	return query(ctx, q, condition+" ORDER BY r.id "+p.Direction()+" LIMIT "+strconv.Itoa(p.Fetch()), args...)
}

// due returns up to limit jobs that the worker may take or has, and that may go on at the time given, longest due
// first.
func due(ctx context.Context, q db.Querier, claim string, now time.Time, limit int) ([]Replay, error) {
	return query(ctx, q, `r.finished_ms IS NULL AND r.status IN ('queued', 'running') AND r.due_ms <= $1
		AND (r.claim_id = '' OR r.claim_id = $2 OR r.lease_ms <= $1) ORDER BY r.due_ms, r.id LIMIT `+strconv.Itoa(limit), clock.Millis(now), claim)
}

// unfinished counts the jobs that have not ended, by state.
func unfinished(ctx context.Context, q db.Querier, condition string, args ...any) (map[Status]int64, error) {
	rows, err := q.QueryContext(ctx, `SELECT r.status, COUNT(*) FROM webhook_replays r WHERE r.finished_ms IS NULL`+
		condition+` GROUP BY r.status`, args...)
	if err != nil {
		return nil, fmt.Errorf("count replays: %w", err)
	}
	out := map[Status]int64{}
	if err := db.Each(rows, func(rows *sql.Rows) error {
		var s Status
		var n int64
		err := rows.Scan(&s, &n)
		out[s] = n
		return err
	}); err != nil {
		return nil, fmt.Errorf("count replays: %w", err)
	}
	return out, nil
}

// release takes the claims of a worker, or of all that begin so, from the jobs.
func release(ctx context.Context, tx *sql.Tx, claimPrefix string) error {
	_, err := tx.ExecContext(ctx, `UPDATE webhook_replays SET claim_id = '', lease_ms = 0, version = version + 1
		WHERE finished_ms IS NULL AND substr(claim_id, 1, length(CAST($1 AS text))) = $1`, claimPrefix)
	if err != nil {
		return fmt.Errorf("release replays: %w", err)
	}
	return nil
}

// expireRows is how many jobs one transaction deletes, at most.
const expireRows = 100

// expire deletes jobs that ended before the time given, and reports whether there may be more.
func expire(ctx context.Context, tx *sql.Tx, before time.Time) (more bool, err error) {
	res, err := tx.ExecContext(ctx, `DELETE FROM webhook_replays WHERE id IN (SELECT id FROM webhook_replays
		WHERE finished_ms IS NOT NULL AND finished_ms < $1 ORDER BY finished_ms LIMIT $2)`, clock.Millis(before), expireRows)
	if err != nil {
		return false, fmt.Errorf("delete old replays: %w", err)
	}
	n, err := res.RowsAffected()
	return n == expireRows, err
}
