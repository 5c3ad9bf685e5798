package deliveries

import (
	"time"

	"sallyport/internal/platform/id"
)

// minCapacity is the least number of deliveries that fit into memory. Those beyond wait in the table.
const minCapacity = 4096

// MaxReplays is the maximum number of a subscription's replays that wait in memory. They do not count in its window, so
// that a new event finds a place no matter how many there are.
const MaxReplays = 512

// room says whether a delivery finds a place in memory.
type room int

const (
	// roomFree: there is a place.
	roomFree room = iota
	// roomFull: the subscription has what will be sent soon.
	roomFull
	// roomPartUsed: the subscription has as much as its environment may still take, which it leaves to others.
	roomPartUsed
	// roomShareUsed: the environment's share is used up.
	roomShareUsed
	// roomClosed: nothing is taken, because the database is down or the process stops.
	roomClosed
)

// room returns whether one more delivery of q finds a place, if q may have that many besides replays that wait.
func (d *dispatcher) room(q *queue, window int) room {
	left := headroom(d.capacity, d.places, q.env.places, shareOfFree)
	switch {
	case d.paused || d.stopped:
		return roomClosed
	case left <= 0:
		return roomShareUsed
	case q.places-len(q.replays) >= window:
		return roomFull
	case q.places >= left:
		return roomPartUsed
	default:
		return roomFree
	}
}

// take counts n more places of q.
func (d *dispatcher) take(q *queue, n int) {
	if q.idle() {
		q.pace.busy = d.clock.Now()
		q.pace.moved = q.pace.busy
		if q.resting != nil {
			d.resting.Remove(q.resting)
			q.resting = nil
		}
	}
	q.places += n
	q.env.places += n
	d.places += n
}

// reserve takes a place in memory for a delivery of the subscription that is about to be committed as leased. It
// returns false if the delivery is to wait in the table. behind is set if others of the subscription wait there: then a
// new one may have half of the subscription's window, so that those get the other half.
func (d *dispatcher) reserve(env id.Environment, subscriptionID string, behind bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(env, subscriptionID)
	window := q.window(d.perSubscription, d.clock.Now())
	if behind {
		window = max(window/2, 1)
	}
	if d.room(q, window) != roomFree {
		d.forget(q)
		return false
	}
	d.take(q, 1)
	return true
}

// reserveDue takes up to limit places for deliveries of the subscription that are due in the table, and returns how
// many it took, and why not more. As long as something of the subscription waits in memory, it takes none until half of
// the window is free: few large claims cost less than many small ones.
func (d *dispatcher) reserveDue(env id.Environment, subscriptionID string, limit int) (n int, why room) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(env, subscriptionID)
	defer d.forget(q)
	now := d.clock.Now()
	window := q.window(d.perSubscription, now)
	if used := q.places - len(q.replays); len(q.waiting) > 0 && used > window/2 || q.stalled(now) && !q.empty() {
		return 0, roomFull
	}
	limit = min(limit, MaxReplays-len(q.replays)) // they could all be replays
	why = roomFull
	for n < limit {
		if why = d.room(q, window); why != roomFree {
			return n, why
		}
		d.take(q, 1)
		n++
	}
	return n, why
}

// release frees n places whose deliveries were not committed.
func (d *dispatcher) release(env id.Environment, subscriptionID string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(env, subscriptionID)
	d.take(q, -n)
	d.forget(q)
}

// done frees the place of a delivery whose outcome is stored, or that has returned to the table. The delivery may have
// been claimed again by then; that lease stays.
func (d *dispatcher) done(ended Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.held[ended.Key]; j != nil && j.delivery.ClaimID == ended.ClaimID {
		delete(d.held, ended.Key)
	}
	q := d.queue(ended.Environment, ended.SubscriptionID)
	d.take(q, -1)
	d.forget(q)
}

// giveWay removes up to limit jobs that will not be sent soon, to make room for an environment whose share is in use:
// its own, and if it has none those of the environment that has the most places. The caller returns them to the table
// and calls done for each.
func (d *dispatcher) giveWay(env id.Environment, limit int) []*job {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused || d.stopped {
		return nil
	}
	own := d.environments[env]
	if own != nil {
		if back := d.removeSpare(own, limit); len(back) > 0 {
			return back
		}
	}
	var largest *environment
	for _, e := range d.environments {
		if e != own && (largest == nil || e.places > largest.places) {
			largest = e
		}
	}
	if largest == nil || own != nil && own.places >= largest.places {
		return nil
	}
	return d.removeSpare(largest, limit)
}

// spareInterval is how long no spare jobs of an environment are looked for after none were found. Jobs become spare as
// time passes, and a claimer that many deliveries wake would look far more often than that.
const spareInterval = 100 * time.Millisecond

// removeSpare removes up to limit jobs of the environment that will not be sent soon, replays and late arrivals first.
func (d *dispatcher) removeSpare(e *environment, limit int) []*job {
	var back []*job
	now := d.clock.Now()
	if now.Before(e.nextLook) {
		return nil
	}
	for q := range e.queues {
		n := min(q.spare(d.perSubscription, now), limit-len(back))
		replays := q.stalled(now)
		for range n {
			waiting := q.list(replays && len(q.replays) > 0)
			last := len(*waiting) - 1
			back = append(back, (*waiting)[last])
			d.forgetBody((*waiting)[last])
			(*waiting)[last] = nil
			*waiting = (*waiting)[:last]
		}
		if n > 0 {
			d.offer(q)
		}
		if len(back) == limit {
			break
		}
	}
	if len(back) == 0 {
		e.nextLook = now.Add(spareInterval)
	}
	return back
}

// countBody counts the body of a job. If the environment has its share of them, a worker reads it when the job is sent.
func (d *dispatcher) countBody(j *job) {
	if j.payload == nil {
		return
	}
	if size := j.payload.Size(); size <= headroom(maxHandedBodies, d.bodies, j.queue.env.bodies, shareOfFree) {
		j.body = size
		j.queue.env.bodies += size
		d.bodies += size
		return
	}
	j.payload = nil
}

// forgetBody stops counting the body of a job.
func (d *dispatcher) forgetBody(j *job) {
	d.bodies -= j.body
	j.queue.env.bodies -= j.body
	j.body = 0
}
