package deliveries

import "sync"

// maxIdle is the maximum number of workers that wait for a job.
const maxIdle = 16

// workers are the goroutines of a dispatcher that send. Some of them wait for the next job instead of ending: they have
// the stack that an attempt needs, which a fresh one has to grow.
type workers struct {
	// WaitGroup counts the workers that have a job.
	sync.WaitGroup

	d *dispatcher
	// idle counts those that wait for a job of handover, under the dispatcher's lock.
	idle     int
	handover chan *job
}

// launch has a job sent. The caller has the dispatcher's lock.
func (w *workers) launch(j *job) {
	w.Add(1)
	if w.idle == 0 {
		go w.work(j)
		return
	}
	w.idle--
	w.handover <- j // has room for as many as are idle
}

// work sends a job and then, on the same goroutine, the jobs that come next and those that are handed over later.
func (w *workers) work(j *job) {
	for more := true; more; j, more = <-w.handover {
		for j != nil {
			w.d.run(j)
			j = w.d.next(j)
		}
		stays := w.goIdle()
		w.Done()
		if !stays {
			return
		}
	}
}

// goIdle reports whether a worker that has no job waits for one.
func (w *workers) goIdle() bool {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.d.stopped || w.idle == maxIdle {
		return false
	}
	w.idle++
	return true
}
