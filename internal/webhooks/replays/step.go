package replays

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

const (
	// scanWindow is how many events one query of a job looks at, at most, and scanParts how many such queries there are in
	// a step where they select nothing.
	scanWindow = 5000
	scanParts  = 5
	// stepEvents is how many events a step treats, at most. With the window it keeps a step's transaction far under 500
	// rows.
	stepEvents = 50
)

// part is what a step takes on.
type part struct {
	*deliveries.BulkReplay
	// begun is the event that was begun before, which is then the only one; empty for a part of the scan.
	begun string
	// found is the part of the scan.
	found events.Found
}

// step finds out what became of what the job has started, and starts what comes next. What it changes, it changes in
// one short transaction together with the deliveries, and only if nobody has changed the job since it was read: a job
// that is paused starts nothing more, of two workers one gets on, and a crash repeats nothing and leaves nothing out.
// It reports whether it changed something.
func (s *Service) step(ctx context.Context, r *Replay) (changed bool, err error) {
	now := clock.FromMillis(clock.Millis(s.cfg.Clock.Now()))
	progress, err := s.cfg.Deliveries.Progress(ctx, r.Environment, r.work.open)
	if err != nil {
		return false, err
	}
	before := r.clone()
	before.settle(progress)
	next, err := s.next(ctx, &before)
	if err != nil {
		return false, err
	}
	changed = next != nil || len(before.work.open) < len(r.work.open) || before.finished()
	if !changed && r.work.claim == s.claim && r.work.lease.Sub(now) > leaseTime/2 {
		return false, nil
	}
	var after Replay
	var result deliveries.BulkResult
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		after = before.clone()
		after.take(s.claim, now.Add(leaseTime), now)
		switch {
		case next == nil:
		case next.Gone():
			after.fail(FailedSubscriptionDeleted, now)
		default:
			if result, err = next.Start(ctx, tx, now); err != nil {
				return err
			}
			after.advance(next, result, now)
		}
		if !after.Status.Ended() && after.finished() {
			after.become(Completed, now)
		}
		if s.interrupt != nil {
			if err := s.interrupt(); err != nil {
				return err
			}
		}
		return update(ctx, tx, &after)
	})
	if err != nil {
		return false, err
	}
	*r = after
	if len(result.Started) > 0 {
		s.cfg.Deliveries.Wake()
	}
	s.count(progress, result)
	return changed, nil
}

// next prepares what the job may start now; nil where that is nothing.
func (s *Service) next(ctx context.Context, r *Replay) (*part, error) {
	// A tenth of a second's share at a time, so that a rate is no series of bursts.
	limit := min(max(r.RatePerSecond/10, 1), window-len(r.work.open))
	if limit <= 0 || r.work.scanned && r.work.begun == "" {
		return nil, nil //nolint:nilnil // nothing to do is no error
	}
	p := &part{begun: r.work.begun}
	if err := s.search(ctx, r, p); err != nil {
		return nil, err
	}
	var err error
	p.BulkReplay, err = s.cfg.Deliveries.PrepareBulk(ctx, r.bulk(r.Environment, p.found.Events, r.work.after, limit))
	return p, err
}

// search finds the events of the part.
func (s *Service) search(ctx context.Context, r *Replay, p *part) error {
	if p.begun != "" {
		e, err := s.cfg.Events.Get(ctx, r.view(), p.begun)
		if apperr.Is(err, apperr.CodeNotFound) {
			return nil // it is gone, and with it what was left of it
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

// settle counts what became of deliveries that were started.
func (r *Replay) settle(p deliveries.BulkProgress) {
	r.Succeeded += p.Succeeded
	r.Failed += p.Failed
	r.Other += p.Other
	r.work.open = p.Open
}

// advance notes what became of a part.
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

// finished reports whether nothing is left to do.
func (r *Replay) finished() bool {
	return r.work.scanned && r.work.begun == "" && len(r.work.open) == 0
}

// Outcomes of a job's deliveries, as the metric names them.
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
