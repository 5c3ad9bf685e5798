package eventstream

import (
	"context"
	"time"

	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
)

// start is where a reader begins to read.
type start struct {
	place Place
	// need is the position after which the reader needs records: the one before the first that has something for it, or
	// the newest.
	need int64
	// missing is how many messages lie between the reader and head, the newest position.
	missing int
	head    int64
	// gap is set where the reader has missed something.
	gap *Gap
}

// locate finds where a reader begins: at a place that it brings or, without one or where it is gone, now.
func (s *Service) locate(ctx context.Context, env id.Environment, from *Place) (start, error) {
	if err := s.log.Sequence(ctx); err != nil {
		return start{}, err
	}
	head, err := s.log.Head(ctx)
	if err != nil {
		return start{}, err
	}
	if from == nil {
		return s.now(ctx, env, head)
	}
	row := events.LogPlace{}
	known := from.position == 0
	if !known {
		if row, known, err = s.log.PlaceAt(ctx, env, from.position); err != nil {
			return start{}, err
		}
		known = known && row.At.Equal(from.at) && from.index <= row.Messages
	}
	if !known {
		return s.gap(ctx, env, head, GapUnknown, from.at)
	}
	span, err := s.log.Span(ctx, env, from.position, head)
	if err != nil {
		return start{}, err
	}
	here := start{place: *from, need: head, missing: span.Messages + row.Messages - from.index, head: head}
	oldest := span.Oldest
	switch {
	case from.index < row.Messages:
		here.need, oldest = from.position-1, row.At
	case span.First > 0:
		here.need = span.First - 1
	}
	if from.position == 0 {
		here.missing, here.place.index = span.Messages, 0
		oldest = from.at // what came first may be gone already
	}
	switch {
	case here.missing > events.LogMessages:
		return s.gap(ctx, env, head, GapTooMany, from.at)
	case here.missing > 0 && s.clock.Now().Sub(oldest) > events.LogAge:
		return s.gap(ctx, env, head, GapTooOld, from.at)
	default:
		return here, nil
	}
}

// now is the start of a reader who has seen nothing yet.
func (s *Service) now(ctx context.Context, env id.Environment, head int64) (start, error) {
	row, ok, err := s.log.HeadIn(ctx, env, head)
	if err != nil {
		return start{}, err
	}
	if !ok {
		row.At = s.clock.Now()
	}
	return start{place: after(row), need: head, head: head}, nil
}

func (s *Service) gap(ctx context.Context, env id.Environment, head int64, reason GapReason,
	since time.Time) (start, error) {
	here, err := s.now(ctx, env, head)
	now := s.clock.Now()
	if since.After(now) {
		since = now
	}
	gap := newGap(reason, since, now)
	here.gap = &gap
	return here, err
}
