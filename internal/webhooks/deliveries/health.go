package deliveries

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/subscriptions"
)

// Health returns the health of subscriptions at a time. One without attempts may be missing. It is read from
// the breakers and the statistics, which the recorder keeps anyway, so it costs an attempt nothing.
func (c Control) Health(ctx context.Context, env id.Environment, subscriptionIDs []string,
	now time.Time) (map[string]subscriptions.Health, error) {
	out := make(map[string]subscriptions.Health, len(subscriptionIDs))
	list, err := c.store.breakers.of(ctx, subscriptionIDs)
	if err != nil {
		return nil, err
	}
	for _, b := range list {
		if b.opened != nil && b.environment == env {
			out[b.subscriptionID] = subscriptions.Health{FailingSince: b.opened, NextProbe: b.probe}
		}
	}
	read := func(ctx context.Context, q db.Querier) error {
		for some := range slices.Chunk(subscriptionIDs, chunk) {
			if err := c.recentHealth(ctx, q, env, some, now, out); err != nil {
				return err
			}
			if err := c.failuresInRow(ctx, q, env, some, now, out); err != nil {
				return err
			}
		}
		return nil
	}
	if len(subscriptionIDs) == 1 {
		err = read(ctx, c.store.db.Read())
	} else {
		err = c.store.db.List(ctx, string(env), read)
	}
	return out, err
}

// healthWindow is the time that the rate of success and the percentile of health cover, in whole minutes.
const healthWindow = time.Hour

// recentHealth adds how the attempts within healthWindow went.
func (c Control) recentHealth(ctx context.Context, q db.Querier, env id.Environment, subscriptionIDs []string,
	now time.Time, into map[string]subscriptions.Health) error {
	w := new(db.Where).And("environment_id = ?", string(env)).And("width_ms = ?", statMinute).
		And("start_ms >= ?", clock.Millis(now.Add(-healthWindow).Truncate(time.Minute))).
		And("class <> ?", noDuration).And("measure IN (?, ?)", string(measureSucceeded), string(measureFailed))
	db.AnyOf(w, "subscription_id", subscriptionIDs)
	rows, err := q.QueryContext(ctx, "SELECT subscription_id, measure, class, CAST(SUM(n) AS bigint) FROM delivery_stats"+
		w.Text()+" GROUP BY 1, 2, 3", w.Args()...)
	if err != nil {
		return fmt.Errorf("read the health of subscriptions: %w", err)
	}
	counted := map[string]histogram{}
	if err := db.Each(rows, func(r *sql.Rows) error {
		var sub string
		var m measure
		var class, n int64
		if err := r.Scan(&sub, &m, &class, &n); err != nil {
			return err
		}
		if counted[sub] == nil {
			counted[sub] = histogram{}
		}
		counted[sub].add(m, class, n)
		return nil
	}); err != nil {
		return fmt.Errorf("read the health of subscriptions: %w", err)
	}
	for sub, h := range counted {
		counts, health := h.counts(), into[sub]
		health.SuccessRate = new(float64(counts.Succeeded) / float64(counts.Succeeded+counts.Failed))
		health.P95 = &counts.Duration.P95
		into[sub] = health
	}
	return nil
}

// failuresInRow adds how many attempts have failed since the last one that succeeded. The statistics have those of all
// processes after the minute of the last success. Those that failed within that minute, but after the success, are
// known in memory to the process that made the attempts.
func (c Control) failuresInRow(ctx context.Context, q db.Querier, env id.Environment, subscriptionIDs []string,
	now time.Time, into map[string]subscriptions.Health) error {
	args := []any{string(env), statMinute, statHour, clock.Millis(now.Add(-failingFor)), noDuration,
		string(measureSucceeded), string(measureFailed)}
	ids := make([]string, len(subscriptionIDs))
	for i, sub := range subscriptionIDs {
		args = append(args, sub)
		ids[i] = "($" + strconv.Itoa(len(args)) + ")"
	}
	// Ordered subqueries with a limit find the last success from the end of the primary key.
	const lastSuccess = `SELECT until FROM (SELECT start_ms + width_ms - 1 AS until FROM delivery_stats
		WHERE subscription_id = ids.id AND environment_id = $1 AND start_ms >= $4 AND measure = $6`
	const latest = ` ORDER BY start_ms DESC LIMIT 1) `
	rows, err := q.QueryContext(ctx, `WITH ids (id) AS (VALUES `+strings.Join(ids, ", ")+`),
		last (id, until) AS MATERIALIZED (SELECT ids.id, COALESCE((SELECT MAX(until) FROM (`+
		lastSuccess+` AND width_ms = $2`+latest+`m UNION ALL `+
		lastSuccess+` AND width_ms = $3`+latest+`h) mh), $4) FROM ids)
		SELECT last.id, last.until, COALESCE((SELECT CAST(SUM(n) AS bigint) FROM delivery_stats
			WHERE subscription_id = last.id AND environment_id = $1 AND width_ms IN ($2, $3) AND start_ms > last.until
			AND measure = $7 AND class <> $5), 0) FROM last`, args...)
	if err != nil {
		return fmt.Errorf("count failures in a row: %w", err)
	}
	if err := db.Each(rows, func(r *sql.Rows) error {
		var sub string
		var until, n int64
		if err := r.Scan(&sub, &until, &n); err != nil {
			return err
		}
		if n += c.store.runs.inMinute(sub, until-statMinute+1); n > 0 {
			health := into[sub]
			health.ConsecutiveFailures = n
			into[sub] = health
		}
		return nil
	}); err != nil {
		return fmt.Errorf("count failures in a row: %w", err)
	}
	return nil
}

// failureRuns knows the failures in a row that this process has recorded, of each subscription whose last attempt here
// failed: those within the minute in which the first of them began. The statistics cannot say whether these came before
// or after a success in that minute.
type failureRuns struct {
	mu    sync.Mutex
	bySub map[string]failureRun
	// nextForget is when to forget next what health no longer looks at.
	nextForget time.Time
}

type failureRun struct {
	// minute is the start of the minute in which the run began, in Unix milliseconds, and n counts its failures in it.
	minute, n int64
}

// add counts a recorded attempt.
func (f *failureRuns) add(a *Attempt, subscriptionID string) {
	ms := clock.Millis(a.StartedAt)
	minute := ms - ms%statMinute
	f.mu.Lock()
	defer f.mu.Unlock()
	run, known := f.bySub[subscriptionID]
	switch {
	case a.Outcome == AttemptSucceeded:
		if known {
			delete(f.bySub, subscriptionID)
		}
		return
	case a.Outcome != AttemptFailed || a.Timings.Total == 0, known && run.minute != minute:
		return
	}
	if f.bySub == nil {
		f.bySub = map[string]failureRun{}
	}
	f.bySub[subscriptionID] = failureRun{minute, run.n + 1}
	if !a.StartedAt.Before(f.nextForget) {
		f.nextForget = a.StartedAt.Add(time.Hour)
		maps.DeleteFunc(f.bySub, func(_ string, r failureRun) bool {
			return r.minute < clock.Millis(a.StartedAt.Add(-failingFor))
		})
	}
}

// inMinute returns how many attempts failed in the minute that begins at the time given, after the last success in it.
func (f *failureRuns) inMinute(subscriptionID string, start int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if run := f.bySub[subscriptionID]; run.minute == start {
		return run.n
	}
	return 0
}
