// Package fleet knows which processes share the database and what each of them does, and carries hints from those that
// serve requests to those that do the work.
package fleet

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

const (
	// interval is how often a node registers and counts the others.
	interval = 5 * time.Second
	// life is for how long a node counts that has not registered again.
	life = 20 * time.Second
	// forgetAfter is when the row of a node goes that ended without removing it.
	forgetAfter = 24 * time.Hour
)

// Config configures a Fleet.
type Config struct {
	DB *db.DB
	// Clock is the database's, so that nodes agree on the time.
	Clock  clock.Clock
	Logger *slog.Logger
	// Node names this process among those that share the database.
	Node string
	Role role.Role
}

// Fleet registers this node and knows the others. On SQLite there is no other.
type Fleet struct {
	cfg   Config
	hints *Hints
	count *prometheus.GaugeVec

	mu sync.Mutex
	// idle is set while this node leaves work to workers of which none is seen.
	idle bool
}

// New returns a Fleet that knows of none before the first round of its job.
func New(c Config) *Fleet {
	return &Fleet{cfg: c, hints: newHints(c), count: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sallyport_nodes",
		Help: "Nodes that this node has seen within 20 seconds, itself included, by role. Without any of the role all or " +
			"worker nothing is sent."}, []string{"role"})}
}

// Hints returns the way to the workers.
func (f *Fleet) Hints() *Hints { return f.hints }

// Module returns what nodes bring to the process.
func (f *Fleet) Module() module.Module {
	m := module.Module{Name: "platform/fleet", Metrics: []prometheus.Collector{f.count},
		Tables: []module.Table{{Name: "nodes"}},
		Jobs: []jobs.Periodic{{Name: "register-node", Failure: "cannot register this node and count the others", Warn: true,
			Run: jobs.Every(interval, f.register), Last: f.leave}}}
	if f.cfg.DB.Engine() == db.Postgres {
		m.Services = f.hints.services()
	}
	return m
}

// Warnings returns what an operator should know about the other nodes.
func (f *Fleet) Warnings() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.idle {
		return []string{"no node of the role worker or all was seen for 20 seconds: deliveries wait"}
	}
	return nil
}

// register records that the node runs and counts the nodes.
func (f *Fleet) register(ctx context.Context) error {
	if f.cfg.DB.Engine() == db.SQLite {
		f.report(ctx, map[role.Role]int{f.cfg.Role: 1})
		return nil
	}
	now := f.cfg.Clock.Now()
	if err := f.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO nodes (id, role, seen_ms) VALUES ($1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET role = excluded.role, seen_ms = excluded.seen_ms`, f.cfg.Node, string(f.cfg.Role),
			clock.Millis(now)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM nodes WHERE seen_ms < $1", clock.Millis(now.Add(-forgetAfter)))
		return err
	}); err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	seen, err := Count(ctx, f.cfg.DB, now)
	if err == nil {
		f.report(ctx, seen)
	}
	return err
}

// Count returns how many nodes have registered lately, by role. On SQLite none does.
func Count(ctx context.Context, d *db.DB, now time.Time) (map[role.Role]int, error) {
	seen := map[role.Role]int{}
	if d.Engine() == db.SQLite {
		return seen, nil
	}
	rows, err := d.Reserved().QueryContext(ctx, "SELECT role, COUNT(*) FROM nodes WHERE seen_ms > $1 GROUP BY role",
		clock.Millis(now.Add(-life)))
	if err != nil {
		return nil, fmt.Errorf("count the nodes: %w", err)
	}
	if err := db.Each(rows, func(r *sql.Rows) error {
		var of role.Role
		var count int
		err := r.Scan(&of, &count)
		seen[of] = count
		return err
	}); err != nil {
		return nil, fmt.Errorf("count the nodes: %w", err)
	}
	return seen, nil
}

// Idle reports whether none of the nodes does what those that serve requests leave to workers.
func Idle(seen map[role.Role]int) bool {
	for of, count := range seen {
		if count > 0 && of.Does(role.Working) {
			return false
		}
	}
	return true
}

// report shows which nodes there are.
func (f *Fleet) report(ctx context.Context, seen map[role.Role]int) {
	for _, of := range []role.Role{role.All, role.API, role.Worker} {
		f.count.WithLabelValues(string(of)).Set(float64(seen[of]))
	}
	f.mu.Lock()
	before := f.idle
	f.idle = Idle(seen)
	now := f.idle
	f.mu.Unlock()
	switch {
	case now && !before:
		f.cfg.Logger.WarnContext(ctx, "no node of the role worker or all is seen: deliveries wait until one starts")
	case before && !now:
		f.cfg.Logger.InfoContext(ctx, "a node that sends deliveries is there again")
	}
}

// leave removes the node, so that it does not count any more.
func (f *Fleet) leave(ctx context.Context) error {
	if f.cfg.DB.Engine() == db.SQLite {
		return nil
	}
	return f.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM nodes WHERE id = $1", f.cfg.Node); err != nil {
			return fmt.Errorf("remove the node: %w", err)
		}
		return nil
	})
}
