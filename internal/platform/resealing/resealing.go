// Package resealing makes the nodes follow a rotation of the keyset: it encrypts in the background what an older key
// encrypted, and drops sealed values that are in memory when keys have changed.
package resealing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
)

const (
	// interval is how often a node looks whether the keyset has changed.
	interval = 5 * time.Second
	// passInterval is how often a node looks through all values without a reason.
	passInterval = time.Hour
	// followed is how long after a rotation all nodes that share the file use the new key. A pass that began earlier can
	// miss values.
	followed = 10 * time.Second
	// lockCheck is how often the lock is checked during a pass.
	lockCheck = 5 * time.Second
)

// Config configures a Worker. All fields are needed.
type Config struct {
	DB     *db.DB
	Clock  clock.Clock
	Box    *secretbox.Box
	Logger *slog.Logger
	// Modules are those of the process: their sealed columns are encrypted again, and their caches dropped.
	Modules []module.Module
}

// Worker follows the keyset.
type Worker struct {
	cfg     Config
	columns []secretbox.Column
	values  *prometheus.GaugeVec
	changed prometheus.Counter

	// The state of the job that encrypts again, which runs in one goroutine: the key that encrypts and since when, and
	// when the next pass is due.
	primary uint32
	since   time.Time
	due     time.Time

	// changes is the number of changes of the keyset for which the caches were dropped.
	changes int64
}

// New returns a Worker.
func New(c Config) *Worker {
	return &Worker{cfg: c, columns: module.SealedColumns(c.Modules),
		values: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sallyport_sealed_values",
			Help: "Encrypted values in the database when this node last counted them, at least hourly and during a rotation: " +
				"those of the current key, and those of older keys, which are encrypted again."}, []string{"key"}),
		changed: prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_resealed_values_total",
			Help: "Values of older keys that this node has encrypted again with the current key."})}
}

// Module returns what the worker brings to the process.
func (w *Worker) Module() module.Module {
	return module.Module{Name: "platform/resealing", Metrics: []prometheus.Collector{w.values, w.changed},
		Jobs: []jobs.Periodic{
			{Name: "follow-keyset", Run: jobs.Every(interval, w.follow)},
			{Name: "reseal-values", Part: role.Working, Run: w.reseal,
				Failure: "cannot encrypt all values with the current key"},
		}}
}

// follow drops all caches when the keyset has changed, because they can hold values of a key that was removed.
func (w *Worker) follow(context.Context) error {
	changes := w.cfg.Box.Changes()
	if changes == w.changes {
		return nil
	}
	w.changes = changes
	for _, m := range w.cfg.Modules {
		for _, c := range m.Caches {
			c.Drop()
		}
	}
	return nil
}

// reseal makes a pass if one is due. After a rotation it makes passes until one finds nothing of an older key.
func (w *Worker) reseal(ctx context.Context) (time.Duration, error) {
	now, primary := w.cfg.Clock.Now(), w.cfg.Box.PrimaryKeyID()
	if primary != w.primary {
		if w.primary != 0 {
			w.since = now
		}
		w.primary, w.due = primary, now
	}
	if now.Before(w.due) {
		return interval, nil
	}
	lock, free, err := w.cfg.DB.TryLock(ctx, db.LockReseal)
	if err != nil || !free {
		return interval, err
	}
	older, err := w.pass(ctx, lock)
	err = errors.Join(err, lock.Unlock(context.WithoutCancel(ctx)))
	switch {
	case err != nil, older == 0 && now.Sub(w.since) >= followed:
		w.due = now.Add(passInterval)
	default:
		w.due = now.Add(followed)
	}
	return interval, err
}

// pass counts the values and encrypts again what is under older keys, and returns how many of those it counted.
func (w *Worker) pass(ctx context.Context, lock *db.Lock) (older int, err error) {
	counts, err := secretbox.Count(ctx, w.cfg.DB, w.columns)
	if err != nil {
		return 0, err
	}
	current := counts[w.primary]
	for _, n := range counts {
		older += n
	}
	older -= current
	w.show(current, older)
	if older == 0 {
		return 0, nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	before, checked := 0, w.cfg.Clock.Now()
	var column secretbox.Column
	total, err := secretbox.Reseal(ctx, w.cfg.DB, w.cfg.Box, w.columns, func(p secretbox.Progress) {
		if p.Column != column {
			column, before = p.Column, 0
		}
		n := p.Changed - before
		before = p.Changed
		w.changed.Add(float64(n))
		current, older = current+n, max(0, older-n)
		w.show(current, older)
		if now := w.cfg.Clock.Now(); now.Sub(checked) >= lockCheck {
			checked = now
			if err := lock.Check(ctx); err != nil {
				stop(err)
			}
		}
	})
	if total.Changed > 0 {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "encrypted values again with the current key",
			slog.String("job", "reseal-values"), slog.Int("values", total.Changed))
	}
	if err != nil {
		return total.Changed + total.Left, fmt.Errorf("%w (after %d values)", errors.Join(err, context.Cause(ctx)),
			total.Changed)
	}
	return total.Changed + total.Left, nil
}

func (w *Worker) show(current, older int) {
	w.values.WithLabelValues("current").Set(float64(current))
	w.values.WithLabelValues("older").Set(float64(older))
}
