package retention

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the capability's own metrics.
type metrics struct {
	// removed counts removed rows by kind: payload, partition, event, delivery, attempt, key; and as ended the deliveries
	// that ended because their payload had expired.
	removed *prometheus.CounterVec
	// overdue is for how long the oldest payload or event has been due for removal, on the node that removes.
	overdue *prometheus.GaugeVec
}

func newMetrics() metrics {
	m := metrics{
		removed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_retention_removed_total",
			Help: "Deletions of retention by kind; ended: deliveries that it ended with their payload."}, []string{"what"}),
		overdue: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sallyport_retention_overdue_seconds",
			Help: "Time for which the oldest payload or event has been due for deletion, on the node that deletes; 0 on " +
				"others."},
			[]string{"what"}),
	}
	for _, what := range []string{kindPayload, kindPartition, kindEvent, kindDelivery, kindAttempt, kindKey, kindEnded} {
		m.removed.WithLabelValues(what) // so that the first count is seen as growth
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.removed, m.overdue}
}
