package deliveries

// An environment may have so many times what is free: of the places in memory and of the attempts to a host, and of all
// attempts in progress. Of those it may have more, because each that it leaves while no other waits is lost.
const shareOfFree, shareOfAttempts = 3, 7

// headroom returns how many more of a limited resource an environment may take, if no other takes any. used is what all
// environments have of it, mine what this one has, and share how many times what is free it may have.
//
// With a share of three, one environment alone gets three quarters of the resource, two that want all of it get three
// sevenths each, and a part is free for the next: an environment that comes does not wait for what others have taken.
// That ends when about a third as many environments as the limit want all they can get: then nothing is free, and the
// next has its turn when something is released. With a share of seven these are seven eighths, seven fifteenths and a
// seventh. No environment needs to know how many there are. (This is the dynamic threshold of Choudhury and Hahne,
// 1998.)
func headroom(limit, used, mine, share int) int {
	excess := share*(limit-used) - mine
	if excess <= 0 {
		return 0
	}
	return (excess + share) / (1 + share) // each that it takes is one more of mine and one less that is free
}

// load counts attempts in progress.
type load struct{ all, replays int }

func (l *load) add(j *job, n int) {
	l.all += n
	if j.replay() {
		l.replays += n
	}
}

// takes reports whether one more attempt is within the limit. Replays have half of it, so that a new event finds a
// place, no matter how many replays there are and how slow their receiver is. Of a limit of one, replays may use that
// one.
func (l load) takes(replay bool, limit int) bool {
	return l.all < limit && (!replay || l.replays < max(limit/2, 1))
}
