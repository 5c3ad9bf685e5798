package filters

import (
	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/module"
)

// Evaluations counts what the filters of subscriptions said of events, by outcome: matched, not_matched, or the code of
// the failure.
type Evaluations struct{ byOutcome *prometheus.CounterVec }

// NewEvaluations returns an Evaluations that has counted nothing.
func NewEvaluations() *Evaluations {
	e := &Evaluations{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_filter_evaluations_total",
		Help: "Evaluations of subscriptions' filters by outcome."}, []string{"outcome"})}
	for _, outcome := range outcomes() {
		e.byOutcome.WithLabelValues(outcome) // so that the first count is seen as growth
	}
	return e
}

// Count counts an evaluation, whose outcome is that of Result.Outcome.
func (e *Evaluations) Count(outcome string) { e.byOutcome.WithLabelValues(outcome).Inc() }

// Module returns what filters bring to the process.
func (e *Evaluations) Module() module.Module {
	return module.Module{Name: "webhooks/filters", Metrics: []prometheus.Collector{e.byOutcome}}
}
