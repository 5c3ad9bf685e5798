package deliveries

import (
	"container/list"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// job is a leased delivery in memory.
type job struct {
	delivery Delivery
	// due is when the delivery was due before it was leased.
	due time.Time
	// leased is a moment before the statement was sent by which the lease began or was last renewed. After enqueue, it and
	// the fields about the lease below are the dispatcher's.
	leased clock.Moment
	// lost is set when the lease has passed to another worker, lapsed when the job must not be sent before the lease is
	// renewed. interrupt ends the attempt in progress.
	lost, lapsed bool
	interrupt    func()
	content
	// body is the size of the payload while it counts in the memory for bodies.
	body  int
	queue *queue
	// size is that of a large body; 0 for a small or an unknown one. large is the body while the job is sent.
	size  int
	large *largeBody
	// host is the host that the job counts against while it is sent.
	host string
	// again is set when the job must wait for another turn, because its host turned out to be busy.
	again bool
	// probe is set when the attempt shows whether the receiver responds again.
	probe bool
}

// replay reports whether the job is a replay, which yields to new events.
func (j *job) replay() bool { return j.delivery.Generation > 1 }

// windowFactor is how many times the attempts that a subscription may have in progress it may have in memory, if
// nothing is known of its receiver.
const windowFactor = 4

const (
	// stallAfter is how long no attempt of a subscription has ended until its deliveries do not seem to get on.
	stallAfter = time.Second
	// busyAfter is how long a subscription is busy until it is known how fast its receiver is.
	busyAfter = 2 * time.Second
)

// queue holds the jobs of one subscription.
type queue struct {
	subscriptionID string
	env            *environment
	// host is the host of the subscription's last attempt; empty before the first.
	host string
	// waiting is sent first, replays after it.
	waiting, replays []*job
	inFlight         load
	// places counts the subscription's deliveries in memory, until their outcome is stored.
	places int
	// large is the size of the large bodies of the jobs that are sent.
	large int
	pace  pace
	// resting is the queue's place among the empty queues, or among those that were empty; nil if it is not there.
	resting *list.Element
	// turn is the list in which the queue waits for its turn, for a replay if replayTurn is set; nil if it has nothing to
	// start.
	turn       *list.List
	element    *list.Element
	replayTurn bool
}

// list returns the list of the queue for jobs of this kind.
func (q *queue) list(replay bool) *[]*job {
	if replay {
		return &q.replays
	}
	return &q.waiting
}

// goFirst lets a job wait before all others of its kind.
func (q *queue) goFirst(j *job) {
	waiting := q.list(j.replay())
	*waiting = append([]*job{j}, *waiting...)
}

// idle reports whether the queue has nothing in memory.
func (q *queue) idle() bool { return q.places == 0 && q.inFlight.all == 0 && q.empty() }

// empty reports whether no job waits.
func (q *queue) empty() bool { return len(q.waiting)+len(q.replays) == 0 }

// next returns the kind of the queue's next job, and whether the queue's own limit lets it start.
func (q *queue) next(perSubscription int) (replay, ok bool) {
	replay = len(q.waiting) == 0
	return replay, !q.empty() && q.inFlight.takes(replay, perSubscription)
}

// stalled reports whether the subscription's deliveries do not get on: its receiver hangs, or its host or its
// environment has as many attempts in progress as it may.
func (q *queue) stalled(now time.Time) bool {
	return !q.idle() && now.Sub(q.pace.moved) >= stallAfter
}

// window returns how many deliveries of the subscription, besides replays that wait, may be in memory: those that will
// be sent soon. At first, and whenever it was idle, these are a few times as many as can be in progress. Once it is
// busy for a while, they are as many as its receiver took lately, which for a fast one is a second's work and a little
// more. If they do not get on, it is one more than is in progress.
func (q *queue) window(perSubscription int, now time.Time) int {
	switch {
	case q.stalled(now):
		return q.inFlight.all + 1
	case !q.idle() && now.Sub(q.pace.busy) >= busyAfter:
		return perSubscription + q.pace.recent(now)
	default:
		return windowFactor*perSubscription + q.pace.recent(now)
	}
}

// spare returns how many of the jobs that wait are beyond the window. If the jobs do not get on, replays are too.
func (q *queue) spare(perSubscription int, now time.Time) int {
	if q.stalled(now) {
		return max(len(q.waiting)+len(q.replays)-1, 0)
	}
	return max(min(q.places-len(q.replays)-q.window(perSubscription, now), len(q.waiting)), 0)
}

// pace measures how fast a receiver is.
type pace struct {
	// busy is since when the queue has something in memory, and moved when an attempt last ended since then.
	busy, moved time.Time
	// second is a time in seconds, in which this many attempts ended, and last the second before.
	second     int64
	this, last int
}

// ended counts the end of an attempt.
func (p *pace) ended(now time.Time) {
	p.moved = now
	p.turn(now)
	p.this++
}

// recent returns how many attempts have ended in this second and the one before.
func (p *pace) recent(now time.Time) int {
	p.turn(now)
	return p.this + p.last
}

func (p *pace) turn(now time.Time) {
	switch second := now.Unix(); second {
	case p.second:
	case p.second + 1:
		p.second, p.this, p.last = second, 0, p.this
	default:
		p.second, p.this, p.last = second, 0, 0
	}
}

// environment holds what the queues of one environment have together.
type environment struct {
	id       id.Environment
	queues   map[*queue]struct{}
	inFlight int
	places   int
	// bodies is the size of the bodies of deliveries that wait or are sent, large that of the large ones that are sent.
	bodies, large int
	// nextLook is when to look again for jobs that will not be sent soon.
	nextLook time.Time
	// turns holds the queues that could start a new delivery, and those that could start a replay.
	turns [2]list.List
	// newInRow counts the new deliveries started since the last replay. After newPerReplay of them it is a replay's turn.
	newInRow int
	// element is the environment's place in the ring of environments that could start a job; nil if it has no such queue.
	element *list.Element
	// heavy holds the queues that wait for memory for a new delivery's body, and those that wait with a replay.
	heavy [2]list.List
	// heavyElement is the environment's place in the ring of those that have such queues; nil if it has none.
	heavyElement *list.Element
	// starves is set when it has little memory for large bodies and waits for more.
	starves bool
}

// kind returns the index of new deliveries or of replays in lists of both.
func kind(replay bool) int {
	if replay {
		return 1
	}
	return 0
}

// host counts the attempts to one host.
type host struct {
	load
	guests map[*environment]*guest
	// ring holds the guests with queues that wait because the host is busy.
	ring list.List
}

// guest is what an environment has at a host.
type guest struct {
	env      *environment
	inFlight int
	// parked holds the queues that wait for the host with a new delivery, and those with a replay.
	parked [2]list.List
	// element is the guest's place in the host's ring; nil if it has no queue that waits.
	element *list.Element
}

// guest returns what the environment has at the host.
func (h *host) guest(e *environment) *guest {
	g := h.guests[e]
	if g == nil {
		g = &guest{env: e}
		h.guests[e] = g
	}
	return g
}

// takes reports whether the host takes one more attempt of the environment.
func (h *host) takes(e *environment, replay bool, perHost int) bool {
	mine := 0
	if g := h.guests[e]; g != nil {
		mine = g.inFlight
	}
	return h.load.takes(replay, perHost) && headroom(perHost, h.all, mine, shareOfFree) > 0
}

// forget drops what the environment has at the host if that is nothing.
func (h *host) forget(g *guest) {
	if g.inFlight > 0 || g.parked[0].Len()+g.parked[1].Len() > 0 {
		return
	}
	if g.element != nil {
		h.ring.Remove(g.element)
	}
	delete(h.guests, g.env)
}
