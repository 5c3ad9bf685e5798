package connecting

import "github.com/prometheus/client_golang/prometheus"

// The outcomes of links.
const (
	outcomeMade      = "made"
	outcomeConnected = "connected"
)

// outcomes returns every outcome: a problem's code for what went wrong.
func outcomes() []string {
	return []string{outcomeMade, outcomeConnected, codeDeclined, codeMismatch, codeCredentials, codeProvider,
		codeClient, codeMisconfigured, codeUnavailable, codeSettingsChanged, codeLink}
}

type metrics struct{ links *prometheus.CounterVec }

func newMetrics() metrics {
	m := metrics{links: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_connect_links_total",
		Help: "Connect links by outcome: made, connected, or why an attempt under one failed; link: the link was used, " +
			"expired, unknown or another browser's."}, []string{"outcome"})}
	for _, outcome := range outcomes() {
		m.links.WithLabelValues(outcome) // so that the first count is seen as growth
	}
	return m
}
