package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/module"
)

// metrics are the pipeline's own metrics. Their labels are bounded: neither providers nor actions are among them,
// because environments make these.
type metrics struct {
	calls   *prometheus.CounterVec
	total   prometheus.Histogram
	own     prometheus.Histogram
	retries prometheus.Counter
}

func newMetrics() metrics {
	m := metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_calls_total",
			Help: "Calls to providers that the rules decided on, by outcome and by where they failed: gateway, policy, " +
				"provider, network, or none."}, []string{"outcome", "source"}),
		total: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sallyport_call_seconds",
			Help:    "Duration of calls to providers, waits and all attempts included.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120}}),
		own: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sallyport_call_overhead_seconds",
			Help:    "The part of calls in which no request to a provider was in progress.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10}}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_call_retries_total",
			Help: "Requests to providers that were sent after another one of the same call."}),
	}
	m.calls.WithLabelValues(string(Succeeded), "none")
	m.calls.WithLabelValues(string(Failed), string(apperr.SourceGateway))
	m.calls.WithLabelValues(string(Failed), string(apperr.SourceProvider))
	m.calls.WithLabelValues(string(Failed), string(apperr.SourceNetwork))
	return m
}

func (m *metrics) observe(c *Call) {
	source := "none"
	if c.Failure != nil {
		source = string(c.Failure.Call.Source)
	}
	m.calls.WithLabelValues(string(c.Outcome), source).Inc()
	m.total.Observe(c.Timing.Total.Seconds())
	m.own.Observe(max(0, c.Timing.Total-c.Timing.Upstream).Seconds())
	if n := len(c.Attempts); n > 1 {
		m.retries.Add(float64(n - 1))
	}
}

// Module returns what the pipeline brings to the process.
func (p *Pipeline) Module() module.Module {
	return module.Module{Name: "calls/gateway",
		Metrics: []prometheus.Collector{p.metrics.calls, p.metrics.total, p.metrics.own, p.metrics.retries}}
}
