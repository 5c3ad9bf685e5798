package ingest

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

const (
	// maxScreens limits the events whose filters are evaluated at the same time, and so the memory of their parsed bodies;
	// maxEnvironmentScreens those of one environment.
	maxScreens, maxEnvironmentScreens = 16, 4
	// maxScreenQueue limits the events of one environment whose filters are evaluated or wait for that, and maxScreenWait
	// how long one waits: the provider resends the others.
	maxScreenQueue, maxScreenWait = 1000, 5 * time.Second
)

// environmentScreens is how many events of one environment are evaluated at the same time, so that its costly filters
// leave half of the processors to the others.
func environmentScreens() int { return max(1, min(runtime.GOMAXPROCS(0)/2, maxEnvironmentScreens)) }

// errFiltersBusy is the error when an environment's events arrive faster than its filters can be evaluated.
//
//nolint:gochecknoglobals,errname // one value, so that the metric can recognise it
var errFiltersBusy error = apperr.New(apperr.CodeUnavailable,
	"The filters of too many events are being evaluated; try again").RetryIn(time.Second)

// screens counts the events whose filters are being evaluated. It is safe for concurrent use.
type screens struct {
	clock clock.Clock
	all   chan struct{}
	mu    sync.Mutex
	byEnv map[id.Environment]*places
	// left counts what was left out since the last warning.
	left map[id.Environment]unevaluated
}

// places are those of one environment, of which users wait for one or have one.
type places struct {
	own   chan struct{}
	users int
}

func newScreens(clk clock.Clock) *screens {
	return &screens{clock: clk, all: make(chan struct{}, maxScreens), byEnv: map[id.Environment]*places{},
		left: map[id.Environment]unevaluated{}}
}

// begin waits for a place and returns the function that frees it. It returns errFiltersBusy if that takes too long, if
// too many events of the environment wait already, or if ctx ends.
func (s *screens) begin(ctx context.Context, env id.Environment) (end func(), err error) {
	p := s.join(env)
	if p == nil {
		return nil, errFiltersBusy
	}
	timer := s.clock.NewTimer(maxScreenWait)
	defer timer.Stop()
	if !take(ctx, p.own, timer) {
		s.leave(env, p)
		return nil, errFiltersBusy
	}
	if !take(ctx, s.all, timer) {
		<-p.own
		s.leave(env, p)
		return nil, errFiltersBusy
	}
	return func() {
		<-s.all
		<-p.own
		s.leave(env, p)
	}, nil
}

// join returns the places of the environment; nil if too many events use them already.
func (s *screens) join(env id.Environment) *places {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byEnv[env]
	if p == nil {
		p = &places{own: make(chan struct{}, environmentScreens())}
		s.byEnv[env] = p
	}
	if p.users >= maxScreenQueue {
		return nil
	}
	p.users++
	return p
}

func (s *screens) leave(env id.Environment, p *places) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(s.byEnv, env)
	}
}

func take(ctx context.Context, place chan<- struct{}, timer clock.Timer) bool {
	select {
	case place <- struct{}{}:
		return true
	default:
	}
	select {
	case place <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	case <-timer.C():
		return false
	}
}

// noteInterval is how often a warning about the filters of an environment is logged.
const noteInterval = time.Minute

// unevaluated counts, for one environment, what the limit of all filters on an event has left out.
type unevaluated struct {
	logged          time.Time
	events, filters int
}

// noteNotEvaluated logs that filters were not evaluated, unless a warning about the environment was logged within
// noteInterval. logNotEvaluated logs the others.
func (s *Service) noteNotEvaluated(ctx context.Context, env id.Environment, left int) {
	s.screens.mu.Lock()
	defer s.screens.mu.Unlock()
	u := s.screens.left[env]
	u.events++
	u.filters += left
	if now := s.clock.Now(); now.Sub(u.logged) >= noteInterval {
		s.warnNotEvaluated(ctx, env, u)
		u = unevaluated{logged: now}
	}
	s.screens.left[env] = u
}

// logNotEvaluated logs what was left out since the last warnings.
func (s *Service) logNotEvaluated(ctx context.Context) error {
	s.screens.mu.Lock()
	defer s.screens.mu.Unlock()
	now := s.clock.Now()
	for env, u := range s.screens.left {
		if u.events == 0 {
			if now.Sub(u.logged) >= noteInterval {
				delete(s.screens.left, env)
			}
			continue
		}
		s.warnNotEvaluated(ctx, env, u)
		s.screens.left[env] = unevaluated{logged: now}
	}
	return nil
}

func (s *Service) warnNotEvaluated(ctx context.Context, env id.Environment, u unevaluated) {
	s.log.WarnContext(ctx, "filters were not evaluated, because those of all subscriptions cost too much on an event",
		slog.String("environment_id", string(env)), slog.Int("events", u.events), slog.Int("filters", u.filters))
}
