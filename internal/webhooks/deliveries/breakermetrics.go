package deliveries

import "github.com/prometheus/client_golang/prometheus"

// breakerMetrics are the metrics of breakers.
type breakerMetrics struct {
	// open counts the breakers that are open, of all processes.
	open prometheus.Gauge
	// opened, closed and disabled count what this process has done.
	opened, closed, disabled prometheus.Counter
	transitions              *prometheus.CounterVec
}

func newBreakerMetrics() breakerMetrics {
	m := breakerMetrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_delivery_breakers_open",
			Help: "Subscriptions whose deliveries are held because their receiver fails, of all processes."}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_delivery_breaker_transitions_total",
			Help: "Breakers of subscriptions that opened, that closed, and subscriptions disabled after five days of failures."},
			[]string{"to"}),
	}
	m.opened, m.closed = m.transitions.WithLabelValues("open"), m.transitions.WithLabelValues("closed")
	m.disabled = m.transitions.WithLabelValues("disabled")
	return m
}

func (m *breakerMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.open, m.transitions}
}
