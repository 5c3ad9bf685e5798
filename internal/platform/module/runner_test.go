package module_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// diary notes what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

func (d *diary) service(name string) module.Service {
	step := func(step string) func(context.Context) error {
		return func(context.Context) error {
			d.note(step + " " + name)
			return nil
		}
	}
	return module.Service{Name: name, Start: step("start"), Drain: step("drain"), Stop: step("stop")}
}

func (d *diary) job(name string, ran chan<- struct{}) jobs.Periodic {
	return jobs.Periodic{Name: name, Failure: "cannot " + name,
		Run: func(context.Context) (time.Duration, error) {
			ran <- struct{}{}
			return time.Minute, nil
		},
		Last: func(context.Context) error {
			d.note("finish " + name)
			return nil
		}}
}

type world struct {
	clock *clock.Manual
	log   bytes.Buffer
	*module.Runner
}

func newWorld() *world {
	w := &world{clock: clock.NewManual(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))}
	w.Runner = module.NewRunner(module.Config{Clock: w.clock, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		StopTimeout: time.Minute})
	return w
}

// Services start in order. They drain in the same order, and stop in reverse, after the jobs have stored what they had
// counted. Nothing is left waiting, and another Stop does nothing.
func TestOrder(t *testing.T) {
	t.Parallel()
	w, d, ran := newWorld(), &diary{}, make(chan struct{}, 2)
	require.NoError(t, w.Start(t.Context(), []module.Module{
		{Name: "a", Services: []module.Service{d.service("a1"), d.service("a2")},
			Jobs: []jobs.Periodic{d.job("count a", ran)}},
		{Name: "nothing"},
		{Name: "b", Services: []module.Service{d.service("b"), {Name: "idle"}}, Jobs: []jobs.Periodic{d.job("count b", ran)}},
	}))
	<-ran
	<-ran
	require.NoError(t, w.Stop(t.Context()))
	require.NoError(t, w.Stop(t.Context()))
	require.Equal(t, []string{
		"start a1", "start a2", "start b",
		"drain a1", "drain a2", "drain b",
		"finish count b", "finish count a",
		"stop b", "stop a2", "stop a1",
	}, d.read())
	require.Zero(t, w.clock.Timers())
	require.Empty(t, w.log.String())
}

// When a service does not start, those before it are stopped with their jobs, those after it never start, and the error
// is returned with any errors of the stop.
func TestHalfAStart(t *testing.T) {
	t.Parallel()
	w, d, ran := newWorld(), &diary{}, make(chan struct{}, 2)
	broken, stuck := errors.New("broken"), errors.New("stuck")
	bad := d.service("bad")
	bad.Start = func(context.Context) error { return broken }
	first := d.service("first")
	first.Stop = func(ctx context.Context) error {
		_, bounded := ctx.Deadline()
		require.True(t, bounded)
		require.NoError(t, ctx.Err())
		d.note("stop first")
		return stuck
	}
	ctx, interrupt := context.WithCancel(t.Context())
	background := make(chan struct{})
	err := w.Start(ctx, []module.Module{
		{Name: "a", Services: []module.Service{first, module.Background("loop", func(ctx context.Context) {
			defer close(background)
			interrupt() // an end of the start's context must not end the stop
			<-ctx.Done()
		})}, Jobs: []jobs.Periodic{d.job("count", ran)}},
		{Name: "b", Services: []module.Service{d.service("second"), bad, d.service("never")},
			Jobs: []jobs.Periodic{d.job("never", ran)}},
	})
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, stuck)
	require.Equal(t, []string{"start first", "start second", "drain first", "drain second", "finish count", "stop second",
		"stop first"}, d.read())
	<-background
	require.Zero(t, w.clock.Timers())
	require.NoError(t, w.Stop(t.Context()))
}

// Counts are stored even when the time to stop has run out.
func TestFinishAfterTheTimeToStop(t *testing.T) {
	t.Parallel()
	w := newWorld()
	stored := false
	require.NoError(t, w.Start(t.Context(), []module.Module{{Name: "a", Jobs: []jobs.Periodic{{Name: "count",
		Run: jobs.Every(time.Minute, func(context.Context) error { return nil }),
		Last: func(ctx context.Context) error {
			stored = ctx.Err() == nil
			return nil
		}}}}}))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Stop(over))
	require.True(t, stored)
}

// Failures are logged with the job's words and name. A round that the stop interrupts has not failed.
func TestFailures(t *testing.T) {
	t.Parallel()
	w := newWorld()
	round := make(chan struct{})
	require.NoError(t, w.Start(t.Context(), []module.Module{{Name: "a", Jobs: []jobs.Periodic{
		{Name: "warns", Failure: "cannot count", Warn: true, LastFailure: "cannot store the count",
			Run: func(context.Context) (time.Duration, error) {
				defer func() { round <- struct{}{} }()
				return time.Minute, errors.New("no ink")
			},
			Last: func(context.Context) error { return errors.New("no paper") }},
		{Name: "waits", Failure: "cannot wait", Run: func(ctx context.Context) (time.Duration, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}},
	}}}))
	<-round
	require.NoError(t, w.Stop(t.Context()))
	log := w.log.String()
	require.Contains(t, log, `level=WARN msg="cannot count" job=warns error="no ink"`)
	require.Contains(t, log, `level=WARN msg="cannot store the count" job=warns error="no paper"`)
	require.NotContains(t, log, "waits")
}

// A module, a service, a job or a cache without a name, or with that of another, is refused before anything starts.
func TestNames(t *testing.T) {
	t.Parallel()
	w, d := newWorld(), &diary{}
	err := w.Start(t.Context(), []module.Module{
		{Name: "a", Services: []module.Service{d.service("twin")}, Jobs: []jobs.Periodic{{Name: "twin"}}},
		{Name: "a", Services: []module.Service{d.service("twin")}, Jobs: []jobs.Periodic{{Name: "twin"}, {}},
			Caches: []module.Cache{{Name: "twin"}}},
	})
	require.EqualError(t, err, "two modules are named \"a\"\ntwo services are named \"twin\"\n"+
		"two jobs are named \"twin\"\na job has no name\nthe cache \"twin\" cannot be refreshed or dropped")
	require.Empty(t, d.read())
	require.NoError(t, w.Stop(t.Context()))
}

// A node runs what each node needs and what its role is for, and nothing of the others.
func TestRoles(t *testing.T) {
	t.Parallel()
	part := func(d *diary, name string, p role.Part) module.Module {
		s := d.service(name)
		s.Part = p
		ran := make(chan struct{}, 1)
		j := d.job("count "+name, ran)
		j.Part = p
		return module.Module{Name: name, Services: []module.Service{s}, Jobs: []jobs.Periodic{j}}
	}
	for r, names := range map[role.Role][]string{
		"":          {"each", "serving", "working"},
		role.All:    {"each", "serving", "working"},
		role.API:    {"each", "serving"},
		role.Worker: {"each", "working"},
	} {
		w, d := newWorld(), &diary{}
		w.Runner = module.NewRunner(module.Config{Clock: w.clock, Logger: slog.New(slog.DiscardHandler),
			StopTimeout: time.Minute, Role: r})
		require.NoError(t, w.Start(t.Context(), []module.Module{part(d, "each", role.EveryNode),
			part(d, "serving", role.Serving), part(d, "working", role.Working)}))
		require.NoError(t, w.Stop(t.Context()))
		var want []string
		for _, name := range names {
			want = append(want, "start "+name, "drain "+name, "stop "+name, "finish count "+name)
		}
		require.ElementsMatch(t, want, d.read(), "role %q", r)
	}
}
