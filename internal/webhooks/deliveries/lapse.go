package deliveries

import (
	"slices"
	"time"

	"sallyport/internal/platform/clock"
)

// attempting records how to interrupt the attempt of a job, if its lease is lost. An attempt whose lease is lost
// already is interrupted immediately.
func (d *dispatcher) attempting(j *job, interrupt func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j.interrupt = interrupt
	if j.lost {
		interrupt()
	}
}

// attempted records the end of the attempt of a job, and reports whether its lease was lost before.
func (d *dispatcher) attempted(j *job) (lost bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j.interrupt = nil
	return j.lost
}

// toRenew returns the deliveries whose leases began that long ago, and those that wait for their renewal.
func (d *dispatcher) toRenew(age time.Duration) (list []Delivery, lapsed int) {
	now := clock.MomentOf(d.clock)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range d.held {
		if _, waits := d.lapsed[j]; waits || j.leased.AtMost(now) >= age {
			list = append(list, j.delivery)
		}
	}
	return list, len(d.lapsed)
}

// renewed records that the leases of deliveries were extended by a statement sent after that moment. Jobs that have
// waited for it are sent next.
func (d *dispatcher) renewed(list []Delivery, from clock.Moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range list {
		j := d.held.under(&list[i])
		if j == nil {
			continue
		}
		j.leased = from
		if _, waits := d.lapsed[j]; waits {
			delete(d.lapsed, j)
			j.lapsed = false
			j.queue.goFirst(j)
			d.offer(j.queue)
		}
	}
	d.pump()
}

// dropLost removes the jobs that wait for deliveries whose leases were lost, and returns their deliveries. It
// interrupts the attempts in progress of the others, and returns how many. Those that have their response are left to
// the recorder.
func (d *dispatcher) dropLost(list []Delivery) (dropped []Delivery, interrupted int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range list {
		j := d.held.under(&list[i])
		if j == nil {
			continue
		}
		j.lost = true
		if j.interrupt != nil {
			j.interrupt()
			j.interrupt = nil
			interrupted++
			continue
		}
		waiting := j.queue.list(j.replay())
		at := slices.Index(*waiting, j)
		if _, waits := d.lapsed[j]; at < 0 && !waits {
			continue
		}
		if at >= 0 {
			*waiting = slices.Delete(*waiting, at, at+1)
		}
		delete(d.lapsed, j)
		delete(d.held, j.delivery.Key)
		d.forgetBody(j)
		d.take(j.queue, -1)
		if !d.forget(j.queue) {
			d.offer(j.queue)
		}
		dropped = append(dropped, j.delivery)
	}
	d.pump()
	return dropped, interrupted
}

// heldJobs holds the jobs of leased deliveries.
type heldJobs map[Key]*job

// under returns the job that holds the delivery under the same claim, or nil.
func (h heldJobs) under(leased *Delivery) *job {
	if j := h[leased.Key]; j != nil && j.delivery.ClaimID == leased.ClaimID {
		return j
	}
	return nil
}
