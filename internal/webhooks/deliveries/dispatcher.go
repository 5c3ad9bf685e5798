package deliveries

import (
	"container/list"
	"context"
	"slices"
	"sync"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
)

// limits are what a dispatcher may have in progress: in all, of one subscription, and to one host.
type limits struct{ all, perSubscription, perHost int }

// dispatcher decides which leased deliveries are in memory, and which of them is sent when: within its limits, in turns
// between environments and between the subscriptions of each. An environment may have a share of the places in memory,
// of the attempts in progress, of those to a host, and of the memory for the large bodies that are sent; see headroom.
// Replays use at most half of each limit, and come last among a subscription's deliveries.
//
// The methods of this file take and return jobs, those of places.go decide what is in memory, those of turns.go and
// bodies.go what is sent next, and those of lapse.go what may be sent at all.
type dispatcher struct {
	limits
	// capacity is the maximum number of deliveries in memory.
	capacity int
	run      func(*job)
	// drained is called when nothing of a subscription waits in memory any more. It must not use the dispatcher.
	drained func(subscriptionID string)
	clock   clock.Clock

	mu           sync.Mutex
	queues       map[string]*queue
	environments map[id.Environment]*environment
	// held holds the leased deliveries. places counts them, those about to be committed as leased, and those whose outcome
	// is not stored yet.
	held   heldJobs
	places int
	// lapsed holds the jobs that wait for the renewal of their lease, which renew wakes.
	lapsed map[*job]struct{}
	renew  jobs.Wake
	// bodies is the size of the bodies of deliveries that wait or are sent, in bytes.
	bodies int
	memory bodyMemory
	hosts  map[string]*host
	// ring holds the environments that have a queue that could start a job.
	ring list.List
	// unparked is set when queues got a turn while one was looked for.
	unparked bool
	// resting holds queues that are empty, and are dropped when their pace is of no interest any more.
	resting  list.List
	inFlight load
	paused   bool
	stopped  bool
	workers  workers
}

func newDispatcher(l limits, clk clock.Clock, run func(*job)) *dispatcher {
	d := &dispatcher{limits: l, capacity: max(minCapacity, windowFactor*l.all), run: run, clock: clk,
		drained: func(string) {}, queues: map[string]*queue{},
		environments: map[id.Environment]*environment{}, held: heldJobs{},
		hosts: map[string]*host{}, lapsed: map[*job]struct{}{}, renew: jobs.NewWake()}
	d.workers = workers{d: d, handover: make(chan *job, maxIdle)}
	d.memory = bodyMemory{d: d, large: map[string]*largeBody{}}
	return d
}

// enqueue takes a leased delivery for which a place was reserved. After stop it keeps the delivery for the stop to
// release.
func (d *dispatcher) enqueue(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(j.delivery.Environment, j.delivery.SubscriptionID)
	j.queue = q
	if j.event != nil && j.event.BodySize > maxHandedBody {
		j.size = int(j.event.BodySize)
	}
	d.held[j.delivery.Key] = j
	d.countBody(j)
	waiting := q.list(j.replay())
	*waiting = append(*waiting, j)
	d.offer(q)
	d.pump()
}

// holds reports whether the delivery is in memory.
func (d *dispatcher) holds(k Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.held[k]
	return ok
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
	if !d.stopped {
		close(d.workers.handover)
	}
	d.stopped = true
	var waiting []Delivery
	for j := range d.lapsed {
		waiting = append(waiting, j.delivery)
	}
	clear(d.lapsed)
	for _, q := range d.queues {
		for _, j := range slices.Concat(q.waiting, q.replays) {
			waiting = append(waiting, j.delivery)
		}
		q.waiting, q.replays = nil, nil
		d.offer(q)
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

// queue returns the queue of the subscription, an empty one if it has none.
func (d *dispatcher) queue(env id.Environment, subscriptionID string) *queue {
	if q := d.queues[subscriptionID]; q != nil {
		return q
	}
	e := d.environments[env]
	if e == nil {
		e = &environment{id: env, queues: map[*queue]struct{}{}}
		d.environments[env] = e
	}
	q := &queue{subscriptionID: subscriptionID, env: e}
	e.queues[q] = struct{}{}
	d.queues[subscriptionID] = q
	return q
}

// forget drops q if it is empty, and reports whether it is. Its pace is known for a little longer.
func (d *dispatcher) forget(q *queue) bool {
	if !q.idle() {
		return false
	}
	if q.resting == nil {
		q.resting = d.resting.PushBack(q)
	}
	now := d.clock.Now()
	for element := d.resting.Front(); element != nil; element = d.resting.Front() {
		rests, ok := element.Value.(*queue)
		if !ok || rests.idle() && rests.pace.recent(now) > 0 {
			break
		}
		d.resting.Remove(element)
		rests.resting = nil
		if rests.idle() {
			d.drop(rests)
		}
	}
	return true
}

// drop removes a queue.
func (d *dispatcher) drop(q *queue) {
	d.withdraw(q)
	delete(d.queues, q.subscriptionID)
	e := q.env
	if delete(e.queues, q); len(e.queues) == 0 {
		delete(d.environments, e.id)
		if e.element != nil {
			d.ring.Remove(e.element)
			e.element = nil
		}
	}
}

// goesTo records the host of a subscription, as egress.HostKey names it. It returns false if the host is busy and was
// not known, or was another one, when the job was started: then the job must not be sent, and waits for another turn.
func (d *dispatcher) goesTo(j *job, name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := j.queue; q.host != name {
		q.host = name
		d.withdraw(q) // it may wait for the host that it had before
		d.offer(q)
	}
	if j.host == name {
		return true
	}
	if !d.hostTakes(j.queue, name, j.replay()) {
		j.again = true
		return false
	}
	d.leave(j)
	d.enter(j, name)
	return true
}

// next ends a job and returns the one that comes next, or nil.
func (d *dispatcher) next(ended *job) *job {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := ended.queue
	q.inFlight.add(ended, -1)
	q.env.inFlight--
	d.inFlight.add(ended, -1)
	d.memory.letGo(ended)
	d.leave(ended)
	switch {
	case ended.lapsed:
		d.lapsed[ended] = struct{}{}
		d.renew.Signal()
	case ended.again:
		ended.again = false
		q.goFirst(ended)
	default:
		q.pace.ended(d.clock.Now())
		d.forgetBody(ended)
	}
	if q.empty() {
		d.drained(q.subscriptionID)
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
