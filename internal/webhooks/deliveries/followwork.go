package deliveries

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/fleet"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
)

// followSignal wakes the follower and says which subscriptions have changed.
type followSignal struct {
	wake jobs.Wake
	// relay, where set, passes what has changed on to other nodes, because no follower runs in this process.
	relay func(subscriptionIDs []string)

	mu    sync.Mutex
	named map[string]struct{}
	// any is set if others may have changed.
	any bool
}

func newFollowSignal(hints *fleet.Hints) *followSignal {
	s := &followSignal{wake: jobs.NewWake(), named: map[string]struct{}{}}
	if hints.Elsewhere() {
		s.relay = func(subscriptionIDs []string) { hints.Give(changedHint, subscriptionIDs...) }
	}
	return s
}

// changed reports that deliveries of these subscriptions may have to follow now.
func (s *followSignal) changed(subscriptionIDs ...string) {
	if s.relay != nil {
		s.relay(subscriptionIDs)
		return
	}
	s.mu.Lock()
	for _, sub := range subscriptionIDs {
		s.named[sub] = struct{}{}
	}
	s.mu.Unlock()
	s.wake.Signal()
}

// anyChanged is changed where it is not known of which.
func (s *followSignal) anyChanged() {
	if s.relay != nil {
		return // workers learn of breakers by themselves, and of the rest by polling
	}
	s.mu.Lock()
	s.any = true
	s.mu.Unlock()
	s.wake.Signal()
}

// take returns the subscriptions that have changed, and forgets them.
func (s *followSignal) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.named))
	for sub := range s.named {
		out = append(out, sub)
	}
	clear(s.named)
	slices.Sort(out)
	return out
}

// takeAny reports whether any subscription may have changed. With forget set, it and the names are forgotten.
func (s *followSignal) takeAny(forget bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.any
	if forget {
		s.any = false
		clear(s.named)
	}
	return found
}

// hasNamed reports whether subscriptions were named.
func (s *followSignal) hasNamed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.named) > 0
}

// pause limits the part of its time that a worker spends on something.
type pause struct {
	began  clock.Moment
	length time.Duration
}

// left returns for how long the pause still lasts.
func (p *pause) left(now clock.Moment) time.Duration {
	if p.began.IsZero() {
		return 0
	}
	return max(0, p.length-p.began.Elapsed(now))
}

// followWork holds the subscriptions whose deliveries must change. Environments take turns, and in each its
// subscriptions. Only the follower's goroutine uses it.
type followWork struct {
	ring *list.List // of *followTurns
	envs map[id.Environment]*followTurns
}

// followTurns are the subscriptions of an environment in followWork.
type followTurns struct {
	env     id.Environment
	ring    *list.List // of *followTask
	tasks   map[string]*followTask
	element *list.Element
}

// followTask is a subscription in followWork.
type followTask struct {
	openSubscription
	element *list.Element
	// releasing is how many more of its deliveries may be released of those that were allowed last.
	releasing int
}

func newFollowWork() *followWork {
	return &followWork{ring: list.New(), envs: map[id.Environment]*followTurns{}}
}

// add gives a subscription its turns, or takes over what is known of it now.
func (w *followWork) add(o openSubscription) {
	e := w.envs[o.Environment]
	if e == nil {
		e = &followTurns{env: o.Environment, ring: list.New(), tasks: map[string]*followTask{}}
		e.element = w.ring.PushBack(e)
		w.envs[o.Environment] = e
	}
	if t := e.tasks[o.ID]; t != nil {
		t.openSubscription = o
		return
	}
	t := &followTask{openSubscription: o}
	t.element = e.ring.PushBack(t)
	e.tasks[o.ID] = t
}

// next returns the next subscription in turn; nil if there is none.
func (w *followWork) next() *followTask {
	if w.ring.Len() == 0 {
		return nil
	}
	e, _ := w.ring.Front().Value.(*followTurns)
	w.ring.MoveToBack(e.element)
	t, _ := e.ring.Front().Value.(*followTask)
	e.ring.MoveToBack(t.element)
	return t
}

// done removes a subscription.
func (w *followWork) done(t *followTask) {
	e := w.envs[t.Environment]
	e.ring.Remove(t.element)
	delete(e.tasks, t.ID)
	if e.ring.Len() == 0 {
		w.ring.Remove(e.element)
		delete(w.envs, e.env)
	}
}
