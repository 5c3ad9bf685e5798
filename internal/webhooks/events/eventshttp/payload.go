package eventshttp

import (
	"context"
	"net/http"
	"strconv"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/events"
)

// mediaBytes is the media type of plain bytes.
const mediaBytes = "application/octet-stream"

// mountPayload adds the operation that downloads an event's payload.
func mountPayload(api *httpapi.API, h *handlers) {
	httpapi.RegisterStream(api, httpapi.Operation{
		ID: "download-webhook-event-payload", Method: http.MethodGet, Path: itemPath + "/payload", Status: http.StatusOK,
		Tag: tag, Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Errors: []apperr.Code{apperr.CodePayloadExpired}, Download: []string{mediaBytes},
		Summary: "Download the payload of a webhook event",
		Missing: []string{"payload"},
		Messages: map[apperr.Code][]string{
			apperr.CodePayloadExpired: {
				"The event's payload has been removed",
			},
		},
		Description: "Returns the body of the event byte for byte as it was received. Use it to verify the provider's own " +
			"signature or to forward the body yourself. `content_type` of the event is the content type of the body. The " +
			"response is always `application/octet-stream`, so that a browser never runs a stranger's content. A duplicate " +
			"has no payload.",
	}, h.downloadPayload)
}

func (h *handlers) downloadPayload(ctx context.Context, in *itemInput) (httpapi.Responder, error) {
	v := access.From(ctx).View()
	e, err := h.events.Get(ctx, v, in.EventUUID)
	if err != nil {
		return nil, err
	}
	if e.BodySize > largeSize {
		if err := httpapi.TakeLarge(ctx); err != nil {
			return nil, err
		}
	}
	payloads, err := h.events.Payloads(ctx, v.Environment, []events.Event{e})
	if err != nil {
		return nil, err
	}
	p, ok := payloads[e.UUID]
	switch {
	case !ok && e.PayloadExpired:
		return nil, apperr.New(apperr.CodePayloadExpired, "The event's payload has been removed")
	case !ok:
		return nil, apperr.NotFound("payload")
	}
	return func(_ context.Context, w http.ResponseWriter) {
		header := w.Header()
		header.Set("Content-Type", mediaBytes)
		header.Set("Content-Length", strconv.Itoa(len(p.Body)))
		header.Set("Content-Disposition", `attachment; filename="`+e.UUID+`"`)
		header.Set("Content-Security-Policy", "sandbox")
		header.Set("Cache-Control", "no-store")
		_, _ = w.Write(p.Body) // the client is gone when this fails
	}, nil
}
