package calllog

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// DefaultKeep is how long calls are kept.
const DefaultKeep = 90 * 24 * time.Hour

// expireInterval is how often calls that are too old are deleted.
const expireInterval = time.Minute

// Module returns what the call log brings to the process, without its operations.
func (l *Log) Module() module.Module {
	return module.Module{
		Name:   "calls/calllog",
		Tables: []module.Table{{Name: "calls", Outlives: "they are the record of what was done"}},
		Services: []module.Service{{Name: "call-log",
			Start: func(context.Context) error {
				go l.run()
				return nil
			},
			Stop: func(ctx context.Context) error {
				l.once.Do(func() { close(l.stop) })
				select {
				case <-l.stored:
				case <-ctx.Done():
					l.end()
					<-l.stored
				}
				return nil
			}}},
		Jobs: []jobs.Periodic{{Name: "expire-calls", Part: role.Working, Run: jobs.Every(expireInterval, l.expire),
			Failure: "cannot delete old records of calls"}},
		Metrics: []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sallyport_calls_unrecorded",
			Help: "Calls to providers that have ended and whose record is not stored yet."},
			func() float64 { return float64(l.behind.Load()) })},
	}
}

// expireRows is how many calls one transaction deletes.
const expireRows = 500

// expire deletes calls that are too old, in short transactions.
func (l *Log) expire(ctx context.Context) error {
	ctx = db.WithTurn(ctx, db.TurnJob)
	before := id.FirstUUID(l.cfg.Clock.Now().Add(-l.cfg.Keep))
	for {
		var n int64
		err := l.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
			var err error
			n, err = db.Affected(tx.ExecContext(ctx, `DELETE FROM calls WHERE id IN
				(SELECT id FROM calls WHERE id < $1 ORDER BY id LIMIT `+strconv.Itoa(expireRows)+`)`, before))
			return err
		})
		if err != nil {
			return fmt.Errorf("delete old calls: %w", err)
		}
		if n < expireRows {
			return nil
		}
	}
}
