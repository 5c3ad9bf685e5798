package module

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/role"
)

const (
	// lastTimeout is how long what was counted may take to be stored, once the time to stop in good order is over.
	lastTimeout = 2 * time.Second
)

// Config configures a Runner.
type Config struct {
	Clock  clock.Clock
	Logger *slog.Logger
	// StopTimeout bounds the stop that follows a start that failed half way.
	StopTimeout time.Duration
	// Role is the node's. Services and jobs of other roles do not run.
	Role role.Role
}

// Runner starts modules and stops them. Start is called once; Stop after it, and only the first call does anything.
type Runner struct {
	cfg Config

	// started and running are the running services and jobs, in the order of their start.
	started []Service
	running []jobs.Periodic
	loops   sync.WaitGroup
	cancel  context.CancelFunc
}

// NewRunner returns a Runner that runs nothing yet.
func NewRunner(c Config) *Runner { return &Runner{cfg: c} }

// Start starts the modules in their order: first the services of each, then its jobs. When a service does not start,
// Start stops what had been started before and returns the error.
func (r *Runner) Start(ctx context.Context, modules []Module) error {
	if err := check(modules); err != nil {
		return err
	}
	loopCtx, cancel := context.WithCancel(db.WithTurn(context.WithoutCancel(ctx), db.TurnJob))
	r.cancel = cancel
	loop := func(j jobs.Periodic) {
		r.running = append(r.running, j)
		r.loops.Go(func() { j.Loop(loopCtx, r.cfg.Clock, r.cfg.Logger) })
	}
	follow(loopCtx, modules, r.cfg.Clock, r.cfg.Logger, func(fn func()) { r.loops.Go(fn) })
	for _, m := range modules {
		for _, s := range m.Services {
			if !r.cfg.Role.Does(s.Part) {
				continue
			}
			if err := s.start(ctx); err != nil {
				stopCtx, stopped := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.StopTimeout)
				defer stopped()
				return errors.Join(err, r.Stop(stopCtx))
			}
			r.started = append(r.started, s)
		}
		for _, j := range m.Jobs {
			if r.cfg.Role.Does(j.Part) {
				loop(j)
			}
		}
	}
	return nil
}

// Stop ends what Start has started, in three steps:
//
//  1. Services drain, in the order of their start: requests, which came last, wait for streams to end.
//  2. Jobs end, and store what they had counted.
//  3. Services stop, in reverse order.
//
// When ctx ends, what still runs is cut off.
func (r *Runner) Stop(ctx context.Context) error {
	if r.cancel == nil {
		return nil
	}
	var err error
	for _, s := range r.started {
		if s.Drain != nil {
			err = errors.Join(err, s.Drain(ctx))
		}
	}
	r.cancel()
	r.cancel = nil
	r.loops.Wait()
	r.finishJobs(ctx)
	for len(r.started) > 0 {
		last := len(r.started) - 1
		if s := r.started[last]; s.Stop != nil {
			err = errors.Join(err, s.Stop(ctx))
		}
		r.started = r.started[:last]
	}
	return err
}

func (r *Runner) finishJobs(ctx context.Context) {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
		defer cancel()
	}
	for len(r.running) > 0 {
		last := len(r.running) - 1
		r.running[last].Finish(ctx, r.cfg.Logger)
		r.running = r.running[:last]
	}
}

func (s *Service) start(ctx context.Context) error {
	if s.Start == nil {
		return nil
	}
	return s.Start(ctx)
}

// check refuses modules, services and jobs that have no name, or the name of another.
func check(modules []Module) error {
	seen := map[string]bool{}
	var err error
	once := func(kind, name string) {
		switch {
		case name == "":
			err = errors.Join(err, fmt.Errorf("a %s has no name", kind))
		case seen[kind+" "+name]:
			err = errors.Join(err, fmt.Errorf("two %ss are named %q", kind, name))
		}
		seen[kind+" "+name] = true
	}
	for _, m := range modules {
		once("module", m.Name)
		for _, s := range m.Services {
			once("service", s.Name)
		}
		for _, j := range m.Jobs {
			once("job", j.Name)
		}
		for _, c := range m.Caches {
			once("cache", c.Name)
			if c.Refresh == nil || c.Drop == nil {
				err = errors.Join(err, fmt.Errorf("the cache %q cannot be refreshed or dropped", c.Name))
			}
		}
	}
	return err
}
