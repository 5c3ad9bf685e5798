package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/load"
)

// attack goes on until its context ends, and says what it came to.
type attack func(ctx context.Context) (note string, err error)

// next measures the steady work of an environment alone and while another environment does something. prepare creates
// what that needs; the environment is alone as long as nothing happens there.
func next(prepare func(ctx context.Context, s *scene) (attack, error)) func(context.Context, *Bench) (Figures, Figures,
	string, error) {
	return nextBy(prepare, (*scene).steady)
}

// nextBy is next with other work of the environment.
func nextBy(prepare func(ctx context.Context, s *scene) (attack, error), work func(*scene, context.Context) (Figures,
	error)) func(context.Context, *Bench) (Figures, Figures, string, error) {
	return func(ctx context.Context, b *Bench) (without, with Figures, note string, err error) {
		s, err := b.open(ctx, 0)
		if err != nil {
			return nil, nil, "", err
		}
		defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
		if s.others, err = s.api().CreateEnvironment(ctx, s.servers[0].User, "other"); err != nil {
			return nil, nil, "", err
		}
		if s.theirs, err = s.others.CreateConnection(ctx, provider, secret); err != nil {
			return nil, nil, "", err
		}
		begin, err := prepare(ctx, s)
		if err != nil {
			return nil, nil, "", err
		}
		if _, err = s.burst(ctx, b.short(), maxEvents); err != nil {
			return nil, nil, "", err
		}
		if without, err = work(s, ctx); err != nil {
			return nil, nil, "", err
		}
		attacking, end := context.WithCancel(ctx)
		var running sync.WaitGroup
		var attackErr error
		running.Go(func() { note, attackErr = begin(attacking) })
		err = s.wait(ctx, b.short())
		if err == nil {
			with, err = work(s, ctx)
		}
		end()
		running.Wait()
		return without, with, note, errors.Join(err, attackErr)
	}
}

// tally counts what requests came to. It is safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what]++
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", t.counts[what], what))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// flood makes requests from so many clients: each client as soon as its last request has ended or, with an interval, at
// that distance.
func (s *scene) flood(clients int, interval time.Duration, request func(ctx context.Context) (status int,
	err error)) attack {
	return func(ctx context.Context) (string, error) {
		var count tally
		var running sync.WaitGroup
		for range clients {
			running.Go(func() {
				for due := s.bench.clk.Now(); ctx.Err() == nil; due = due.Add(interval) {
					if interval > 0 && s.wait(ctx, due.Sub(s.bench.clk.Now())) != nil {
						return
					}
					status, err := request(ctx)
					switch {
					case ctx.Err() != nil:
						return
					case err != nil:
						count.add("no response")
					default:
						count.add(fmt.Sprint(status))
					}
				}
			})
		}
		running.Wait()
		return count.String(), nil
	}
}

// send posts so many events to the other environment, as fast as they are acknowledged.
func (s *scene) send(ctx context.Context, events int) error {
	const connections = 16
	s.bench.epoch++
	tracker := event.NewTracker(s.bench.clk, s.bench.epoch, events)
	out, err := load.Run(ctx, s.bench.clk, s.target(s.theirs), tracker, load.Plan{Connections: connections,
		Duration: drain})
	if err == nil && out.Refused+out.Failed > 0 {
		err = fmt.Errorf("%w: %d of %d events of the other environment: %s", errAttack, out.Refused+out.Failed, events,
			out.FirstProblem)
	}
	return err
}

// errAttack reports a condition that could not be made.
var errAttack = errors.New("the condition could not be made")

// once posts events to the other environment when it begins, and then waits for the end.
func (s *scene) once(events int) attack {
	return func(ctx context.Context) (string, error) {
		err := s.send(ctx, events)
		if errors.Is(err, context.Canceled) {
			return fmt.Sprintf("less than %d events", events), nil
		}
		<-ctx.Done()
		return fmt.Sprintf("%d events", events), err
	}
}

// subscribe creates so many subscriptions of the other environment to one URL.
func (s *scene) subscribe(ctx context.Context, count int, url string, fields func(i int) map[string]any) error {
	const clients = 4
	var mu sync.Mutex
	var errs error
	next := 0
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				failed := errs != nil
				mu.Unlock()
				if i >= count || failed {
					return
				}
				var more map[string]any
				if fields != nil {
					more = fields(i)
				}
				_, err := s.others.Subscribe(ctx, url, more)
				mu.Lock()
				errs = errors.Join(errs, err)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return errs
}

// list returns a request for a list of the other environment.
func (s *scene) list(query string) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		status, _, err := s.others.Do(ctx, http.MethodGet, "/webhook-events?"+query, nil)
		return status, err
	}
}
