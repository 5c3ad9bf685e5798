package jobstest

import (
	"context"
	"errors"
	"sync"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/jobs"
)

// Worker is a handler that waits for the test to finish each job.
type Worker struct {
	runs chan *Run
	free chan struct{}
	once sync.Once

	mu      sync.Mutex
	started map[*jobs.Job]*Run
}

// Run is a job in the hands of a Worker.
type Run struct {
	*jobs.Job
	// Ctx is the handler's context.
	Ctx    context.Context //nolint:containedctx // the handler's
	result chan result
	event  chan jobs.Event
}

// result is the return value of a handler.
type result struct {
	outcome jobs.Outcome
	err     error
}

// errFreed ends the jobs of a worker that is freed.
var errFreed = errors.New("the test is over")

// maxRuns bounds the jobs of a worker that the test has not asked for.
const maxRuns = 1000

// NewWorker returns a Worker.
func NewWorker() *Worker {
	return &Worker{runs: make(chan *Run, maxRuns), free: make(chan struct{}), started: map[*jobs.Job]*Run{}}
}

// Handle is the queue's handler.
func (k *Worker) Handle(ctx context.Context, j *jobs.Job) (jobs.Outcome, error) {
	r := &Run{Job: j, Ctx: ctx, result: make(chan result, 1), event: make(chan jobs.Event, 1)}
	k.mu.Lock()
	k.started[j] = r
	k.mu.Unlock()
	k.runs <- r
	select {
	case out := <-r.result:
		return out.outcome, out.err
	case <-k.free:
		return jobs.Outcome{}, errFreed
	}
}

// Observe is the queue's observer.
func (k *Worker) Observe(e jobs.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.started[e.Job]; r != nil {
		r.event <- e
	}
}

// Next returns the next job that has started.
func (k *Worker) Next(t require.TestingT) *Run { return await(t, k.runs) }

// Waiting returns how many jobs have started that the test has not asked for.
func (k *Worker) Waiting() int { return len(k.runs) }

// Free ends every job that the test has left, so that the queue can be stopped.
func (k *Worker) Free() { k.once.Do(func() { close(k.free) }) }

// End lets the job's handler return, and returns what happened to the job.
func (r *Run) End(t require.TestingT, o jobs.Outcome, err error) jobs.Event {
	r.result <- result{o, err}
	return await(t, r.event)
}

// await receives a value that must come.
func await[T any](t require.TestingT, c <-chan T) T {
	limit := clock.System().NewTimer(patience)
	defer limit.Stop()
	select {
	case v := <-c:
		return v
	case <-limit.C():
		require.FailNow(t, "the test waits in vain")
		panic("unreachable")
	}
}
