package limiter

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// row is a stored seen.
type row struct {
	connection  string
	environment id.Environment
	seen
	resetMS, blockedMS int64
}

func columns(r *row) db.Columns {
	return db.Columns{db.Col("connection_uuid", &r.connection), db.Col("environment_id", &r.environment),
		db.Col("requests", &r.Limit), db.Col("remaining", &r.Remaining), db.Col("reset_ms", &r.resetMS),
		db.Col("blocked_ms", &r.blockedMS), db.Col("observed_ms", db.Millis(&r.ObservedAt))}
}

func (r *row) times() {
	r.ResetAt, r.BlockedUntil = fromMillis(r.resetMS), fromMillis(r.blockedMS)
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return clock.FromMillis(ms)
}

func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return clock.Millis(t)
}

const (
	// syncInterval is how often nodes store what they have seen, and read what others have.
	syncInterval = time.Second
	// syncOverlap is how far back a read goes, for nodes whose clocks differ and rows that were committed late.
	syncOverlap = 10 * time.Second
	// syncBatch bounds a transaction and a read.
	syncBatch = 500
)

// sync stores what this node has seen, and reads what others have.
func (l *Limiter) sync(ctx context.Context) error {
	rows, lead := l.known.news(), l.lead()
	for i := range rows {
		rows[i].shift(lead)
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.connection, b.connection) })
	for batch := range slices.Chunk(rows, syncBatch) {
		err := l.store(ctx, batch)
		for i := 0; err != nil && !db.IsUnavailable(err) && i < len(batch); i++ {
			// A connection among them was deleted. The others are stored one by one.
			if one := l.store(ctx, batch[i:i+1]); db.IsUnavailable(one) {
				err = one
			} else if i == len(batch)-1 {
				err = nil
			}
		}
		if err != nil {
			l.known.restore(rows)
			return err
		}
	}
	return l.listen(ctx, lead)
}

// listen reads what other nodes have seen, all of it however much that is.
func (l *Limiter) listen(ctx context.Context, lead time.Duration) error {
	after, last := clock.Millis(l.cfg.Wall.Now().Add(-syncOverlap)), ""
	for {
		w := new(db.Where)
		w.And("(observed_ms > " + w.Arg(after) + " OR observed_ms = " + w.Arg(after) + " AND connection_uuid > " +
			w.Arg(last) + ")")
		// A later time is one before the machine's clock was set back, until shiftTimes has moved it.
		w.And("observed_ms <= ?", clock.Millis(l.cfg.Wall.Now().Add(syncOverlap)))
		rows, err := db.All(ctx, l.cfg.DB.Read(), columns, "FROM connection_rate_limits", w,
			fmt.Sprintf("ORDER BY observed_ms, connection_uuid LIMIT %d", syncBatch))
		if err != nil {
			return fmt.Errorf("read the rate limits of connections: %w", err)
		}
		for i := range rows {
			after, last = clock.Millis(rows[i].ObservedAt), rows[i].connection
			rows[i].times()
			rows[i].shift(-lead)
		}
		l.known.hear(rows)
		if len(rows) < syncBatch {
			return nil
		}
	}
}

// shiftTimes moves the stored times after the clock was set.
func shiftTimes(ctx context.Context, tx *sql.Tx, by time.Duration) error {
	_, err := tx.ExecContext(ctx, `UPDATE connection_rate_limits SET observed_ms = observed_ms + $1,
		reset_ms = CASE WHEN reset_ms = 0 THEN 0 ELSE reset_ms + $1 END,
		blocked_ms = CASE WHEN blocked_ms = 0 THEN 0 ELSE blocked_ms + $1 END`, by.Milliseconds())
	if err != nil {
		return fmt.Errorf("move the times of rate limits: %w", err)
	}
	return nil
}

// store stores rows, sorted by their connections. The rows of a connection that was deleted are an error.
func (l *Limiter) store(ctx context.Context, rows []row) error {
	err := l.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		for i := range rows {
			r := &rows[i]
			_, err := tx.ExecContext(ctx, `INSERT INTO connection_rate_limits (environment_id, connection_uuid, requests,
				remaining, reset_ms, blocked_ms, observed_ms) VALUES ($1, $2, $3, $4, $5, $6, $7)
				ON CONFLICT (connection_uuid) DO UPDATE SET
				requests = excluded.requests, remaining = excluded.remaining, reset_ms = excluded.reset_ms,
				blocked_ms = CASE WHEN excluded.blocked_ms > connection_rate_limits.blocked_ms THEN excluded.blocked_ms
				ELSE connection_rate_limits.blocked_ms END, observed_ms = excluded.observed_ms
				WHERE connection_rate_limits.observed_ms <= excluded.observed_ms`, string(r.environment), r.connection,
				r.Limit, r.Remaining, toMillis(r.ResetAt), toMillis(r.BlockedUntil), clock.Millis(r.ObservedAt))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store the rate limits of connections: %w", err)
	}
	return nil
}

// State is what is known of a connection's limit.
type State struct {
	// Limited reports that the provider wants no request until ResetAt.
	Limited bool
	// Limit is the number of requests of a whole window; 0 if it is not known.
	Limit int64
	// Remaining is how many of them are left; negative if it is not known.
	Remaining int64
	// ResetAt is when the window ends or, if Limited, when requests can be sent again; zero if it is not known or over.
	ResetAt time.Time
}

func (s *seen) state(now time.Time) State {
	if opens := s.opensAt(); opens.After(now) {
		return State{Limited: true, Limit: s.Limit, Remaining: s.Remaining, ResetAt: opens}
	}
	if !s.ResetAt.IsZero() && !s.ResetAt.After(now) {
		return State{Limit: s.Limit, Remaining: -1} // of a window that is over
	}
	return State{Limit: s.Limit, Remaining: s.Remaining, ResetAt: s.ResetAt}
}

// Of returns what is known of the limits of connections of an environment, by their UUIDs.
func (l *Limiter) Of(ctx context.Context, q db.Querier, env id.Environment, uuids []string) (map[string]State, error) {
	if l == nil {
		return nil, nil //nolint:nilnil // nothing is known
	}
	w := new(db.Where).And("environment_id = ?", string(env))
	rows, err := db.All(ctx, q, columns, "FROM connection_rate_limits", db.AnyOf(w, "connection_uuid", uuids), "")
	if err != nil {
		return nil, fmt.Errorf("read the rate limits of connections: %w", err)
	}
	found := make(map[string]seen, len(rows))
	for i := range rows {
		rows[i].times()
		found[rows[i].connection] = rows[i].seen
	}
	now, lead, out := l.cfg.Wall.Now(), l.lead(), make(map[string]State, len(uuids))
	for _, uuid := range uuids {
		last, stored := found[uuid]
		own, known := l.known.of(uuid)
		own.shift(lead)
		switch {
		case stored && known:
			last.merge(own)
		case known:
			last = own
		case !stored:
			continue
		}
		out[uuid] = last.state(now)
	}
	return out, nil
}
