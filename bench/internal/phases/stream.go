package phases

import (
	"context"
	"fmt"
	"time"

	"sallyport/bench/internal/load"
	"sallyport/bench/internal/procstat"
	"sallyport/bench/internal/readers"
	"sallyport/bench/internal/report"
	"sallyport/bench/internal/sink"
	"sallyport/bench/internal/stats"
)

// auditEvery is of how many readers one is followed event by event.
const auditEvery = 50

// Streaming runs the open loop, with every event forwarded to the sink, while so many readers read the stream. A reader
// that has not got every acknowledged event when the drain timeout expires has missed some.
func (r *Runner) Streaming(ctx context.Context, subject Subject, to *sink.Sink, verifier *sink.Verifier,
	plan readers.Plan) (_ *report.Streaming, err error) {
	sampler := procstat.Sample(ctx, r.clk, subject.Process)
	defer sampler.Stop()
	plan.AuditEvery = auditEvery
	open, err := readers.Open(ctx, r.clk, plan)
	if err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	defer open.Close()
	sampler.Begin()
	begin := r.clk.Now()
	run, err := r.journey(ctx, subject, to, verifier, load.Plan{
		Connections: r.settings.Connections, Duration: r.settings.Duration, PerSecond: r.settings.PerSecond,
	}, "")
	if err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	seconds := r.clk.Now().Sub(begin).Seconds()
	for end := r.clk.Now().Add(r.settings.Drain); open.Least() < int64(run.acknowledged) && r.clk.Now().Before(end); {
		if err := r.wait(ctx, drainPoll); err != nil {
			return nil, fmt.Errorf("streams: %w", err)
		}
	}
	// The messages after the last received ones: attempts and changes.
	if err := r.wait(ctx, listenOn); err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	got := open.Close()
	use, err := run.meter.stop(run.acknowledged, sampler)
	if err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	missing, duplicates := int64(0), got.DuplicateEvents+got.DuplicateAttempts
	for _, n := range got.Events {
		missing += max(0, int64(run.acknowledged)-n)
		duplicates += max(0, n-int64(run.acknowledged))
	}
	return &report.Streaming{
		Readers: plan.Count, Acknowledged: run.acknowledged,
		MessagesPerSecond: float64(got.Received+got.Attempts+got.Updates) / seconds,
		Received:          got.Received, Attempts: got.Attempts, Updates: got.Updates,
		Missing: missing, Least: got.Least, Duplicates: duplicates,
		Lagged: got.Lagged, Gaps: got.Gaps, Reconnects: got.Reconnects,
		Delay: report.NewQuantiles(got.Delay), Lag: report.NewQuantiles(run.out.Lag),
		Ack: report.NewQuantiles(stats.Summarise(run.ack)),
		CPU: use.CPUPerThousand * float64(run.acknowledged) / 1000 / seconds, Requests: requests(run.out), Use: use,
		FirstProblem: got.FirstProblem,
	}, nil
}

// Contended runs the closed loop without readers, with them, and without them again: the machine's own drift shows in
// the first and the last.
func (r *Runner) Contended(ctx context.Context, subject Subject, plan readers.Plan) (*report.Contended, error) {
	var c report.Contended
	var err error
	if c.Before, err = r.Ingest(ctx, subject); err != nil {
		return nil, err
	}
	plan.AuditEvery = plan.Count // they would spend more on following than on reading
	open, err := readers.Open(ctx, r.clk, plan)
	if err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	begin := r.clk.Now()
	c.With, err = r.Ingest(ctx, subject)
	seconds := r.clk.Now().Sub(begin).Seconds()
	got := open.Close()
	if err != nil {
		return nil, err
	}
	if c.After, err = r.Ingest(ctx, subject); err != nil {
		return nil, err
	}
	c.Readers, c.Lagged, c.Gaps, c.Reconnects, c.FirstProblem = plan.Count, got.Lagged, got.Gaps, got.Reconnects,
		got.FirstProblem
	c.MessagesPerSecond = float64(got.Received) / seconds
	c.Ratio = c.With.PerSecond / ((c.Before.PerSecond + c.After.PerSecond) / 2)
	return &c, nil
}

// rest is how long the server rests between phases.
const rest = 2 * time.Second

// Rest waits until what a phase has left behind is done.
func (r *Runner) Rest(ctx context.Context) error { return r.wait(ctx, rest) }
