package ratelimit

import "time"

// How nodes share a limit.
const (
	// sliceLife is for how long a slice may be spent. What is left of it then goes back.
	sliceLife = 2 * time.Second
	// maxWait bounds how long a request waits for a slice. After that the node decides by itself.
	maxWait = 50 * time.Millisecond
	// askPause is the least time between two questions of a node about a limit that has nothing left.
	askPause = 25 * time.Millisecond
	// A slice is a fortieth of the burst and what comes free in an eighth of a second, whichever is less: four nodes hold
	// a tenth.
	burstPart, ratePart = 40, 8
)

// slice is what a node holds of a limit, guarded by its state's lock.
type slice struct {
	limit Limit
	// have was leased and is not spent. until is when it goes back, in nanoseconds since 1970; by then what was known has
	// become old, too.
	have  int64
	until int64
	// debt was spent on credit and is yet to be charged, charging is being charged, spare is yet to be given back.
	debt, charging, spare int64
	// spent counts since the last question, waiting those who wait for the next answer.
	spent, waiting int64
	// empty is until when there is nothing to be had, as of the last answer.
	empty int64
	// asking says that the bucket is in line for a question. answered is closed with the answer to that.
	asking   bool
	answered chan struct{}
	// stranger is of whom a first request is not shared with the other nodes: of many addresses that ask once each the
	// database hears nothing.
	stranger bool
}

// most is how much a node holds at most.
func (l Limit) most() int64 { return min(l.Burst/burstPart, l.PerSecond/ratePart) }

// follow takes note of another limit than before: what was leased of the old one is forgotten.
func (s *slice) follow(l Limit) {
	if s.limit != l {
		s.limit, s.have, s.debt, s.charging, s.spare, s.until, s.empty = l, 0, 0, 0, 0, 0, 0
	}
}

// outcome of an attempt to let a request pass.
type outcome int

const (
	passed outcome = iota
	refused
	unknown // the node has to ask
)

// try spends from the slice, or on credit where the node knows nothing of late, so that a first request does not wait.
// It reports whether it is time to ask for more.
func (s *slice) try(now int64) (o outcome, ask bool) {
	if now >= s.until && s.have > 0 {
		s.spare, s.have = s.spare+s.have, 0
	}
	most := s.limit.most()
	switch {
	case s.have > 0:
		s.have--
		s.spent++
		return passed, s.have <= min(most, s.target())/2
	case now < s.empty:
		return refused, false
	case now >= s.until && s.debt+s.charging < most:
		s.debt++
		s.spent++
		return passed, !s.stranger || s.debt > 1
	default:
		return unknown, true
	}
}

// target is how much the node wants to hold: twice what it has spent lately.
func (s *slice) target() int64 { return min(s.limit.most(), 1+2*s.spent) }

// ask is a question to the database about one bucket.
type ask struct {
	state *state
	limit Limit
	// want may be granted in part, charge has been spent already, back goes back.
	want, charge, back int64
	// answered is what those wait for whom this asks.
	answered chan struct{}
}

// question returns what the node asks, and counts as asked. A node that stops wants nothing.
func (s *state) question(wants bool) ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := ask{state: s, limit: s.limit, charge: s.debt, back: s.spare, answered: s.answered}
	if wants && (s.spent > 0 || s.waiting > 0) {
		a.want = max(0, s.target()-s.have) + s.waiting
	}
	s.debt, s.charging, s.spare, s.spent, s.asking = 0, s.debt, 0, 0, false
	s.waiting, s.answered = 0, nil // who comes now waits for the next answer
	return a
}

// grant takes an answer: the state of the limit, and how much of it is the node's.
func (s *state) grant(a ask, t tat, granted, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer a.wake()
	if s.limit != a.limit {
		return // it has changed meanwhile; what was granted of the old one is lost
	}
	s.tat, s.until, s.charging = t, now+int64(sliceLife), 0
	s.have += granted
	if granted < a.want {
		s.empty = now + max(int64(t.wait(a.limit, now)), int64(askPause))
	}
}

// ungrant takes back a question that was not answered.
func (s *state) ungrant(a ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer a.wake()
	if s.limit == a.limit {
		s.debt, s.charging, s.spare = s.debt+a.charge, 0, s.spare+a.back
	}
}

// wake has those who wait look again. Who finds nothing is refused, or waits anew where others came first.
func (a ask) wake() {
	if a.answered != nil {
		close(a.answered)
	}
}
