package compare

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// mostMemory is how much memory a node may take, in MiB.
	mostMemory = 200
	slowness   = 10 * time.Millisecond
)

func peakTarget() Target { return Target{Figure: Peak, Limit: mostMemory, Absolute: true} }

// cliffs returns the rows about conditions that once made an event several times as expensive.
func cliffs() []Row {
	return []Row{
		{Name: "slow", About: "4,000 events as fast as they are acknowledged to a receiver that takes 10 ms, and to one " +
			"that takes no time",
			Targets: []Target{{Figure: CPU, Limit: 1.4}}, measure: slowReceiver},
		{Name: "hanging", About: "60 events a second while 12,000 deliveries of the same environment wait for a receiver " +
			"that hangs",
			Targets: []Target{{Figure: CPU, Limit: 1.25}, {Figure: SinkP99, Limit: healthyLimit}}, measure: hangingReceiver},
		{Name: "fresh", About: "12,000 events as fast as they are acknowledged on a database without statistics, and on " +
			"one that was analyzed",
			Targets: []Target{{Figure: CPU, Limit: 1.1}, {Figure: SinkP99, Limit: 1.3}}, Engine: Postgres, measure: fresh},
		{Name: "grown", About: "events as fast as they are acknowledged on a database with millions of them, and on an " +
			"empty one",
			Targets: []Target{{Figure: Rate, Limit: 0.9, Least: true}, {Figure: CPU, Limit: 1.1}}, measure: grown},
		{Name: "waiting", About: "events as fast as they are acknowledged while a million deliveries of another " +
			"environment wait",
			Targets: []Target{peakTarget()}, measure: waiting},
	}
}

// apart measures the same work on two servers, one after the other. Which is the first alternates between pairs.
func (b *Bench) apart(ctx context.Context, without, with func(ctx context.Context) (Figures, error)) (Figures, Figures,
	string, error) {
	b.turn = !b.turn
	var first, second Figures
	var err error
	if b.turn {
		first, err = without(ctx)
		if err == nil {
			second, err = with(ctx)
		}
		return first, second, "", err
	}
	second, err = with(ctx)
	if err == nil {
		first, err = without(ctx)
	}
	return first, second, "", err
}

// on measures on a server of its own, whose receiver needs a delay.
func (b *Bench) on(delay time.Duration, measure func(ctx context.Context, s *scene) (Figures, error)) func(
	context.Context) (Figures, error) {
	return func(ctx context.Context) (f Figures, err error) {
		s, err := b.open(ctx, delay)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
		return measure(ctx, s)
	}
}

func slowReceiver(ctx context.Context, b *Bench) (Figures, Figures, string, error) {
	const events = 4_000
	burst := func(ctx context.Context, s *scene) (Figures, error) { return s.burst(ctx, b.Duration, events) }
	return b.apart(ctx, b.on(0, burst), b.on(slowness, burst))
}

func hangingReceiver(ctx context.Context, b *Bench) (Figures, Figures, string, error) {
	const events, perSecond = 12_000, 60
	defer func(rate int) { b.PerSecond = rate }(b.PerSecond)
	b.PerSecond = perSecond
	measure := func(hangs bool) func(context.Context, *scene) (Figures, error) {
		return func(ctx context.Context, s *scene) (Figures, error) {
			if hangs {
				url, err := b.peers.hanging(ctx)
				if err == nil {
					_, err = s.api().Subscribe(ctx, url, nil)
				}
				if err != nil {
					return nil, err
				}
			}
			if _, err := s.burst(ctx, drain, events); err != nil {
				return nil, err
			}
			return s.steady(ctx)
		}
	}
	return b.apart(ctx, b.on(0, measure(false)), b.on(0, measure(true)))
}

func fresh(ctx context.Context, b *Bench) (Figures, Figures, string, error) {
	const events = 12_000
	measure := func(analyzed bool) func(context.Context, *scene) (Figures, error) {
		return func(ctx context.Context, s *scene) (Figures, error) {
			if analyzed {
				if _, err := s.burst(ctx, drain, events/10); err != nil {
					return nil, err
				}
				if err := s.database.Exec(ctx, "ANALYZE"); err != nil {
					return nil, err
				}
			}
			return s.burst(ctx, drain, events)
		}
	}
	return b.apart(ctx, b.on(0, measure(true)), b.on(0, measure(false)))
}

func grown(ctx context.Context, b *Bench) (Figures, Figures, string, error) {
	measure := func(fill int) func(context.Context, *scene) (Figures, error) {
		return func(ctx context.Context, s *scene) (Figures, error) {
			if _, err := s.burst(ctx, b.short(), maxEvents); err != nil { // of which the fill is copied
				return nil, err
			}
			if err := s.change(ctx, func(ctx context.Context) error { return s.fill(ctx, s.path, fill) }); err != nil {
				return nil, err
			}
			if _, err := s.burst(ctx, b.short(), maxEvents); err != nil {
				return nil, err
			}
			return s.burst(ctx, b.Duration, maxEvents)
		}
	}
	without, with, _, err := b.apart(ctx, b.on(0, measure(0)), b.on(0, measure(b.Fill)))
	return without, with, fmt.Sprintf("%d events", b.Fill), err
}

func waiting(ctx context.Context, b *Bench) (without, with Figures, note string, err error) {
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
	if without, err = s.burst(ctx, b.Duration, maxEvents); err != nil {
		return nil, nil, "", err
	}
	if err = s.hang(ctx, 1); err != nil {
		return nil, nil, "", err
	}
	if err = s.send(ctx, 1); err != nil { // which is copied
		return nil, nil, "", err
	}
	if err = s.change(ctx, func(ctx context.Context) error { return s.fill(ctx, s.theirs, b.Waiting) }); err != nil {
		return nil, nil, "", err
	}
	if with, err = s.burst(ctx, b.Duration, maxEvents); err != nil {
		return nil, nil, "", err
	}
	return without, with, fmt.Sprintf("%d deliveries", b.Waiting), nil
}
