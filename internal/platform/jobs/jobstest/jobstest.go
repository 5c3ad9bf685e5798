// Package jobstest checks that a table and the queue over it keep the promises of package jobs, on both engines. A
// domain that declares a jobs.Table runs the suite over it.
package jobstest

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/testkit"
)

// Fixture is a table under test.
type Fixture struct {
	Table jobs.Table
	// Insert stores a job that is due at the time given and returns its id. Tables without keys ignore key. Apart from
	// these jobs the table is empty.
	Insert func(ctx context.Context, tx *sql.Tx, key string, due time.Time) (jobID string, err error)
}

// Conform runs the suite over a table of a fresh database of each engine. Checks that need a column which the table
// does not have are left out.
func Conform(t *testing.T, fixture func(t *testing.T, store testkit.Store) Fixture) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		f := fixture(t, store)
		_, err := store.DB.Schema().ExecContext(t.Context(), "CREATE TABLE jobstest_effects (job_id text NOT NULL)")
		require.NoError(t, err)
		for _, c := range checks() {
			if c.needs != nil && !c.needs(&f.Table) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				w := &world{top: t, t: t, ctx: t.Context(), store: store, fixture: f, clock: newClock()}
				w.clear()
				defer w.end()
				c.run(w)
			})
		}
	})
}

// check is one promise.
type check struct {
	name  string
	needs func(t *jobs.Table) bool
	run   func(w *world)
}

func newClock() *clock.Manual {
	return clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
}

const (
	// lease, poll and the back-off are those of every queue of the suite.
	lease = time.Minute
	poll  = time.Second
	// patience bounds every wait for something that must happen.
	patience = 30 * time.Second
)

func backoff() jobs.Backoff {
	return jobs.Backoff{First: 10 * time.Second, Max: time.Minute, Jitter: 0.2}
}

// world is a table with nodes that work on it, at a time that stands still.
type world struct {
	top     *testing.T
	t       require.TestingT // top, or a property test's
	ctx     context.Context  //nolint:containedctx // the test's
	store   testkit.Store
	fixture Fixture
	clock   *clock.Manual
	nodes   []*node
}

// clear empties the tables.
func (w *world) clear() {
	w.exec("DELETE FROM " + w.fixture.Table.Name)
	w.exec("DELETE FROM jobstest_effects")
}

func (w *world) exec(text string, args ...any) {
	_, err := w.store.DB.Write().ExecContext(w.ctx, text, args...)
	require.NoError(w.t, err)
}

// end stops every node.
func (w *world) end() {
	over, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	cancel()
	for _, n := range w.nodes {
		n.Free()
		require.NoError(w.t, n.Stop(over))
	}
}

// insert stores a job that is due after the time given.
func (w *world) insert(key string, after time.Duration) (jobID string) {
	require.NoError(w.t, w.store.DB.Tx(w.ctx, func(tx *sql.Tx) (err error) {
		jobID, err = w.fixture.Insert(w.ctx, tx, key, w.clock.Now().Add(after))
		return err
	}))
	return jobID
}

// effect is a change of the domain's, which count finds.
func effect(jobID string) jobs.Change {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO jobstest_effects (job_id) VALUES ($1)", jobID)
		return err
	}
}

// count returns how many effects of a job were stored.
func (w *world) count(jobID string) (n int) {
	require.NoError(w.t, w.store.DB.Read().QueryRowContext(w.ctx,
		"SELECT COUNT(*) FROM jobstest_effects WHERE job_id = $1", jobID).Scan(&n))
	return n
}

// column returns a number from the job's row.
func (w *world) column(name, jobID string) (n int64) {
	require.NoError(w.t, w.store.DB.Read().QueryRowContext(w.ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s = $1", name,
		w.fixture.Table.Name, w.fixture.Table.ID), jobID).Scan(&n))
	return n
}

// node is a process with a queue, whose handler does what the test says.
type node struct {
	*jobs.Queue
	*Worker
	w    *world
	name string
}

// node returns a process of the name given; change changes how its queue is made.
func (w *world) node(name string, change ...func(c *jobs.Config)) *node {
	n := &node{Worker: NewWorker(), w: w, name: name}
	c := jobs.Config{DB: w.store.DB, Clock: w.clock, Logger: slog.New(slog.DiscardHandler), Table: w.fixture.Table,
		Node: name, Handle: n.Handle, Observe: n.Observe, Concurrency: 10, Lease: lease, Poll: poll, Backoff: backoff()}
	for _, fn := range change {
		fn(&c)
	}
	n.Queue = jobs.New(c)
	w.nodes = append(w.nodes, n)
	return n
}

// take claims the jobs that are due, which must be as many as given.
func (n *node) take(count int) []*Run {
	claimed, err := n.Claim(n.w.ctx)
	require.NoError(n.w.t, err)
	require.Equal(n.w.t, count, claimed, "claimed jobs")
	list := make([]*Run, claimed)
	for i := range list {
		list[i] = n.next()
	}
	return list
}

// one claims the one job that is due.
func (n *node) one() *Run { return n.take(1)[0] }

// next returns the next job that starts.
func (n *node) next() *Run { return n.Next(n.w.t) }

// done ends the job with its effect.
func (w *world) done(r *Run) jobs.Event { return r.End(w.t, jobs.Done(effect(r.ID)), nil) }

// fails ends the job with an error.
func (w *world) fails(r *Run, err error) jobs.Event { return r.End(w.t, jobs.Outcome{}, err) }

// again makes the job due after the time given, with its effect.
func (w *world) again(r *Run, after time.Duration) jobs.Event {
	return r.End(w.t, jobs.Again(w.clock.Now().Add(after), effect(r.ID)), nil)
}

// finish ends the job while the test goes on, and returns a function that waits for what happened to it.
func (w *world) finish(r *Run, o jobs.Outcome) (ended func() jobs.Event) {
	r.result <- result{outcome: o}
	return func() jobs.Event { return await(w.t, r.event) }
}

// stop stops a node while the test goes on, and returns a function that waits for the end of the stop.
func (w *world) stop(ctx context.Context, n *node) (stopped func()) {
	end := make(chan error, 1)
	go func() { end <- n.Stop(ctx) }()
	return func() { require.NoError(w.t, await(w.t, end)) }
}

// loops is how many loops a started queue has, each of which waits for a timer.
const loops = 2

// until moves the clock step by step until something has happened. Before each step it awaits that many timers.
func (w *world) until(timers int, step time.Duration, happened func() bool) {
	for !happened() {
		w.awaitTimers(timers, lease)
		w.clock.Advance(step)
	}
}

// awaitTimers waits until so many timers run that fire within the time given.
func (w *world) awaitTimers(n int, within time.Duration) {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	require.NoError(w.t, w.clock.AwaitTimers(ctx, n, within))
}
