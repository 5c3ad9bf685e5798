package tokens

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of renewals, as the metric has them.
const (
	outcomeRenewed       = "renewed"
	outcomeDead          = "grant_dead"
	outcomeClientRefused = "client_refused"
	outcomeMisconfigured = "misconfigured"
	outcomeFailed        = "failed"
	outcomeReplaced      = "replaced"
	outcomeMoved         = "host_changed"
	outcomeEnded         = "expired"
)

type metrics struct {
	// renewals counts renewals by outcome.
	renewals *prometheus.CounterVec
	// latency is the time of an exchange with a token endpoint.
	latency prometheus.Histogram
	// oldest is the age of the renewal that has been due longest.
	oldest prometheus.Gauge
	// inFlight are the exchanges in progress of this node's worker.
	inFlight prometheus.Gauge
}

func newMetrics() metrics {
	m := metrics{
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_token_refreshes_total",
			Help: "Refreshes of connections' tokens by outcome. grant_dead and expired need a user; client_refused and " +
				"misconfigured need an operator; failed is retried."}, []string{"outcome"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "sallyport_token_endpoint_seconds",
			Help:    "Time of requests to token endpoints.",
			Buckets: []float64{0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20}}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_token_refresh_oldest_seconds",
			Help: "Age of the token refresh that has been due longest."}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_token_refreshes_in_flight",
			Help: "Token refreshes that this node's worker has in progress."}),
	}
	for _, outcome := range []string{outcomeRenewed, outcomeDead, outcomeClientRefused, outcomeMisconfigured,
		outcomeFailed, outcomeReplaced, outcomeMoved, outcomeEnded} {
		m.renewals.WithLabelValues(outcome) // so that the first count is seen as growth
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.renewals, m.latency, m.oldest, m.inFlight}
}

func (m *metrics) count(outcome string) {
	if outcome != "" {
		m.renewals.WithLabelValues(outcome).Inc()
	}
}

// measure brings the gauge of the oldest renewal up to date.
func (s *Service) measure(ctx context.Context) error {
	age, err := oldestDue(ctx, s.cfg.DB.Read(), s.cfg.Clock.Now())
	if err == nil {
		s.metrics.oldest.Set(age.Seconds())
	}
	return err
}
