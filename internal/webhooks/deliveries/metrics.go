package deliveries

import (
	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/obs"
)

// metrics are the capability's own metrics.
type metrics struct {
	// attempts counts attempts by outcome: succeeded, failed, dead.
	attempts *prometheus.CounterVec
	// firstAttempt is the time from an event's receipt to the start of a delivery's first attempt.
	firstAttempt prometheus.Histogram
	inFlight     prometheus.Gauge
	// queueDepth and queueOldest describe the deliveries that are due.
	queueDepth, queueOldest prometheus.Gauge
}

func newMetrics() metrics {
	m := metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_delivery_attempts_total",
			Help: "Delivery attempts by outcome."}, []string{"outcome"}),
		firstAttempt: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sallyport_receipt_to_first_attempt_seconds",
			Help: "Time from an event's receipt to the start of a delivery's first attempt.", Buckets: obs.FastBuckets()}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_deliveries_in_flight",
			Help: "Delivery attempts in progress."}),
		queueDepth: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_delivery_queue_depth",
			Help: "Deliveries that are due and that no worker has claimed (counted up to 100,000)."}),
		queueOldest: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_delivery_queue_oldest_seconds",
			Help: "Age of the oldest delivery that is due."}),
	}
	for _, status := range []Status{Succeeded, RetryWait, Dead} {
		m.attempts.WithLabelValues(outcomeLabel(status)) // so that the first count is seen as growth
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.attempts, m.firstAttempt, m.inFlight, m.queueDepth, m.queueOldest}
}
