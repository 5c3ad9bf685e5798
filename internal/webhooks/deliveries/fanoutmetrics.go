package deliveries

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

// fanoutMetrics describe the fan-outs that are not complete: acknowledged events with deliveries that are not stored,
// which no other gauge counts.
type fanoutMetrics struct{ waiting, oldest prometheus.Gauge }

func newFanoutMetrics() fanoutMetrics {
	return fanoutMetrics{
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_delivery_fanouts",
			Help: "Events whose deliveries are not all stored yet (counted up to 100,000)."}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_delivery_fanouts_oldest_seconds",
			Help: "Age of the oldest event whose deliveries are not all stored yet."}),
	}
}

// fanoutInterval is how often the fan-outs are measured.
const fanoutInterval = 5 * time.Second

// ReportFanouts returns the module of deliveries with the job and the gauges that report on fan-outs.
func (s *Service) ReportFanouts(m module.Module) module.Module {
	m.Metrics = append(m.Metrics, s.fanouts.metrics.waiting, s.fanouts.metrics.oldest)
	m.Jobs = append(m.Jobs, jobs.Periodic{Name: "measure-fanouts", Run: jobs.Every(fanoutInterval, s.fanouts.measure),
		Failure: "cannot measure the fan-outs"})
	return m
}

// measure sets the gauges.
func (f *fanouts) measure(ctx context.Context) error {
	waiting, oldest, err := f.store.waitingFanouts(ctx)
	if err != nil {
		return err
	}
	age := time.Duration(0)
	if waiting > 0 {
		age = max(0, f.clock.Now().Sub(oldest))
	}
	f.metrics.waiting.Set(float64(waiting))
	f.metrics.oldest.Set(age.Seconds())
	return nil
}

// waitingFanouts returns the number of fan-outs, up to DepthLimit, and when the oldest event among them was received. A
// fan-out becomes due again and again, but the id of its event has the time.
func (s *Store) waitingFanouts(ctx context.Context) (n int64, oldest time.Time, err error) {
	var first sql.NullString
	if err := s.db.Read().QueryRowContext(ctx, `SELECT COUNT(*), MIN(f.event_uuid) FROM (SELECT event_uuid
		FROM delivery_fanouts ORDER BY event_uuid LIMIT `+strconv.Itoa(DepthLimit)+`) f`).Scan(&n, &first); err != nil {
		return 0, time.Time{}, fmt.Errorf("measure the fan-outs: %w", err)
	}
	return n, id.Time(first.String), nil
}
