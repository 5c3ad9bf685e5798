package filters

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

const (
	// MaxEventCost limits the cost of all filters on one event, in the units of MaxCost.
	MaxEventCost = 5 * MaxCost
	// maxOpened is how many bytes of JSON the filters of one event may open together: all that one filter may, and half of
	// that for the others. A part that is open costs the next filter nothing.
	maxOpened = maxScanned + maxScanned/2
)

// Screen evaluates filters on one event within MaxEventCost, each once. It is for one goroutine at a time.
type Screen struct {
	event   *Event
	spent   uint64
	results map[*Filter]Result
}

// NewScreen returns a Screen without results. Nothing else may evaluate filters on the event.
func NewScreen(e *Event) *Screen {
	e.openable = new(int64(maxOpened))
	return &Screen{event: e, results: map[*Filter]Result{}}
}

// Evaluate evaluates the filters that have no result yet, and returns the new results. Those that are cheap, by the
// estimate made of their text, come first, so that a costly filter can use up only what cheaper ones leave. Once the
// filters have cost MaxEventCost, the rest are not evaluated: they do not match, and the result says why. The last one
// evaluated may exceed the limit. Once they have opened as much of the event's JSON as they may together, a filter that
// needs more is not evaluated either; one that reads what is open is.
//
// The limits are those of the event. So a filter of a later call, even a cheap one, finds what the earlier calls have
// left. That concerns only subscriptions that change while the event is received.
func (s *Screen) Evaluate(list []*Filter) (fresh []Result) {
	open := slices.DeleteFunc(slices.Clone(list), func(f *Filter) bool {
		_, known := s.results[f]
		return known
	})
	slices.SortFunc(open, func(a, b *Filter) int {
		return cmp.Or(cmp.Compare(a.estimate(), b.estimate()), cmp.Compare(a.text, b.text))
	})
	for _, f := range slices.Compact(open) {
		r := s.evaluate(f)
		s.results[f] = r
		fresh = append(fresh, r)
	}
	s.event.close()
	return fresh
}

func (s *Screen) evaluate(f *Filter) Result {
	if s.spent >= MaxEventCost {
		return Result{NotEvaluated: true, Failure: &Failure{CodeCost, fmt.Sprintf("The filters of all subscriptions cost "+
			"more than %d on this event. This one was not evaluated, because it is among the costliest by its text.",
			MaxEventCost)}}
	}
	r := f.Eval(s.event)
	s.spent += r.Cost
	if errors.Is(s.event.failed(), errNotOpened) {
		return Result{NotEvaluated: true, Cost: r.Cost, Failure: &Failure{CodeCost, fmt.Sprintf("The filters of all "+
			"subscriptions look through more than %d MiB of this event. This one was not evaluated, because it needs a part "+
			"of the body that none before it has read.", maxOpened>>20)}}
	}
	return r
}

// Has reports whether the filter has a result.
func (s *Screen) Has(f *Filter) bool {
	_, known := s.results[f]
	return known
}

// Result returns the result of a filter that was evaluated.
func (s *Screen) Result(f *Filter) Result { return s.results[f] }

// estimate returns what an evaluation is expected to cost at most on an event of ordinary size.
func (f *Filter) estimate() uint64 {
	if p := f.compiled(); p != nil {
		return p.estimate
	}
	return 0
}
