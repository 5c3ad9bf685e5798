package replays

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

const (
	// scanWindow is the maximum number of events that one query reads, and scanParts that of the queries of a step, which
	// goes on while they select nothing.
	scanWindow = 5000
	scanParts  = 5
	// stepEvents is the maximum number of events of a step. With the window it keeps a step's transaction far below 500
	// rows.
	stepEvents = 50
)

// part holds the deliveries that one step starts.
type part struct {
	*deliveries.BulkReplay
	// begun is the event that an earlier step has begun, which is then the only one; empty for a part of the scan.
	begun string
	// found is the part of the scan.
	found events.Found
}

// step counts the outcomes of deliveries that the replay has started, and starts the next ones. It stores both in one
// short transaction with the deliveries, and only while this process holds the replay: a replay that is paused starts
// nothing more, of two workers one gets on, and after a crash no delivery is started twice or skipped. It returns the
// outcome that ends the replay, or nil and when to take the next step.
func (h *holder) step(ctx context.Context) (end *jobs.Outcome, next time.Time, err error) {
	now := clock.FromMillis(clock.Millis(h.cfg.Clock.Now()))
	progress, err := h.cfg.Deliveries.Progress(ctx, h.replay.Environment, h.replay.work.open, h.replay.CreatedAt)
	if err != nil {
		return nil, next, markError(err)
	}
	r := h.replay.clone()
	r.addOutcomes(progress)
	counted := len(r.work.open) < len(h.replay.work.open)
	p, err := h.prepare(ctx, &r)
	switch {
	case err != nil:
		return nil, next, markError(err)
	case !counted && p != nil && p.Gone():
		return h.end(&r, func(after *Replay) { after.fail(FailedSubscriptionDeleted, now) }, now), next, nil
	case !counted && p == nil && r.isFinished():
		return h.end(&r, func(after *Replay) { after.become(Completed, now) }, now), next, nil
	case !counted && p == nil && r.Status == Running:
		next = now.Add(min(openWait<<min(h.idle, 10), maxOpenWait))
		h.idle++
		return nil, next, nil
	case p != nil && p.Gone():
		p = nil // the outcomes are stored first
	}
	err = h.store(ctx, &r, p, progress, now)
	h.idle = 0
	next = later(h.replay.work.due, now.Add(stepPause))
	if deliveries.Changed(err) {
		err = nil // the next step reads again what this one was prepared from
	}
	return nil, next, markError(err)
}

// end returns the outcome that ends the replay.
func (h *holder) end(r *Replay, finish func(after *Replay), now time.Time) *jobs.Outcome {
	outcome := jobs.Done(func(ctx context.Context, tx *sql.Tx) error {
		after := r.clone()
		after.begin(now)
		finish(&after)
		return h.update(ctx, tx, &after)
	})
	return &outcome
}

// store starts the deliveries of the part, if there is one, and stores the replay with them.
func (h *holder) store(ctx context.Context, r *Replay, p *part, progress deliveries.BulkProgress, now time.Time) error {
	var after Replay
	var result deliveries.BulkResult
	err := h.job.Save(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		after = r.clone()
		after.begin(now)
		if p != nil {
			if result, err = p.Start(ctx, tx, now); err != nil {
				return err
			}
			after.advance(p, result, now)
		}
		return h.update(ctx, tx, &after)
	})
	if err != nil {
		return err
	}
	h.replay = after
	if len(result.Started) > 0 {
		h.cfg.Deliveries.Due(r.Environment, started(result)...)
	}
	h.count(progress, result)
	return nil
}

