package replays

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/deliveries"
)

// errChanged is the error of a change to a replay that has changed since it was read.
var errChanged = errors.New("the replay has changed since it was read")

// columns binds the columns of a row, except those of the queue: claim_id, lease_ms and attempts.
func columns(r *Replay) db.Columns {
	w := &r.work
	return db.Columns{
		db.Col("id", &r.ID),
		db.Col("environment_id", &r.Environment),
		db.Col("status", &r.Status),
		db.Col("filter", db.Text(r.Filter.encode, func(text string) (err error) {
			r.Filter, err = decodeFilter(text)
			return err
		})),
		db.Col("forced", &r.Force),
		db.Col("to_subscription_id", db.Null(&r.To)),
		db.Col("rate_per_second", &r.RatePerSecond),
		db.Col("created_by_type", &r.CreatedBy.Kind),
		db.Col("created_by_id", &r.CreatedBy.ID),
		db.Col("created_by_name", &r.CreatedBy.Name),
		db.Col("bound", db.Text(func() (string, error) { return r.Bound.Text() }, func(text string) (err error) {
			r.Bound, err = access.ParseBound(text)
			return err
		})),
		db.Col("counts", db.Text(r.encodeCounts, r.decodeCounts)),
		db.Col("error_code", db.Null(&r.Failure)),
		db.Col("first_uuid", &w.first),
		db.Col("last_uuid", &w.last),
		db.Col("place_uuid", &w.place),
		db.Col("begun_uuid", &w.begun),
		db.Col("begun_after", &w.after),
		db.Col("scanned", &w.scanned),
		db.Col("open_deliveries", db.Text(w.encodeOpen, w.decodeOpen)),
		db.Col("due_ms", db.Millis(&w.due)),
		db.Col("version", &w.version),
		db.Col("created_ms", db.Millis(&r.CreatedAt)),
		db.Col("updated_ms", db.Millis(&r.UpdatedAt)),
		db.Col("started_ms", db.NullMillis(&r.StartedAt)),
		db.Col("finished_ms", db.NullMillis(&r.FinishedAt)),
	}
}

// changing returns the columns that change after the creation.
func changing(r *Replay) db.Columns {
	return columns(r).Only("status", "counts", "error_code", "place_uuid", "begun_uuid", "begun_after", "scanned",
		"open_deliveries", "due_ms", "version", "updated_ms", "started_ms", "finished_ms")
}

const table = "FROM webhook_replays"

// storedCounts is the stored form of Counts.
type storedCounts struct {
	Matched   int64                           `json:"matched"`
	Replayed  int64                           `json:"replayed"`
	Succeeded int64                           `json:"succeeded"`
	Failed    int64                           `json:"failed"`
	Other     int64                           `json:"other"`
	Skipped   map[deliveries.SkipReason]int64 `json:"skipped"`
}

func (c *Counts) encodeCounts() (string, error) { return db.EncodeJSON(storedCounts(*c)) }

func (c *Counts) decodeCounts(text string) error {
	var stored storedCounts
	if err := db.DecodeJSON(text, &stored); err != nil {
		return fmt.Errorf("decode the counts of a replay: %w", err)
	}
	*c = Counts(stored)
	return nil
}

// storedStarted is the stored form of a delivery that was started.
type storedStarted struct {
	Event        string `json:"e"`
	Subscription string `json:"s"`
	Generation   int64  `json:"g"`
}

func (w *work) encodeOpen() (string, error) {
	list := make([]storedStarted, len(w.open))
	for i, st := range w.open {
		list[i] = storedStarted{st.EventUUID, st.SubscriptionID, st.Generation}
	}
	return db.EncodeJSON(list)
}

func (w *work) decodeOpen(text string) error {
	var list []storedStarted
	if err := db.DecodeJSON(text, &list); err != nil {
		return fmt.Errorf("decode the open deliveries of a replay: %w", err)
	}
	w.open = nil
	for _, st := range list {
		w.open = append(w.open, deliveries.Started{Generation: st.Generation,
			Key: deliveries.Key{EventUUID: st.Event, SubscriptionID: st.Subscription}})
	}
	return nil
}

// insert stores a replay that no process holds.
func insert(ctx context.Context, tx *sql.Tx, r *Replay) error {
	var claimID string
	var lease int64
	c := append(columns(r), db.Col("claim_id", &claimID), db.Col("lease_ms", &lease))
	if _, err := db.Insert(ctx, tx, "INSERT INTO webhook_replays", c, ""); err != nil {
		return fmt.Errorf("store a replay: %w", err)
	}
	return nil
}

