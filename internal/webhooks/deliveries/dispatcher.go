package deliveries

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"sallyport/internal/webhooks/events"
)

// Capacity of the dispatcher.
const (
	// maxHeld is the maximum number of leased deliveries in memory. Beyond it, deliveries are committed as pending.
	maxHeld = 4096
	// MaxHeldPerSubscription is one subscription's share of maxHeld, so that a receiver that hangs cannot fill the memory.
	MaxHeldPerSubscription = maxHeld / 4
)

// job is a leased delivery in memory.
type job struct {
	delivery Delivery
	// event and payload are set if they were at hand; a worker reads missing ones.
	event   *events.Event
	payload *events.Payload
	// since is when event and payload were known to be in the database.
	since time.Time
	// host is the host that the job counts against while it is sent.
	host string
	// again is set when the job must wait for another turn, because its host turned out to be busy.
	again bool
}

// replay reports whether the job is a replay, which yields to new events.
func (j *job) replay() bool { return j.delivery.Generation > 1 }

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

// queue holds the jobs of one subscription.
type queue struct {
	subscriptionID string
	// host is the host of the subscription's last attempt; empty before the first.
	host string
	// waiting is sent first, replays after it.
	waiting, replays []*job
	inFlight         load
	held             int
	// element is the queue's place in the ring of queues that could start a job; nil if it has none to start.
	element *list.Element
}

// list returns the list of the queue for jobs of this kind.
func (q *queue) list(replay bool) *[]*job {
	if replay {
		return &q.replays
	}
	return &q.waiting
}

// empty reports whether no job waits.
func (q *queue) empty() bool { return len(q.waiting)+len(q.replays) == 0 }

// next returns the kind of the queue's next job, and whether the queue's own limit lets it start.
func (q *queue) next(perSubscription int) (replay, ok bool) {
	replay = len(q.waiting) == 0
	return replay, !q.empty() && q.inFlight.takes(replay, perSubscription)
}

// dispatcher decides which leased delivery is sent when: at most perSubscription at a time to a subscription, perHost
// to a host and limit in all, in turns between subscriptions. Replays use at most half of each, and come last among a
// subscription's deliveries.
type dispatcher struct {
	limit           int
	perSubscription int
	perHost         int
	run             func(*job)

	mu       sync.Mutex
	queues   map[string]*queue
	held     map[Key]*job
	reserved int
	hosts    map[string]load
	ring     *list.List
	inFlight load
	paused   bool
	stopped  bool
	workers  sync.WaitGroup
}

func newDispatcher(limit, perSubscription, perHost int, run func(*job)) *dispatcher {
	return &dispatcher{limit: limit, perSubscription: perSubscription, perHost: perHost, run: run,
		queues: map[string]*queue{}, held: map[Key]*job{}, hosts: map[string]load{}, ring: list.New()}
}

// reserve takes a place in memory for a delivery of the subscription that is about to be committed as leased. It
// returns false if the memory or the subscription's share is full, or while the database is down.
func (d *dispatcher) reserve(subscriptionID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused || d.stopped || len(d.held)+d.reserved >= maxHeld {
		return false
	}
	q := d.queue(subscriptionID)
	if q.held >= MaxHeldPerSubscription {
		return false
	}
	q.held++
	d.reserved++
	return true
}

// release frees a place whose delivery was not committed.
func (d *dispatcher) release(subscriptionID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved--
	d.drop(d.queue(subscriptionID))
}

// enqueue takes a leased delivery for which a place was reserved. After stop it keeps the delivery for the stop to
// release.
func (d *dispatcher) enqueue(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserved--
	d.held[j.delivery.Key] = j
	q := d.queue(j.delivery.SubscriptionID)
	waiting := q.list(j.replay())
	*waiting = append(*waiting, j)
	d.offer(q)
	d.pump()
}

// done frees the place of a delivery whose outcome is stored. The delivery may have been claimed again by then; that
// lease stays.
//
// It reports whether this made room where there was none, so that deliveries in the table can be claimed.
func (d *dispatcher) done(ended Delivery) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	full := len(d.held)+d.reserved >= maxHeld || d.queue(ended.SubscriptionID).held >= MaxHeldPerSubscription
	if j := d.held[ended.Key]; j != nil && j.delivery.ClaimID == ended.ClaimID {
		delete(d.held, ended.Key)
	}
	d.drop(d.queue(ended.SubscriptionID))
	return full
}

// room returns how many more deliveries fit, and the subscriptions whose share is full.
func (d *dispatcher) room() (free int, full []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused || d.stopped {
		return 0, nil
	}
	for _, q := range d.queues {
		if q.held >= MaxHeldPerSubscription {
			full = append(full, q.subscriptionID)
		}
	}
	return maxHeld - len(d.held) - d.reserved, full
}

// holds reports whether the delivery is in memory.
func (d *dispatcher) holds(k Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.held[k]
	return ok
}