// started returns the subscriptions of the deliveries that were started, each once.
func started(result deliveries.BulkResult) []string {
	list := make([]string, len(result.Started))
	for i, s := range result.Started {
		list[i] = s.SubscriptionID
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// update stores the replay, unless a test ends the process before.
func (s *Service) update(ctx context.Context, tx *sql.Tx, r *Replay) error {
	if s.interrupt != nil {
		if err := s.interrupt(); err != nil {
			return err
		}
	}
	return update(ctx, tx, r)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// prepare returns the part that the replay may start now; nil if there is none.
func (s *Service) prepare(ctx context.Context, r *Replay) (*part, error) {
	// A step starts what a tenth of a second allows, so that the deliveries are spread over the second.
	limit := min(max(r.RatePerSecond/10, 1), window-len(r.work.open))
	if limit <= 0 || r.work.scanned && r.work.begun == "" {
		return nil, nil //nolint:nilnil // having nothing to start is not an error
	}
	p := &part{begun: r.work.begun}
	if err := s.findEvents(ctx, r, p); err != nil {
		return nil, err
	}
	var err error
	p.BulkReplay, err = s.cfg.Deliveries.PrepareBulk(ctx, r.bulk(r.view(), p.found.Events, r.work.after, limit))
	return p, err
}

// findEvents finds the events of the part.
func (s *Service) findEvents(ctx context.Context, r *Replay, p *part) error {
	if p.begun != "" {
		e, err := s.cfg.Events.Get(ctx, r.view(), p.begun)
		if apperr.Is(err, apperr.CodeNotFound) {
			return nil // the event is gone with its deliveries
		}
		p.found.Events = []events.Event{e}
		return err
	}
	scan := r.scan()
	scan.Through, scan.ReceivedThrough = r.work.last, r.CreatedAt
	p.found.Place = r.work.place
	for range scanParts {
		var err error
		p.found, err = s.cfg.Events.Next(ctx, r.view(), scan, p.found.Place, stepEvents)
		if err != nil || p.found.End || len(p.found.Events) > 0 {
			return err
		}
	}
	return nil
}

// clone returns a copy that shares nothing that changes.
func (r *Replay) clone() Replay {
	c := *r
	c.Skipped, c.work.open = maps.Clone(r.Skipped), slices.Clone(r.work.open)
	return c
}

// addOutcomes counts the outcomes of deliveries that were started.
func (r *Replay) addOutcomes(p deliveries.BulkProgress) {
	r.Succeeded += p.Succeeded
	r.Failed += p.Failed
	r.Other += p.Other
	r.work.open = p.Open
}

// advance records the result of a part.
func (r *Replay) advance(p *part, result deliveries.BulkResult, now time.Time) {
	w := &r.work
	list := p.found.Events
	if p.begun == "" {
		r.Matched += int64(result.Events)
		if result.After != "" {
			r.Matched++
		}
	}
	whole := result.Events == len(list)
	switch {
	case p.begun != "" && whole:
		w.place, w.begun, w.after = p.begun, "", ""
	case p.begun != "":
		w.after = result.After
	case whole && p.found.End:
		w.scanned = true
	case whole:
		w.place = p.found.Place
	default:
		if result.Events > 0 {
			w.place = list[result.Events-1].UUID
		}
		if w.after = result.After; w.after != "" {
			w.begun = list[result.Events].UUID
		}
	}
	n := len(result.Started)
	r.Replayed += int64(n)
	for why, skipped := range result.Skipped {
		r.Skipped[why] += skipped
	}
	w.open = append(w.open, result.Started...)
	w.due = now.Add(time.Duration(n) * time.Second / time.Duration(r.RatePerSecond))
}

// isFinished reports whether nothing is left to do.
func (r *Replay) isFinished() bool {
	return r.work.scanned && r.work.begun == "" && len(r.work.open) == 0
}

// Outcomes of a replay's deliveries, as the metric names them.
const (
	outcomeStarted   = "started"
	outcomeSkipped   = "skipped"
	outcomeSucceeded = "succeeded"
	outcomeFailed    = "failed"
	outcomeOther     = "other"
)

// count adds a step to the metrics.
func (s *Service) count(p deliveries.BulkProgress, result deliveries.BulkResult) {
	skipped := int64(0)
	for _, n := range result.Skipped {
		skipped += n
	}
	for outcome, n := range map[string]int64{outcomeStarted: int64(len(result.Started)), outcomeSkipped: skipped,
		outcomeSucceeded: p.Succeeded, outcomeFailed: p.Failed, outcomeOther: p.Other} {
		if n > 0 {
			s.metrics.deliveries.WithLabelValues(outcome).Add(float64(n))
		}
	}
}
