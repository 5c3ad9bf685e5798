package filters

import "github.com/prometheus/client_golang/prometheus"

// Evaluations counts the evaluations of filters by outcome: matched, not_matched, not_evaluated for those that the
// limit of all filters on an event left out, or the code of the failure.
type Evaluations struct{ byOutcome *prometheus.CounterVec }

// NewEvaluations returns Evaluations without counts.
func NewEvaluations() *Evaluations {
	e := &Evaluations{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_filter_evaluations_total",
		Help: "Evaluations of subscriptions' filters by outcome."}, []string{"outcome"})}
	for _, outcome := range outcomes() {
		e.byOutcome.WithLabelValues(outcome) // so that the first count is seen as growth
	}
	return e
}

// Count counts an evaluation by its Result.Outcome.
func (e *Evaluations) Count(outcome string) { e.byOutcome.WithLabelValues(outcome).Inc() }