// update stores a changed replay. It returns errChanged if the replay is not as it was read.
func update(ctx context.Context, tx *sql.Tx, r *Replay) error {
	w := new(db.Where).And("id = ?", r.ID).And("environment_id = ?", string(r.Environment)).
		And("version = ?", r.work.version)
	r.work.version++
	changed, err := db.Update(ctx, tx, "UPDATE webhook_replays", changing(r), w)
	switch {
	case err != nil:
		return fmt.Errorf("change a replay: %w", err)
	case !changed:
		return errChanged
	default:
		return nil
	}
}

// endFailed ends a replay, which the caller's transaction holds, after an error of the service. It reads nothing of the
// replay, because reading it may be the error.
func endFailed(ctx context.Context, tx *sql.Tx, replayID string, now time.Time) error {
	_, err := tx.ExecContext(ctx, "UPDATE webhook_replays SET status = $1, error_code = $2, updated_ms = $3, "+
		"version = version + 1 WHERE id = $4", string(Failed), string(FailedInternal), clock.Millis(now), replayID)
	if err != nil {
		return fmt.Errorf("end a replay: %w", err)
	}
	return nil
}

// visible restricts a query to the replays that the view shows: to a bounded view, those created under the same bound.
func visible(v access.View) (*db.Where, error) {
	w := new(db.Where).And("environment_id = ?", string(v.Environment))
	if v.Connections.Unrestricted() {
		return w, nil
	}
	bound, err := v.Connections.Text()
	return w.And("bound = ?", bound), err
}

// find returns a replay that the view shows, or not_found. lock is the suffix that keeps the row unchanged until the
// transaction ends.
func find(ctx context.Context, q db.Querier, v access.View, replayID, lock string) (Replay, error) {
	if !id.Is(id.PrefixReplay, replayID) {
		return Replay{}, apperr.NotFound("replay")
	}
	w, err := visible(v)
	if err != nil {
		return Replay{}, err
	}
	r, found, err := db.One(ctx, q, columns, table, w.And("id = ?", replayID), lock)
	switch {
	case err != nil:
		return Replay{}, fmt.Errorf("read a replay: %w", err)
	case !found:
		return Replay{}, apperr.NotFound("replay")
	default:
		return r, nil
	}
}

// list returns a page of the replays that the view shows, and one row more if another page follows.
func list(ctx context.Context, q db.Querier, v access.View, f ListFilter, p page.Request) ([]Replay, error) {
	w, err := visible(v)
	if err != nil {
		return nil, err
	}
	db.AnyOf(w, "status", f.Statuses)
	tail := w.Page("id", p)
	rows, err := db.All(ctx, q, columns, table, w, tail)
	if err != nil {
		return nil, fmt.Errorf("read replays: %w", err)
	}
	return rows, nil
}

// countUnfinished counts the replays that have not ended and meet the conditions, by state.
func countUnfinished(ctx context.Context, q db.Querier, w *db.Where) (map[Status]int64, error) {
	type group struct {
		status Status
		n      int64
	}
	bind := func(g *group) db.Columns { return db.Columns{db.Col("status", &g.status), db.Col("COUNT(*)", &g.n)} }
	groups, err := db.All(ctx, q, bind, table, w.And("finished_ms IS NULL"), "GROUP BY status")
	if err != nil {
		return nil, fmt.Errorf("count replays: %w", err)
	}
	out := map[Status]int64{}
	for _, g := range groups {
		out[g.status] = g.n
	}
	return out, nil
}

// expireRows is the maximum number of replays that one transaction deletes.
const expireRows = 100

// expire deletes replays that ended before the time given, and reports whether there may be more.
func expire(ctx context.Context, tx *sql.Tx, before time.Time) (more bool, err error) {
	n, err := db.Affected(tx.ExecContext(ctx, `DELETE FROM webhook_replays WHERE id IN (SELECT id FROM webhook_replays
		WHERE finished_ms IS NOT NULL AND finished_ms < $1 ORDER BY finished_ms LIMIT $2)`, clock.Millis(before),
		expireRows))
	if err != nil {
		return false, fmt.Errorf("delete old replays: %w", err)
	}
	return n == expireRows, nil
}
