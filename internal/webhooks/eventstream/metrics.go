package eventstream

import (
	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/obs"
)

// metrics are the capability's own metrics.
type metrics struct {
	readers prometheus.Gauge
	// messages counts messages by kind; one to ten readers is ten.
	messages *prometheus.CounterVec
	// closed counts ended streams by reason; lagged are those whose reader was left behind.
	closed *prometheus.CounterVec
	// delay is the time from a change of an event until its message waits for the readers.
	delay prometheus.Histogram
}

func newMetrics() metrics {
	m := metrics{
		readers: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_stream_readers",
			Help: "Open streams of events."}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_stream_messages_total",
			Help: "Messages sent to readers of streams, by kind."}, []string{"kind"}),
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_streams_closed_total",
			Help: "Ended streams by reason."}, []string{"reason"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sallyport_stream_delay_seconds",
			Help:    "Time from a change of an event until its message waits for the readers of streams.",
			Buckets: obs.FastBuckets()}),
	}
	for _, reason := range reasons() {
		m.closed.WithLabelValues(string(reason)) // so that the first count is seen as growth
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.readers, m.messages, m.closed, m.delay}
}
