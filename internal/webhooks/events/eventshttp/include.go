package eventshttp

import (
	"context"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// Sizes in bytes, as far as they are known before the rows are read.
const (
	// maxPageSize limits the bodies and deliveries of a page, and the attempts, so that a page of large ones does not
	// exhaust memory. It is exceeded only by an event that is larger by itself.
	maxPageSize = 16 << 20
	// largeSize is the size from which a response waits for its turn, because several of it would exhaust memory, too.
	largeSize = 256 << 10
	// headersSize and deliverySize are what headers and a delivery typically cost in memory.
	headersSize, deliverySize = 2 << 10, 2 << 10
)

// sizeOf returns about how large the parts of an event are.
func sizeOf(e *events.Event, want parts) (size int64) {
	if want.body && !e.PayloadExpired {
		size += e.BodySize
	}
	if want.headers {
		size += headersSize
	}
	if want.deliveries {
		size += e.DeliveryCount * deliverySize
	}
	return size
}

// countFitting returns the number of events, at least one, whose parts fit on a page.
func countFitting(in *listInput, list []events.Event) int {
	left, want := int64(maxPageSize), in.parts()
	for i := range list {
		if left -= sizeOf(&list[i], want); left < 0 {
			return max(i, 1)
		}
	}
	return max(len(list), 1)
}

func (h *handlers) viewRows(ctx context.Context, in *listInput, list []events.Event) ([]Listed, error) {
	v, include := access.From(ctx).View(), in.parts()
	size := int64(0)
	for i := range list {
		size += sizeOf(&list[i], include)
	}
	if size > largeSize {
		if err := httpapi.TakeLarge(ctx); err != nil {
			return nil, err
		}
	}
	var payloads map[string]events.Payload
	var byEvent map[string][]deliveries.Delivery
	var err error
	switch {
	case include.body:
		payloads, err = h.events.Payloads(ctx, v.Environment, list)
	case include.headers:
		payloads, err = h.events.Headers(ctx, v.Environment, list)
	}
	if err != nil {
		return nil, err
	}
	if include.deliveries {
		uuids := make([]string, len(list))
		for i, e := range list {
			uuids[i] = e.UUID
		}
		if byEvent, err = h.deliveries.Store().ByListedEvents(ctx, v, uuids); err != nil {
			return nil, err
		}
	}
	if err := h.deliveries.Store().HideFailures(ctx, v, list); err != nil {
		return nil, err
	}
	rows := make([]Listed, len(list))
	for i := range list {
		if rows[i], err = viewListed(&list[i], payloads, byEvent[list[i].UUID], include); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

type itemOutput struct{ Body Event }

func (h *handlers) get(ctx context.Context, in *itemInput) (*itemOutput, error) {
	v := access.From(ctx).View()
	e, err := h.events.Get(ctx, v, in.EventUUID)
	if err != nil {
		return nil, err
	}
	shown := []events.Event{e}
	if err := h.deliveries.Store().HideFailures(ctx, v, shown); err != nil {
		return nil, err
	}
	if sizeOf(&e, parts{body: true, headers: true, deliveries: true}) > largeSize {
		if err := httpapi.TakeLarge(ctx); err != nil {
			return nil, err
		}
	}
	payloads, err := h.events.Payloads(ctx, v.Environment, shown)
	if err != nil {
		return nil, err
	}
	byEvent, err := h.deliveries.Store().ByEvents(ctx, v, []string{e.UUID})
	if err != nil {
		return nil, err
	}
	view, err := viewEvent(&shown[0], payloads, byEvent[e.UUID])
	return &itemOutput{Body: view}, err
}

type attemptsInput struct {
	// The event's UUID.
	EventUUID string `path:"event_uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	page.Query
}

// attemptsRead is how many attempts are read at a time.
const attemptsRead = 25

// listAttempts returns fewer attempts than a page has if they are large.
func (h *handlers) listAttempts(ctx context.Context, in *attemptsInput,
	p page.Request) (list []deliveries.Attempt, place string, err error) {
	v := access.From(ctx).View()
	if _, err := h.events.Get(ctx, v, in.EventUUID); err != nil {
		return nil, "", err
	}
	for size := 0; ; {
		part := p
		part.Limit = min(attemptsRead, p.Fetch()-len(list)) - 1
		found, err := h.deliveries.Store().Attempts(ctx, v, in.EventUUID, part)
		if err != nil {
			return nil, "", err
		}
		list = append(list, found...)
		if len(found) < part.Fetch() || len(list) == p.Fetch() {
			return list, "", nil
		}
		p.After = list[len(list)-1].ID
		for i := range found {
			size += len(found[i].ResponseBody) + len(found[i].RequestHeaders) + len(found[i].ResponseHeaders)
		}
		if size > largeSize {
			if err := httpapi.TakeLarge(ctx); err != nil {
				return nil, "", err
			}
		}
		if size > maxPageSize {
			return list, p.After, nil
		}
	}
}

func viewListedAttempt(_ context.Context, a *deliveries.Attempt) Attempt { return viewAttempt(a) }
