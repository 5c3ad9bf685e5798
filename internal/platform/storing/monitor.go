// Package storing knows whether this node can store events, from the transactions that fail, from a small write of its
// own, and from the free space of its folders.
package storing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/datadir"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

const (
	// idleInterval is the interval of the probes while everything is stored, and failingInterval otherwise.
	idleInterval, failingInterval = 5 * time.Second, time.Second
	// probeTimeout bounds a probe. One that takes longer shows nothing: the writer may be busy.
	probeTimeout = 3 * time.Second
	// maxSilence is how long probes may show nothing before the node counts as one that cannot store.
	maxSilence = 15 * time.Second
	// calm is how long no transaction must have failed before a probe shows that all is well: a probe can find room
	// where a larger transaction does not.
	calm = 2 * time.Second
)

var errSilent = errors.New("the database does not store anything in time")

// Config configures a Monitor.
type Config struct {
	DB     *db.DB
	Logger *slog.Logger
	// Node names this process among those that share the database.
	Node string
	// Folders are those in which this node writes.
	Folders []Folder
	// Free returns the free space of a folder in bytes; nil means datadir.Free.
	Free func(folder string) (uint64, error)
	// Clock shows the age of observations. It is real time unless a test sets it.
	Clock clock.Clock
	// DueTimes is the machine's clock, if due times are stored by it; nil where the database has a clock. Each probe
	// stores what it shows.
	DueTimes clock.Clock
}

// Monitor knows whether events can be stored. It is safe for concurrent use.
type Monitor struct {
	cfg      Config
	wake     jobs.Wake
	writable prometheus.Gauge
	free     *prometheus.GaugeVec

	mu sync.Mutex
	// reason is why events cannot be stored; nil if they can.
	reason error
	// low holds the folders with too little space.
	low map[string]bool
	// failed is when a transaction last failed because nothing is stored, and stored when a probe last succeeded.
	failed, stored time.Time
}

// New returns a Monitor, which from now on hears of transactions that fail.
func New(c Config) *Monitor {
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Free == nil {
		c.Free = datadir.Free
	}
	m := &Monitor{cfg: c, wake: jobs.NewWake(), low: map[string]bool{}, stored: c.Clock.Now(),
		writable: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_store_writable",
			Help: "Whether this node can store events: 1 or 0. At 0 it is not ready."}),
		free: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sallyport_disk_free_bytes",
			Help: "Free space of the folders in which this node writes."}, []string{"folder"})}
	m.writable.Set(1)
	if c.DB != nil {
		c.DB.OnNotStoring(m.transactionFailed)
	}
	return m
}

// Module returns the module of the monitor.
func (m *Monitor) Module() module.Module {
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sallyport_store_waiting_writers",
		Help: "Transactions that wait for the writer of SQLite."}, func() float64 { return float64(m.cfg.DB.Waiting()) })
	return module.Module{Name: "platform/storing", Metrics: []prometheus.Collector{m.writable, m.free, waiting},
		Tables: []module.Table{{Name: "store_probes"}}, ShiftTimes: m.shiftTimes,
		Jobs: []jobs.Periodic{{Name: "probe-store", Failure: "cannot probe whether events can be stored", Warn: true,
			Wake: m.wake, Run: m.Probe}}}
}

// Check returns the error of a node that cannot store events, with the reason, or nil.
func (m *Monitor) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	reason := m.reason
	if reason == nil && m.cfg.Clock.Now().Sub(m.stored) > maxSilence {
		reason = errSilent
	}
	if reason == nil {
		return nil
	}
	return apperr.New(apperr.CodeUnavailable, "Events cannot be stored: "+reason.Error()).RetryIn(calm)
}

// transactionFailed records that a transaction failed for a reason for which nothing is stored.
func (m *Monitor) transactionFailed(reason error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = m.cfg.Clock.Now()
	m.set(reason)
	m.wake.Signal()
}

// SpoolFailed records that a body could not be written in the spool folder. It does not wait for the next probe, which
// a full disk can leave room for.
func (m *Monitor) SpoolFailed() { m.transactionFailed(unwritable(SpoolFolder)) }

// set sets the reason and logs a change; m.mu is held.
func (m *Monitor) set(reason error) {
	ctx := context.Background()
	switch {
	case reason != nil && m.reason == nil:
		m.writable.Set(0)
		m.cfg.Logger.ErrorContext(ctx, "events cannot be stored; the node is not ready",
			slog.String("reason", reason.Error()))
	case reason == nil && m.reason != nil:
		m.writable.Set(1)
		m.cfg.Logger.InfoContext(ctx, "events can be stored again")
	}
	m.reason = reason
}

// Probe looks whether this node can write what events need, and returns when to look again.
func (m *Monitor) Probe(ctx context.Context) (time.Duration, error) {
	m.mu.Lock()
	began, failing := m.cfg.Clock.Now(), m.reason != nil
	m.mu.Unlock()
	err := m.probeFolders(failing)
	if err == nil {
		err = m.probeDatabase(ctx, failing)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	reason := reasonOf(err)
	switch {
	case err == nil && m.cfg.Clock.Now().Sub(m.failed) >= calm:
		m.stored = began
		m.set(nil) //nolint:contextcheck // a change is logged for no request
	case reason != nil:
		m.set(reason) //nolint:contextcheck // as above
		err = nil     // logged with the change
	}
	if m.reason != nil || err != nil {
		return failingInterval, err
	}
	return idleInterval, nil
}

// reasonOf returns the reason for which nothing is stored, if err shows one.
func reasonOf(err error) error {
	var folder *folderError
	if errors.As(err, &folder) {
		return folder
	}
	return db.NotStoring(err)
}

// fillerSize is the size of what a probe writes while the store fails: more than what may be free in the files already.
const fillerSize = 256 << 10

// probeDatabase writes this node's row, by a transaction like any other.
func (m *Monitor) probeDatabase(ctx context.Context, failing bool) error {
	ctx, cancel := context.WithTimeout(db.WithTurn(ctx, db.TurnRequest), probeTimeout)
	defer cancel()
	if err := m.writeRow(ctx, failing); err != nil {
		return fmt.Errorf("write a probe: %w", err)
	}
	return nil
}
