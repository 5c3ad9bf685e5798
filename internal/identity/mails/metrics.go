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
	// attempts counts attempts by kind of mail and outcome: sent, failed (sent again later), refused (permanently),
	// expired (no further attempt).
	attempts *prometheus.CounterVec
}

// newMetrics returns the metrics of the kinds of mail. countWaiting counts the mails that wait.
func newMetrics(kinds []string, countWaiting func(ctx context.Context) (int64, error)) metrics {
	m := metrics{
		queued: &waitingMails{count: countWaiting},
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

// waitingMails counts the mails that wait when it is scraped: a mail that was sent no longer waits.
type waitingMails struct {
	count func(ctx context.Context) (int64, error)
	last  atomic.Int64 // the last count that succeeded
}

func (w *waitingMails) desc() *prometheus.Desc {
	return prometheus.NewDesc("sallyport_mails_queued", "Mails that wait to be sent.", nil, nil)
}

// Describe implements prometheus.Collector.
func (w *waitingMails) Describe(ch chan<- *prometheus.Desc) { ch <- w.desc() }

// Collect implements prometheus.Collector. It reports the last count while the database does not respond.
func (w *waitingMails) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	if n, err := w.count(ctx); err == nil {
		w.last.Store(n)
	}
	ch <- prometheus.MustNewConstMetric(w.desc(), prometheus.GaugeValue, float64(w.last.Load()))
}
