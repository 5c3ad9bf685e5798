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

// store is the state that nodes share, on PostgreSQL.
type store struct {
	db    *db.DB
	clock clock.Clock
}

// grant is the state of a limit after a lease request, and the granted slice.
type grant struct {
	tat     tat
	granted int64
}

// lease executes the requests and returns the grants in their order. The requests name each bucket once.
func (s store) lease(ctx context.Context, requests []leaseRequest, now int64) ([]grant, error) {
	sorted := slices.SortedFunc(slices.Values(requests),
		func(a, b leaseRequest) int { return cmp.Compare(a.state.id, b.state.id) })
	for range 3 { // a new row may be deleted before it is locked, once
		grants, missing, err := s.leaseExisting(ctx, sorted, now)
		if err == nil && len(missing) > 0 {
			err = s.add(ctx, missing)
		}
		if err != nil {
			return nil, fmt.Errorf("lease slices of rate limits: %w", err)
		}
		if len(missing) > 0 {
			continue
		}
		out := make([]grant, len(requests))
		for i, r := range requests {
			out[i] = grants[r.state.id]
		}
		return out, nil
	}
	return nil, errMissing
}

var errMissing = errors.New("lease slices of rate limits: their rows are deleted as soon as they exist")

// leaseExisting executes all requests, or none if rows are missing. Rows are locked in the order of their ids and
// created in a transaction of their own, so that nodes cannot deadlock.
func (s store) leaseExisting(ctx context.Context, requests []leaseRequest, now int64) (
	grants map[string]grant, missing []string, err error,
) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		grants, missing = make(map[string]grant, len(requests)), nil
		found, err := lockRows(ctx, tx, requests)
		if err != nil {
			return err
		}
		var changed []string
		var tats []int64
		for _, r := range requests {
			before, ok := found[r.state.id]
			if !ok {
				missing = append(missing, r.state.id)
				continue
			}
			g := r.grant(before, now)
			grants[r.state.id] = g
			if g.tat != before {
				changed, tats = append(changed, r.state.id), append(tats, int64(g.tat))
			}
		}
		if len(missing) > 0 || len(changed) == 0 {
			return nil
		}
		// A statement of its own: the one that waited for the locks sees the rows as they were before it.
		_, err = tx.ExecContext(ctx, `UPDATE rate_limit_buckets b SET tat_ns = c.tat_ns
			FROM unnest($1::text[], $2::bigint[]) AS c (id, tat_ns) WHERE b.id = c.id`, changed, tats)
		return err
	})
	return grants, missing, err
}

// grant returns the surplus, charges the debt, and then grants as much as is available.
func (r leaseRequest) grant(t tat, now int64) grant {
	t -= tat(r.surplus * r.limit.step())
	t.charge(r.limit, now, r.charge)
	granted := t.take(r.limit, now, r.want)
	return grant{t, granted}
}

// lockRows locks the rows that exist and returns them.
func lockRows(ctx context.Context, tx *sql.Tx, requests []leaseRequest) (map[string]tat, error) {
	var ids []string
	for _, r := range requests {
		ids = append(ids, r.state.id)
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

// add creates the rows of new limits, which are full.
func (s store) add(ctx context.Context, ids []string) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO rate_limit_buckets (id, tat_ns) SELECT id, $2
			FROM unnest($1::text[]) AS f (id) ORDER BY id
			ON CONFLICT (id) DO NOTHING`, ids, s.clock.Now().UnixNano())
		return err
	})
}

// nodeLife is the time after its last registration for which a node counts.
const nodeLife = 15 * time.Second

// register records that the node runs and returns the number of nodes.
func (s store) register(ctx context.Context, node string, now time.Time) (nodes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
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

// unregister deletes the node's registration.
func (s store) unregister(ctx context.Context, node string) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM rate_limit_nodes WHERE id = $1", node)
		return err
	})
}

// Expire deletes the rows of limits that are full, and of nodes that no longer run.
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
			return fmt.Errorf("delete full rate limits: %w", err)
		}
	}
	return d.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM rate_limit_nodes WHERE seen_ms < $1", clock.Millis(now.Add(-time.Hour)))
		return err
	})
}
