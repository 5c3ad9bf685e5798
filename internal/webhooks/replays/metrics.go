package replays

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the capability's own metrics.
type metrics struct {
	// unfinished is the number of unfinished replays by state: queued, running, paused.
	unfinished *prometheus.GaugeVec
	// deliveries counts the deliveries of replays by outcome: started, skipped, and after their first attempt succeeded,
	// failed or other.
	deliveries *prometheus.CounterVec
}

func newMetrics() metrics {
	m := metrics{
		unfinished: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sallyport_webhook_replays",
			Help: "Unfinished bulk replays by state."}, []string{"status"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_webhook_replay_deliveries_total",
			Help: "Deliveries of bulk replays by outcome: started, skipped, and after their first attempt succeeded, failed " +
				"or other."}, []string{"outcome"}),
	}
	for _, outcome := range []string{outcomeStarted, outcomeSkipped, outcomeSucceeded, outcomeFailed, outcomeOther} {
		m.deliveries.WithLabelValues(outcome) // so that the first count is seen as growth
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.unfinished, m.deliveries}
}
