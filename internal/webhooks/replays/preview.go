package replays

import (
	"context"
	"errors"
	"slices"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// previewLimits bound the work of a preview, which counts nothing beyond them.
type previewLimits struct {
	// events and deliveries limit what is counted, scanned the events that are looked at, and time the whole preview.
	events, deliveries, scanned int
	time                        time.Duration
}

func defaultPreviewLimits() previewLimits {
	return previewLimits{events: 10_000, deliveries: 10_000, scanned: 1_000_000, time: 3 * time.Second}
}

const (
	// previewSample is the number of deliveries that are shown.
	previewSample = 20
	// previewPage is the number of events whose deliveries are read at a time.
	previewPage = 250
)

// Preview shows the effects of a replay before it is created.
type Preview struct {
	// Matched counts the events that the filter selects, Replayed the deliveries that would be started, and Skipped those
	// that would be skipped, by reason.
	Matched, Replayed int64
	Skipped           map[deliveries.SkipReason]int64
	// AtLeast is set when the counts are lower bounds, because a limit was reached.
	AtLeast bool
	// Sample holds deliveries of the newest events.
	Sample []Sampled
}

// Sampled is a delivery that would be started.
type Sampled struct {
	Event          events.Event
	SubscriptionID string
}

// Preview counts the effects of a replay, newest events first, and stores nothing. At a limit of work it stops and sets
// AtLeast.
//
// Errors: validation_error for a subscription that does not exist in the environment.
func (s *Service) Preview(ctx context.Context, p access.Principal, o Order) (Preview, error) {
	out := Preview{Skipped: map[deliveries.SkipReason]int64{}}
	if err := s.checkOrder(ctx, p.View(), &o); err != nil {
		return out, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.limits.time)
	defer cancel()
	err := s.preview(bounded, p, &o, &out)
	if err != nil && ctx.Err() == nil && errors.Is(bounded.Err(), context.DeadlineExceeded) {
		out.AtLeast, err = true, nil
	}
	return out, err
}

func (s *Service) preview(ctx context.Context, p access.Principal, o *Order, out *Preview) error {
	scan := o.scan()
	scan.Descending, scan.ReceivedThrough = true, s.cfg.Clock.Now()
	place := ""
	for scanned := 0; ; scanned += scanWindow {
		if scanned >= s.limits.scanned || out.Matched >= int64(s.limits.events) ||
			out.Replayed >= int64(s.limits.deliveries) {
			out.AtLeast = true
			return nil
		}
		found, err := s.cfg.Events.Next(ctx, p.View(), scan, place, previewPage)
		if err != nil {
			return err
		}
		whole, err := s.previewPart(ctx, p, o, found.Events, out)
		if err != nil {
			return err
		}
		if !whole || found.End {
			out.AtLeast = !whole
			return nil
		}
		place = found.Place
	}
}

// previewPart counts the effects on some events, which are in the order of the scan. It reports whether it has counted
// all of them.
func (s *Service) previewPart(ctx context.Context, p access.Principal, o *Order, list []events.Event,
	out *Preview) (whole bool, err error) {
	slices.Reverse(list) // deliveries are looked at in the order of the uuids
	room := s.limits.deliveries - int(out.Replayed)
	b := o.bulk(p.View(), list, "", room)
	var started []deliveries.Started
	for len(b.Events) > 0 && len(started) < room {
		r, err := s.cfg.Deliveries.PrepareBulk(ctx, b)
		if err != nil {
			return false, err
		}
		result, err := r.Preview(ctx, s.cfg.Clock.Now())
		if err != nil {
			return false, err
		}
		for why, n := range result.Skipped {
			out.Skipped[why] += n
		}
		started = append(started, result.Started...)
		b.Events, b.After = b.Events[result.Events:], result.After
	}
	out.Matched += int64(len(list) - len(b.Events))
	out.Replayed += int64(len(started))
	byUUID := make(map[string]*events.Event, len(list))
	for i := range list {
		byUUID[list[i].UUID] = &list[i]
	}
	for _, st := range slices.Backward(started) {
		if len(out.Sample) == previewSample {
			break
		}
		out.Sample = append(out.Sample, Sampled{*byUUID[st.EventUUID], st.SubscriptionID})
	}
	return len(b.Events) == 0, nil
}
