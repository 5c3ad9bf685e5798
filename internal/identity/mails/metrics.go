package mails

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the capability's own metrics.
type metrics struct {
	queued prometheus.Gauge
	// attempts counts attempts by kind of mail and outcome: sent, failed (sent again later), refused (permanently), expired
	// (given up).
	attempts *prometheus.CounterVec
}

func newMetrics(kinds []string) metrics {
	m := metrics{
		queued: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_mails_queued",
			Help: "Mails that wait to be sent."}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_mail_attempts_total",
			Help: "Attempts to send mails by kind and outcome; expired: dropped because the mail is out of date."},
			[]string{"kind", "outcome"}),
	}
	for _, kind := range kinds {
		for _, outcome := range []string{outcomeSent, outcomeFailed, outcomeRefused, outcomeExpired} {
			m.attempts.WithLabelValues(kind, outcome) // so that the first count is seen as growth
		}
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.queued, m.attempts}
}
