package mails

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// countTimeout bounds how long a scrape of the metrics waits for the database.
const countTimeout = 2 * time.Second

// metrics are the capability's own metrics.
type metrics struct {
	queued prometheus.Collector
	// attempts counts attempts by kind of mail and outcome: sent, failed (sent again later), refused (permanently), expired
	// (given up).
	attempts *prometheus.CounterVec
}

// newMetrics returns metrics that count the mails that wait when they are scraped: a mail that was sent no longer waits.
func newMetrics(kinds []string, countWaiting func(ctx context.Context) (int64, error)) metrics {
	var last atomic.Int64 // of the last count that succeeded
	m := metrics{
		queued: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sallyport_mails_queued",
			Help: "Mails that wait to be sent."}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
			defer cancel()
			if n, err := countWaiting(ctx); err == nil {
				last.Store(n)
			}
			return float64(last.Load())
		}),
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
