// Package phases runs the measured parts of the bench against one server.
package phases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/load"
	"sallyport/bench/internal/procstat"
	"sallyport/bench/internal/report"
	"sallyport/bench/internal/sink"
	"sallyport/bench/internal/stats"
	"sallyport/internal/platform/clock"
)

const (
	drainPoll = 5 * time.Millisecond
	// listenOn is how long the sink listens after the last arrival, for duplicates.
	listenOn = 500 * time.Millisecond
)

// ErrNothingMeasured reports a phase whose measured part holds no acknowledged event.
var ErrNothingMeasured = errors.New("no event was acknowledged in the measured time")

// Settings bound every phase by time and count.
type Settings struct {
	Connections int
	Warmup      time.Duration
	Duration    time.Duration
	// PerSecond is the rate of the open loop.
	PerSecond int
	// MaxEvents is the most that any one load of a phase sends.
	MaxEvents int
	// Drain is how long acknowledged events may take to arrive after the generator has stopped.
	Drain time.Duration
}

// Subject is one server under load.
type Subject struct {
	Target  load.Target
	Process procstat.Proc
	// Profile takes profiles of the server during the phase of that name; nil takes none.
	Profile func(ctx context.Context, phase string) error
}

// Runner runs phases, one at a time.
type Runner struct {
	clk      clock.Clock
	settings Settings
	self     procstat.Proc
	epoch    uint32
}

// NewRunner returns a Runner. Its events are marked with epochs from firstEpoch up; a random one keeps runs apart.
func NewRunner(clk clock.Clock, settings Settings, firstEpoch uint32) *Runner {
	return &Runner{clk: clk, settings: settings, self: procstat.Of(os.Getpid()), epoch: firstEpoch}
}

func (r *Runner) newTracker() *event.Tracker {
	r.epoch++
	return event.NewTracker(r.clk, r.epoch, r.settings.MaxEvents)
}

