package deliveries

import "container/list"

// newPerReplay is how many new deliveries of an environment start for each replay while both wait: replays give way,
// and are not shut out by an environment that always has something new.
const newPerReplay = 4

// offer gives q a turn if it could start a job.
func (d *dispatcher) offer(q *queue) {
	replay, ok := q.next(d.perSubscription)
	if ok && q.turn != nil && q.replayTurn == replay {
		return
	}
	d.withdraw(q)
	if !ok {
		return
	}
	q.wait(&q.env.turns[kind(replay)], replay)
	if e := q.env; e.element == nil {
		e.element = d.ring.PushBack(e)
	}
}

// park lets q wait for its host.
func (d *dispatcher) park(q *queue, replay bool) {
	d.withdraw(q)
	h := d.hosts[q.host]
	g := h.guest(q.env)
	q.wait(&g.parked[kind(replay)], replay)
	if g.element == nil {
		g.element = h.ring.PushBack(g)
	}
}

// wait puts q at the end of a list of queues.
func (q *queue) wait(turns *list.List, replay bool) {
	q.turn, q.replayTurn, q.element = turns, replay, turns.PushBack(q)
}

// withdraw takes q out of the list in which it waits for its turn.
func (d *dispatcher) withdraw(q *queue) {
	if q.turn != nil {
		q.turn.Remove(q.element)
		q.turn, q.element = nil, nil
		d.memory.forgetHeavy(q.env)
	}
}

// pump starts workers while there is something to start.
func (d *dispatcher) pump() {
	for {
		j := d.nextJob()
		if j == nil {
			return
		}
		d.workers.launch(j)
	}
}

// nextJob removes the next job in turn, or returns nil. An environment whose share is used up loses its turn and stays
// in the ring: there are at most as many of them as attempts in progress.
func (d *dispatcher) nextJob() *job {
	if d.paused || d.stopped {
		return nil
	}
	for left := d.ring.Len(); left > 0; left-- {
		if d.inFlight.all >= d.limits.all {
			return nil
		}
		e, ok := d.ring.Front().Value.(*environment)
		if !ok {
			return nil
		}
		q, replay := d.nextQueue(e)
		if d.unparked {
			d.unparked, left = false, d.ring.Len()+1
		}
		if e.turns[0].Len()+e.turns[1].Len() == 0 {
			d.ring.Remove(e.element)
			e.element = nil
		} else {
			d.ring.MoveToBack(e.element)
		}
		if q != nil {
			return d.start(q, replay)
		}
	}
	return nil
}

// nextQueue removes the environment's next queue from its turns and returns the kind of job that it may start; nil if
// there is none. New deliveries go first, but for one replay after newPerReplay of them.
func (d *dispatcher) nextQueue(e *environment) (q *queue, replay bool) {
	replayFirst := e.newInRow >= newPerReplay
	for _, replay := range [...]bool{replayFirst, !replayFirst} {
		if !d.inFlight.takes(replay, d.limits.all) {
			continue
		}
		if q := d.nextOf(e, replay); q != nil {
			if e.newInRow++; replay {
				e.newInRow = 0
			}
			return q, replay
		}
	}
	return nil, false
}

// nextOf is nextQueue for one kind. A queue whose host is busy waits there, and one whose next body does not fit into
// memory waits for that. One that has as many attempts in progress
// as its environment may begin loses its turn; there are at most as many of them as attempts in progress.
func (d *dispatcher) nextOf(e *environment, replay bool) *queue {
	turns := &e.turns[kind(replay)]
	free := headroom(d.limits.all, d.inFlight.all, e.inFlight, shareOfAttempts)
	if free <= 0 {
		return nil
	}
	for range turns.Len() {
		q, ok := turns.Front().Value.(*queue)
		if !ok {
			return nil
		}
		switch {
		case !d.hostTakes(q, q.host, replay):
			d.park(q, replay)
		case !d.memory.bodyFits(q, replay):
			d.memory.parkHeavy(q, replay)
		case q.inFlight.all >= free:
			turns.MoveToBack(q.element)
			d.passOver(q)
		default:
			d.withdraw(q)
			return q
		}
	}
	return nil
}

// passOver lets others that wait for the host of a queue have the turn that it cannot use, because its environment's
// share is in use. Otherwise they would wait for the next attempt there to end, although the host has a free place.
func (d *dispatcher) passOver(q *queue) {
	if h := d.hosts[q.host]; h != nil && d.unpark(h) {
		d.unparked = true
	}
}

func (d *dispatcher) start(q *queue, replay bool) *job {
	waiting := q.list(replay)
	j := (*waiting)[0]
	(*waiting)[0] = nil
	*waiting = (*waiting)[1:]
	q.inFlight.add(j, 1)
	q.env.inFlight++
	d.inFlight.add(j, 1)
	d.memory.hold(j)
	if q.host != "" {
		d.enter(j, q.host)
	}
	d.offer(q)
	return j
}

// hostTakes reports whether the host takes one more attempt of the queue. An unknown host does.
func (d *dispatcher) hostTakes(q *queue, name string, replay bool) bool {
	h := d.hosts[name]
	return h == nil || h.takes(q.env, replay, d.perHost)
}

// enter counts the job at a host.
func (d *dispatcher) enter(j *job, name string) {
	h := d.hosts[name]
	if h == nil {
		h = &host{guests: map[*environment]*guest{}}
		d.hosts[name] = h
	}
	j.host = name
	h.add(j, 1)
	h.guest(j.queue.env).inFlight++
}

// leave stops counting the job at its host, and gives queues that wait for the host a turn.
func (d *dispatcher) leave(j *job) {
	if j.host == "" {
		return
	}
	name, h := j.host, d.hosts[j.host]
	j.host = ""
	h.add(j, -1)
	g := h.guest(j.queue.env)
	g.inFlight--
	d.unpark(h)
	h.forget(g)
	if h.all == 0 {
		delete(d.hosts, name)
	}
}

// unpark gives a queue of each kind that waits for the host a turn: the next that the host takes and that may start.
// Those that it meets on the way, which the host takes and which wait for their environment's share, wait for the host
// no more. If the host is idle, nothing does. It reports whether a queue waits for the host no more.
func (d *dispatcher) unpark(h *host) (moved bool) {
	var found [2]bool
	for range h.ring.Len() {
		g, ok := h.ring.Front().Value.(*guest)
		if !ok || h.all > 0 && found[0] && found[1] {
			return moved
		}
		h.ring.MoveToBack(g.element)
		for _, replay := range [...]bool{false, true} {
			parked := &g.parked[kind(replay)]
			free := headroom(d.limits.all, d.inFlight.all, g.env.inFlight, shareOfAttempts)
			for parked.Len() > 0 && (h.all == 0 || !found[kind(replay)] && h.takes(g.env, replay, d.perHost)) {
				q, ok := parked.Front().Value.(*queue)
				if !ok {
					return moved
				}
				d.withdraw(q)
				d.offer(q)
				moved = true
				found[kind(replay)] = q.inFlight.all < free && d.memory.bodyFits(q, replay)
				if h.all > 0 && free <= 0 {
					break
				}
			}
		}
		if g.parked[0].Len()+g.parked[1].Len() == 0 {
			h.ring.Remove(g.element)
			g.element = nil
			h.forget(g)
		}
	}
	return moved
}
