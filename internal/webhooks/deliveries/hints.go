package deliveries

import (
	"strings"
	"time"

	"sallyport/internal/platform/id"
)

// The topics of the hints by which a node that serves requests shows workers on other nodes what there is to do.
const (
	// dueHint names subscriptions with deliveries that are due, each with its environment before it.
	dueHint = "deliveries-due"
	// changedHint names subscriptions whose deliveries may have to follow them.
	changedHint = "deliveries-changed"
	// fanoutHint says that deliveries of an event are left to store.
	fanoutHint = "deliveries-fanout"
)

// waiting shows the workers that deliveries of subscriptions wait in the table since that time, after the commit that
// stored them: those of this process or, if it has none, those of other nodes.
func (s *Service) waiting(env id.Environment, due time.Time, subscriptionIDs ...string) {
	if !s.store.hints.Elsewhere() {
		s.claimer.note(env, due, subscriptionIDs...)
		return
	}
	if len(subscriptionIDs) == 0 {
		return // it is the hint that names none which means all
	}
	keys := make([]string, len(subscriptionIDs))
	for i, sub := range subscriptionIDs {
		keys[i] = string(env) + " " + sub
	}
	s.store.hints.Give(dueHint, keys...)
}

// fannedOut shows the workers that deliveries of an event are left to store.
func (s *Service) fannedOut() {
	s.fanouts.queue.Wake()
	s.store.hints.Give(fanoutHint)
}

// hearHints makes the workers of this process hear the hints of other nodes.
func hearHints(s *Service) {
	s.store.hints.On(dueHint, func(keys []string) {
		if len(keys) == 0 {
			s.store.follow.anyChanged()
			return
		}
		now := s.clock.Now()
		for _, key := range keys {
			if env, sub, ok := strings.Cut(key, " "); ok {
				s.claimer.note(id.Environment(env), now, sub)
			}
		}
	})
	s.store.hints.On(changedHint, func(keys []string) {
		if len(keys) == 0 {
			s.store.follow.anyChanged()
			return
		}
		s.store.follow.changed(keys...)
	})
	s.store.hints.On(fanoutHint, func([]string) { s.fanouts.queue.Wake() })
}