// Ingest runs the closed loop against a subject whose events match no subscription.
func (r *Runner) Ingest(ctx context.Context, subject Subject) (*report.Ingest, error) {
	sampler := procstat.Sample(ctx, r.clk, subject.Process)
	defer sampler.Stop()
	sampler.Begin()
	tracker := r.newTracker()
	var from time.Duration
	begun := false
	var cpu meter
	var meterErr error
	profiling, profileCtx := errgroup.WithContext(ctx)
	out, err := load.Run(ctx, r.clk, subject.Target, tracker, load.Plan{
		Connections: r.settings.Connections,
		Warmup:      r.settings.Warmup,
		Duration:    r.settings.Duration,
		AfterWarmup: func() {
			cpu, meterErr = r.startMeter(subject)
			from, begun = tracker.Now(), true
			if subject.Profile != nil {
				profiling.Go(func() error { return subject.Profile(profileCtx, "ingest") })
			}
		},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ingest: %w", err), profiling.Wait())
	}
	if err := errors.Join(meterErr, profiling.Wait()); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if !begun {
		return nil, fmt.Errorf("ingest: %w: the warm-up used up the %d events allowed", ErrNothingMeasured,
			r.settings.MaxEvents)
	}
	w := acknowledged(tracker.Records(), from, from+r.settings.Duration, out.Exhausted)
	if w.events == 0 {
		return nil, fmt.Errorf("ingest: %w; first problem: %s", ErrNothingMeasured, out.FirstProblem)
	}
	use, err := cpu.stop(w.eventsToEnd, sampler)
	if err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	return &report.Ingest{
		Events: w.events, Seconds: w.length.Seconds(), PerSecond: rate(w.events, w.length),
		Ack: report.NewQuantiles(stats.Summarise(w.ack)), Requests: requests(out), Use: use,
	}, nil
}

// Delivery runs the closed loop with every event forwarded to the sink.
func (r *Runner) Delivery(ctx context.Context, subject Subject, to *sink.Sink,
	verifier *sink.Verifier) (*report.Delivery, error) {
	sampler := procstat.Sample(ctx, r.clk, subject.Process)
	defer sampler.Stop()
	sampler.Begin()
	var before journey
	var beforeSink sink.Counts
	if r.settings.Warmup > 0 {
		warmup, err := r.journey(ctx, subject, to, verifier, load.Plan{Connections: r.settings.Connections,
			Duration: r.settings.Warmup}, "")
		if err != nil {
			return nil, fmt.Errorf("delivery, warm-up: %w", err)
		}
		before, beforeSink = warmup.journey, warmup.counts
	}
	run, err := r.journey(ctx, subject, to, verifier,
		load.Plan{Connections: r.settings.Connections, Duration: r.settings.Duration}, "delivery")
	if err != nil {
		return nil, fmt.Errorf("delivery: %w", err)
	}
	use, err := run.meter.stop(run.delivered, sampler)
	if err != nil {
		return nil, fmt.Errorf("delivery: %w", err)
	}
	return &report.Delivery{
		Acknowledged: run.acknowledged, Delivered: run.delivered,
		IngestPerSecond:     rate(run.acknowledged, run.lastAck-run.from),
		DeliveriesPerSecond: rate(run.counts.Forwards, run.lastSeen-run.from),
		SustainedPerSecond:  rate(run.delivered, max(run.lastSeen, run.lastAck)-run.from),
		DrainSeconds:        max(0, run.lastSeen-run.lastAck).Seconds(),
		Ack:                 report.NewQuantiles(stats.Summarise(run.ack)),
		ToSink:              report.NewQuantiles(stats.Summarise(run.toSink)),
		Requests:            requests(run.out),
		Arrival:             run.arrival(before, beforeSink),
		Use:                 use,
	}, nil
}

// Latency runs the open loop with every event forwarded to the sink.
func (r *Runner) Latency(ctx context.Context, subject Subject, to *sink.Sink,
	verifier *sink.Verifier) (*report.Latency, error) {
	sampler := procstat.Sample(ctx, r.clk, subject.Process)
	defer sampler.Stop()
	sampler.Begin()
	run, err := r.journey(ctx, subject, to, verifier, load.Plan{
		Connections: r.settings.Connections, Duration: r.settings.Duration, PerSecond: r.settings.PerSecond,
	}, "")
	if err != nil {
		return nil, fmt.Errorf("latency: %w", err)
	}
	use, err := run.meter.stop(run.delivered, sampler)
	if err != nil {
		return nil, fmt.Errorf("latency: %w", err)
	}
	return &report.Latency{
		Acknowledged: run.acknowledged, Delivered: run.delivered,
		Lag:      report.NewQuantiles(run.out.Lag),
		Ack:      report.NewQuantiles(stats.Summarise(run.ack)),
		ToSink:   report.NewQuantiles(stats.Summarise(run.toSink)),
		Requests: requests(run.out),
		Arrival:  run.arrival(journey{}, sink.Counts{}),
		Use:      use,
	}, nil
}

// journeyRun is one load whose events were followed to the sink.
type journeyRun struct {
	journey
	out    load.Outcome
	counts sink.Counts
	meter  meter
	from   time.Duration
}

// journey sends by plan and waits until every acknowledged event has arrived, or the drain timeout has passed.
func (r *Runner) journey(
	ctx context.Context, subject Subject, to *sink.Sink, verifier *sink.Verifier, plan load.Plan, profile string,
) (journeyRun, error) {
	tracker := r.newTracker()
	to.Expect(tracker, verifier)
	profiling, profileCtx := errgroup.WithContext(ctx)
	if profile != "" && subject.Profile != nil {
		profiling.Go(func() error { return subject.Profile(profileCtx, profile) })
	}
	var run journeyRun
	var err error
	if run.meter, err = r.startMeter(subject); err != nil {
		return run, err
	}
	run.from = tracker.Now()
	run.out, err = load.Run(ctx, r.clk, subject.Target, tracker, plan)
	if err == nil {
		err = r.drain(ctx, tracker)
	}
	run.meter.pause()
	if err := errors.Join(err, profiling.Wait(), r.wait(ctx, listenOn)); err != nil {
		return run, err
	}
	run.counts = to.Counts()
	run.journey = follow(tracker.Records())
	if run.acknowledged == 0 {
		return run, fmt.Errorf("%w; first problem: %s", ErrNothingMeasured, run.out.FirstProblem)
	}
	return run, nil
}

// drain waits until all that was acknowledged has arrived. Running out of time is no error: what is missing then is
// counted.
func (r *Runner) drain(ctx context.Context, tracker *event.Tracker) error {
	for end := tracker.Now() + r.settings.Drain; tracker.Now() < end; {
		if acked, arrived := tracker.Progress(); arrived == acked {
			return nil
		}
		if err := r.wait(ctx, drainPoll); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) wait(ctx context.Context, d time.Duration) error {
	timer := r.clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func requests(out load.Outcome) report.Requests {
	return report.Requests{Refused: out.Refused, Failed: out.Failed, FirstProblem: out.FirstProblem,
		Exhausted: out.Exhausted}
}
