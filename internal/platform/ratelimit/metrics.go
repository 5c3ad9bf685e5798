package ratelimit

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the limiter's own metrics.
type metrics struct {
	// limited counts requests over a limit, by the kind of sender: api_key, user, address, connection.
	limited *prometheus.CounterVec
	// leaseFailures counts the times that slices could not be leased.
	leaseFailures prometheus.Counter
}

func newMetrics() metrics {
	return metrics{
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_rate_limited_total",
			Help: "Requests over a rate limit, by the kind of sender."}, []string{"by"}),
		leaseFailures: prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_rate_limit_lease_failures_total",
			Help: "Times that this node could not share rate limits with the others, and applied its share of them."}),
	}
}

// Metrics returns the limiter's own metrics.
func (l *Limiter) Metrics() []prometheus.Collector {
	return []prometheus.Collector{l.metrics.limited, l.metrics.leaseFailures}
}
