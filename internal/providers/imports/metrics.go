package imports

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	ended       *prometheus.CounterVec
	activations prometheus.Counter
	unfinished  *prometheus.GaugeVec
}

func newMetrics() metrics {
	m := metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_catalog_imports_total",
			Help: "Imports of descriptions of APIs that this process has read, by outcome."}, []string{"outcome"}),
		activations: prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_catalog_activations_total",
			Help: "Imports that were made the active version of their provider."}),
		unfinished: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sallyport_catalog_imports_unfinished",
			Help: "Imports that wait or are being read, by status."}, []string{"status"}),
	}
	for _, outcome := range []Status{Ready, Failed} {
		m.ended.WithLabelValues(string(outcome))
	}
	for _, status := range []Status{Queued, Running} {
		m.unfinished.WithLabelValues(string(status))
	}
	return m
}

func (m *metrics) count(outcome Status) { m.ended.WithLabelValues(string(outcome)).Inc() }

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.ended, m.activations, m.unfinished}
}
