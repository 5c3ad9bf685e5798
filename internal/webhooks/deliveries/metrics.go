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
	// leasesLost counts leases that were lost to other processes, by what the delivery was doing: waiting or sending.
	leasesLost *prometheus.CounterVec
	// postponed counts attempts that did not start, because their lease had to be renewed first.
	postponed prometheus.Counter
	// queueDepth and queueOldest describe the deliveries that are due.
	queueDepth, queueOldest prometheus.Gauge
	breakers                breakerMetrics
}

func newMetrics() metrics {
	m := metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_delivery_attempts_total",
			Help: "Delivery attempts by outcome."}, []string{"outcome"}),
		firstAttempt: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sallyport_receipt_to_first_attempt_seconds",
			Help: "Time from an event's receipt to the start of a delivery's first attempt.", Buckets: obs.FastBuckets()}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_deliveries_in_flight",
			Help: "Delivery attempts in progress."}),
		leasesLost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_delivery_leases_lost_total",
			Help: "Leases of deliveries in memory that were lost to other processes. Those of waiting deliveries cost " +
				"nothing; an attempt that was being sent is interrupted, and its receiver can get a duplicate."},
			[]string{"delivery"}),
		postponed: prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_delivery_attempts_postponed_total",
			Help: "Delivery attempts that did not start because their lease might have ended; it is renewed first."}),
		queueDepth: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_delivery_queue_depth",
			Help: "Deliveries that are due and that no worker has claimed (counted up to 100,000)."}),
		queueOldest: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_delivery_queue_oldest_seconds",
			Help: "Age of the oldest delivery that is due."}),
		breakers: newBreakerMetrics(),
	}
	for _, status := range []Status{Succeeded, RetryWait, Dead} {
		m.attempts.WithLabelValues(outcomeLabel(status)) // so that the first count is seen as growth
	}
	for _, delivery := range []string{"waiting", "sending"} {
		m.leasesLost.WithLabelValues(delivery)
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return append(m.breakers.collectors(), m.attempts, m.firstAttempt, m.inFlight, m.leasesLost, m.postponed,
		m.queueDepth, m.queueOldest)
}
