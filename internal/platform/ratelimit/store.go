package ratelimit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// store is what nodes share, on PostgreSQL.
type store struct {
	db    *db.DB
	clock clock.Clock
}

// grant is the state of a limit after a question, and what was granted.
type grant struct {
	tat     tat
	granted int64
}

// lease settles the questions and returns the answers in their order. No bucket is in them twice.
func (s store) lease(ctx context.Context, asks []ask, now int64) ([]grant, error) {
	sorted := slices.SortedFunc(slices.Values(asks), func(a, b ask) int { return cmp.Compare(a.state.id, b.state.id) })
	for range 3 { // a row that was just made may be removed again before it is locked, once
		answers, missing, err := s.settle(ctx, sorted, now)
		if err == nil && len(missing) > 0 {
			err = s.add(ctx, missing)
		}
		if err != nil {
			return nil, fmt.Errorf("lease slices of rate limits: %w", err)
		}
		if len(missing) > 0 {
			continue
		}
		out := make([]grant, len(asks))
		for i, a := range asks {
			out[i] = answers[a.state.id]
		}
		return out, nil
	}
	return nil, errMissing
}

var errMissing = errors.New("lease slices of rate limits: their rows are removed as soon as they are made")

// settle answers all questions, or none where rows are missing. The rows are locked in the order of their ids, and made
// in a transaction of their own, so that no two nodes can wait for each other.
func (s store) settle(ctx context.Context, asks []ask,
	now int64) (answers map[string]grant, missing []string, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		answers, missing = make(map[string]grant, len(asks)), nil
		found, err := lock(ctx, tx, asks)
		if err != nil {
			return err
		}
		var changed []string
		var tats []int64
		for _, a := range asks {
			before, ok := found[a.state.id]
			if !ok {
				missing = append(missing, a.state.id)
				continue
			}
			g := a.settle(before, now)
			answers[a.state.id] = g
			if g.tat != before {
				changed, tats = append(changed, a.state.id), append(tats, int64(g.tat))
			}
		}
		if len(missing) > 0 || len(changed) == 0 {
			return nil
		}
		// A statement of its own: the one that waited for the locks goes by the rows as they were before it.
		_, err = tx.ExecContext(ctx, `UPDATE rate_limit_buckets b SET tat_ns = c.tat_ns
			FROM unnest($1::text[], $2::bigint[]) AS c (id, tat_ns) WHERE b.id = c.id`, changed, tats)
		return err
	})
	return answers, missing, err
}

// settle answers a question: first what goes back, then what was spent, then as much as there is of what is wanted.
func (a ask) settle(t tat, now int64) grant {
	t -= tat(a.back * a.limit.step())
	t.charge(a.limit, now, a.charge)
	granted := t.take(a.limit, now, a.want)
	return grant{t, granted}
}

// lock locks the rows that there are, and returns them.
func lock(ctx context.Context, tx *sql.Tx, asks []ask) (map[string]tat, error) {
	var ids []string
	for _, a := range asks {
		ids = append(ids, a.state.id)
	}
	rows, err := tx.QueryContext(ctx,
		"SELECT id, tat_ns FROM rate_limit_buckets WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE", ids)
	if err != nil {
		return nil, err
	}
	found := make(map[string]tat, len(ids))
	err = db.Each(rows, func(r *sql.Rows) error {
		var id string
		var t tat
		if err := r.Scan(&id, &t); err != nil {
			return err
		}
		found[id] = t
		return nil
	})
	return found, err
}

// add makes the rows of limits that are asked about for the first time: full.
func (s store) add(ctx context.Context, ids []string) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO rate_limit_buckets (id, tat_ns) SELECT id, $2
			FROM unnest($1::text[]) AS f (id) ORDER BY id
			ON CONFLICT (id) DO NOTHING`, ids, s.clock.Now().UnixNano())
		return err
	})
}

// nodeLife is after what silence a node counts no more.
const nodeLife = 15 * time.Second

// greet notes that the node is there and returns how many are.
func (s store) greet(ctx context.Context, node string, now time.Time) (nodes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO rate_limit_nodes (id, seen_ms) VALUES ($1, $2)
			ON CONFLICT (id) DO UPDATE SET seen_ms = excluded.seen_ms`, node, clock.Millis(now))
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM rate_limit_nodes WHERE seen_ms > $1",
			clock.Millis(now.Add(-nodeLife))).Scan(&nodes)
	})
	if err != nil {
		return 0, fmt.Errorf("count the nodes that share rate limits: %w", err)
	}
	return nodes, nil
}

// leave takes the node off the list.
func (s store) leave(ctx context.Context, node string) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM rate_limit_nodes WHERE id = $1", node)
		return err
	})
}

// Expire removes what says nothing any more: limits that are full, and nodes that are gone.
func (l *Limiter) Expire(ctx context.Context, now time.Time) error {
	if l.leases == nil {
		return nil
	}
	d := l.opts.DB
	const batch = 500
	for n := int64(batch); n == batch; {
		err := d.Tx(ctx, func(tx *sql.Tx) error {
			old := "SELECT id FROM rate_limit_buckets WHERE tat_ns < $1 LIMIT $2" + d.SkipLocked()
			//nolint:gosec // the text is ours
			result, err := tx.ExecContext(ctx, "DELETE FROM rate_limit_buckets WHERE id IN ("+old+")",
				now.Add(-time.Minute).UnixNano(), batch)
			if err != nil {
				return err
			}
			n, err = result.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("remove old rate limits: %w", err)
		}
	}
	return d.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM rate_limit_nodes WHERE seen_ms < $1", clock.Millis(now.Add(-time.Hour)))
		return err
	})
}
