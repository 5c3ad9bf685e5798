package ratelimit

import "time"

// How nodes share a limit.
const (
	// sliceLife is the time for which a slice may be spent. The rest of it is then returned.
	sliceLife = 2 * time.Second
	// maxWait is the longest time that a request waits for a slice. After that the node decides alone.
	maxWait = 50 * time.Millisecond
	// leasePause is the shortest time between two lease requests of a node for an exhausted limit.
	leasePause = 25 * time.Millisecond
	// A slice is a fortieth of the burst, or the requests that come free in an eighth of a second, the smaller of the two:
	// four nodes hold a tenth.
	burstPart, ratePart = 40, 8
)

// slice is a node's part of a limit, guarded by its state's lock.
type slice struct {
	limit Limit
	// have was leased and not spent yet. until is the time, in nanoseconds since 1970, at which it is returned and the
	// node's knowledge of the limit is outdated.
	have  int64
	until int64
	// debt was spent on credit and is not charged yet, charging is being charged, surplus is not returned yet.
	debt, charging, surplus int64
	// spent counts requests since the last lease request, waiting those that wait for the next grant.
	spent, waiting int64
	// emptyUntil is the time until which nothing is available, as of the last grant.
	emptyUntil int64
	// queued reports that the bucket waits for a lease request. granted is closed once that request ends.
	queued  bool
	granted chan struct{}
	// deferFirst keeps a first request from the database: many addresses send only one.
	deferFirst bool
}

// maxSlice returns the largest slice that a node holds.
func (l Limit) maxSlice() int64 {
	if l.Every > 0 {
		return l.Burst / burstPart
	}
	return min(l.Burst/burstPart, l.PerSecond/ratePart)
}

// setLimit adopts a changed limit and forgets the slice of the old one.
func (s *slice) setLimit(l Limit) {
	if s.limit != l {
		s.limit, s.have, s.debt, s.charging, s.surplus, s.until, s.emptyUntil = l, 0, 0, 0, 0, 0, 0
	}
}

// outcome of spending.
type outcome int

const (
	passed outcome = iota
	refused
	unknown // the node needs a grant to decide
)

// spend takes one request from the slice. Without recent knowledge it spends on credit, so that a first request does
// not wait. It reports whether it is time to lease more.
func (s *slice) spend(now int64) (o outcome, lease bool) {
	if now >= s.until && s.have > 0 {
		s.surplus, s.have = s.surplus+s.have, 0
	}
	most := s.limit.maxSlice()
	switch {
	case s.have > 0:
		s.have--
		s.spent++
		return passed, s.have <= min(most, s.target())/2
	case now < s.emptyUntil:
		return refused, false
	case now >= s.until && s.debt+s.charging < most:
		s.debt++
		s.spent++
		return passed, !s.deferFirst || s.debt > 1
	default:
		return unknown, true
	}
}

// target returns the size of slice that the node wants to hold: twice what it has spent lately.
func (s *slice) target() int64 { return min(s.limit.maxSlice(), 1+2*s.spent) }

// leaseRequest asks the database for a slice of one bucket.
type leaseRequest struct {
	state *state
	limit Limit
	// want may be granted in part, charge has been spent already, surplus is returned.
	want, charge, surplus int64
	// granted is closed when the request ends; it may be nil.
	granted chan struct{}
}

// leaseRequest returns the next request of the bucket and counts it as sent. A node that stops wants nothing.
func (s *state) leaseRequest(wants bool) leaseRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := leaseRequest{state: s, limit: s.limit, charge: s.debt, surplus: s.surplus, granted: s.granted}
	if wants && (s.spent > 0 || s.waiting > 0) {
		r.want = max(0, s.target()-s.have) + s.waiting
	}
	s.debt, s.charging, s.surplus, s.spent, s.queued = 0, s.debt, 0, 0, false
	s.waiting, s.granted = 0, nil // later requests wait for the next grant
	return r
}

// empty reports whether the request changes nothing.
func (r leaseRequest) empty() bool { return r.want == 0 && r.charge == 0 && r.surplus == 0 }

// accept applies a grant: the state of the limit, and the node's part of it.
func (s *state) accept(r leaseRequest, g grant, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer r.end()
	if s.limit != r.limit {
		return // the limit has changed in the meantime; a grant of the old one is lost
	}
	s.tat, s.until, s.charging = g.tat, now+int64(sliceLife), 0
	s.have += g.granted
	if g.granted < r.want {
		s.emptyUntil = now + max(int64(g.tat.wait(r.limit, now)), int64(leasePause))
	}
}

// restore undoes a request that failed.
func (s *state) restore(r leaseRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer r.end()
	if s.limit == r.limit {
		s.debt, s.charging, s.surplus = s.debt+r.charge, 0, s.surplus+r.surplus
	}
}

// end wakes the requests that wait for the grant. They spend, are refused, or wait again if others were first.
func (r leaseRequest) end() {
	if r.granted != nil {
		close(r.granted)
	}
}
