package connections

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/clock"
	"sallyport/internal/providers/probes"
)

// Outcomes of periodic tests that sent nothing: skipped cannot be tested, postponed waits for others at its host.
const (
	outcomeSkipped   = "skipped"
	outcomePostponed = "postponed"
)

// checkMetrics are the metrics of periodic tests.
type checkMetrics struct {
	checks  *prometheus.CounterVec
	overdue prometheus.Collector
}

func newCheckMetrics(c clock.Clock, earliest func(context.Context) (time.Time, error)) checkMetrics {
	m := checkMetrics{overdue: &overdueChecks{clock: c, earliest: earliest},
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_connection_checks_total",
			Help: "Periodic tests of the credentials of connections by outcome; skipped and postponed ones sent nothing."},
			[]string{"outcome"})}
	for _, outcome := range []string{string(probes.Healthy), string(probes.Unknown), string(probes.Degraded),
		string(probes.Unhealthy), outcomeSkipped, outcomePostponed} {
		m.checks.WithLabelValues(outcome) // so that the first count is seen as growth
	}
	return m
}

func (m *checkMetrics) count(outcome string) { m.checks.WithLabelValues(outcome).Inc() }

func (m *checkMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.checks, m.overdue}
}

// overdueChecks reports, when it is scraped, for how long the oldest test has been due.
type overdueChecks struct {
	clock    clock.Clock
	earliest func(context.Context) (time.Time, error)
	last     atomic.Int64 // the last value in nanoseconds
}

// overdueTimeout bounds how long a scrape of the metrics waits for the database.
const overdueTimeout = 2 * time.Second

func (o *overdueChecks) desc() *prometheus.Desc {
	return prometheus.NewDesc("sallyport_connection_check_overdue_seconds",
		"Time for which the oldest periodic test of a connection's credentials has been due.", nil, nil)
}

// Describe implements prometheus.Collector.
func (o *overdueChecks) Describe(ch chan<- *prometheus.Desc) { ch <- o.desc() }

// Collect implements prometheus.Collector. It reports the last value while the database does not respond.
func (o *overdueChecks) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), overdueTimeout)
	defer cancel()
	if due, err := o.earliest(ctx); err == nil {
		age := time.Duration(0)
		if !due.IsZero() {
			age = max(0, o.clock.Now().Sub(due))
		}
		o.last.Store(int64(age))
	}
	ch <- prometheus.MustNewConstMetric(o.desc(), prometheus.GaugeValue, time.Duration(o.last.Load()).Seconds())
}
