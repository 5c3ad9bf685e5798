package ingest

import (
	"github.com/prometheus/client_golang/prometheus"
)

// newRequests counts inbound requests and published events by outcome; outcomes lists the values.
func newRequests() *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_webhook_events_total",
		Help: "Inbound webhook requests by outcome."}, []string{"outcome"})
	for _, outcome := range outcomes() {
		c.WithLabelValues(outcome) // so that the first count is seen as growth
	}
	return c
}