// all returns the deliveries in memory.
func (d *dispatcher) all() []Delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Delivery, 0, len(d.held))
	for _, j := range d.held {
		out = append(out, j.delivery)
	}
	return out
}

// pause stops new attempts while outcomes cannot be stored; resume continues.
func (d *dispatcher) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = true
}

func (d *dispatcher) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = false
	d.pump()
}

// stop prevents new attempts and returns the waiting deliveries, whose leases the caller releases.
func (d *dispatcher) stop() []Delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	var waiting []Delivery
	for _, q := range d.queues {
		for _, j := range slices.Concat(q.waiting, q.replays) {
			waiting = append(waiting, j.delivery)
		}
		q.waiting, q.replays = nil, nil
	}
	return waiting
}

// wait returns when every attempt in progress has ended, or when ctx ends.
func (d *dispatcher) wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		d.workers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *dispatcher) queue(subscriptionID string) *queue {
	q := d.queues[subscriptionID]
	if q == nil {
		q = &queue{subscriptionID: subscriptionID}
		d.queues[subscriptionID] = q
	}
	return q
}

// drop counts one delivery of q less and forgets an empty queue.
func (d *dispatcher) drop(q *queue) {
	q.held--
	d.forget(q)
}

// forget drops q if it is empty, and reports whether it was.
func (d *dispatcher) forget(q *queue) bool {
	if q.held > 0 || q.inFlight.all > 0 || !q.empty() {
		return false
	}
	delete(d.queues, q.subscriptionID)
	return true
}

// offer puts q into the ring if it could start a job.
func (d *dispatcher) offer(q *queue) {
	if _, ok := q.next(d.perSubscription); ok && q.element == nil {
		q.element = d.ring.PushBack(q)
	}
}

// pump starts workers while there is something to start.
func (d *dispatcher) pump() {
	for {
		j := d.nextJob()
		if j == nil {
			return
		}
		d.workers.Add(1)
		go d.work(j)
	}
}

// nextJob removes the next job in turn, or returns nil. A queue whose host is busy, or for which replays have no place
// left, loses its turn and stays in the ring.
func (d *dispatcher) nextJob() *job {
	if d.paused || d.stopped || d.inFlight.all >= d.limit {
		return nil
	}
	for range d.ring.Len() {
		q, ok := d.ring.Remove(d.ring.Front()).(*queue)
		if !ok {
			continue
		}
		q.element = nil
		replay, ok := q.next(d.perSubscription)
		if !ok {
			continue
		}
		if !d.inFlight.takes(replay, d.limit) || q.host != "" && !d.hosts[q.host].takes(replay, d.perHost) {
			d.offer(q)
			continue
		}
		return d.start(q, replay)
	}
	return nil
}

func (d *dispatcher) start(q *queue, replay bool) *job {
	waiting := q.list(replay)
	j := (*waiting)[0]
	(*waiting)[0] = nil
	*waiting = (*waiting)[1:]
	q.inFlight.add(j, 1)
	d.inFlight.add(j, 1)
	if j.host = q.host; j.host != "" {
		d.count(j, 1)
	}
	d.offer(q)
	return j
}

// goesTo records the host of a subscription, as egress.HostKey names it. It returns false if the host is busy and was
// not known, or was another one, when the job was started: then the job must not be sent, and waits for another turn.
func (d *dispatcher) goesTo(j *job, host string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue(j.delivery.SubscriptionID).host = host
	if j.host == host {
		return true
	}
	if !d.hosts[host].takes(j.replay(), d.perHost) {
		j.again = true
		return false
	}
	d.leave(j)
	j.host = host
	d.count(j, 1)
	return true
}

// count counts the job at its host.
func (d *dispatcher) count(j *job, n int) {
	l := d.hosts[j.host]
	l.add(j, n)
	d.hosts[j.host] = l
	if l.all == 0 {
		delete(d.hosts, j.host)
	}
}

// leave stops counting the job against its host.
func (d *dispatcher) leave(j *job) {
	if j.host == "" {
		return
	}
	d.count(j, -1)
	j.host = ""
}

// work sends a job and then, on the same goroutine, the jobs that come next.
func (d *dispatcher) work(j *job) {
	defer d.workers.Done()
	for j != nil {
		d.run(j)
		j = d.next(j)
	}
}

func (d *dispatcher) next(ended *job) *job {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(ended.delivery.SubscriptionID)
	q.inFlight.add(ended, -1)
	d.inFlight.add(ended, -1)
	d.leave(ended)
	if ended.again {
		ended.again = false
		waiting := q.list(ended.replay())
		*waiting = append([]*job{ended}, *waiting...)
	}
	if !d.forget(q) {
		d.offer(q)
	}
	j := d.nextJob()
	if j != nil {
		d.pump() // a replay that ends can make room for two: one that has just arrived, and a replay elsewhere
	}
	return j
}
