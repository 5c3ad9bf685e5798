package limiter

import (
	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

// metrics count the decisions.
type metrics struct {
	requests *prometheus.CounterVec
	limited  prometheus.Counter
}

func newMetrics() metrics {
	m := metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_provider_requests_total",
		Help: "Requests to providers that asked for a place in their limits, by outcome: passed, waited or refused."},
		[]string{"outcome"}), limited: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sallyport_provider_limited_total", Help: "Responses of providers that refused a request because of a limit."})}
	for _, outcome := range []string{"passed", "waited", "refused"} {
		m.requests.WithLabelValues(outcome)
	}
	return m
}

func (m *metrics) count(waited, refused bool) {
	outcome := "passed"
	switch {
	case refused:
		outcome = "refused"
	case waited:
		outcome = "waited"
	}
	m.requests.WithLabelValues(outcome).Inc()
}

// Module returns what the limiter brings to the process.
func (l *Limiter) Module() module.Module {
	return module.Module{Name: "providers/limiter",
		Tables: []module.Table{{Name: "connection_rate_limits",
			Outlives: "its rows are parts of connections, which are counted"}},
		ShiftTimes: shiftTimes,
		Metrics:    []prometheus.Collector{l.metrics.requests, l.metrics.limited},
		Jobs: []jobs.Periodic{{Name: "share-provider-limits", Run: jobs.Every(syncInterval, l.sync), Last: l.sync, Warn: true,
			Failure: "cannot share what providers say about their limits"}}}
}
