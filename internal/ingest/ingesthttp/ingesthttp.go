// Package ingesthttp serves the inbound endpoint. It is a plain handler beside the operations: its bodies are the
// providers' and its credential is their signature.
package ingesthttp

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/ingest"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
)

// Receiver takes deliveries; *ingest.Service is one.
type Receiver interface {
	Receive(ctx context.Context, r ingest.Request) (ingest.Receipt, error)
}

// Acknowledgement is the answer to a delivery that is stored.
type Acknowledgement struct {
	EventUUID string `json:"event_uuid" format:"uuid" doc:"The event; for a repeat, the event it repeats." example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	Status    string `json:"status" enum:"received" doc:"Always received: the event is durable, and forwarding goes on by itself."`
	Duplicate bool   `json:"duplicate" doc:"Whether the delivery repeats an event that was stored before."`
}

// Mount mounts the endpoint.
func Mount(api *httpapi.API, receiver Receiver) {
	h := &handler{receiver: receiver, refusals: newRefusals()}
	api.Handle("POST "+httpapi.Prefix+"/webhook/{connection}", h, document(api))
}

type handler struct {
	receiver Receiver
	refusals *refusals
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	clientIP := httpapi.ClientIP(r.Context())
	source := ingest.SourceOf(clientIP)
	address, _ := netip.ParseAddr(clientIP) // what cannot be read is in no network
	receipt, err := h.receiver.Receive(r.Context(), ingest.Request{Segment: r.PathValue("connection"), Source: source, Address: address, HTTP: r,
		Deadlines: http.NewResponseController(w)})
	if err != nil {
		if refusal(err) {
			if wait := h.refusals.wait(source, httpapi.RequestTime(r.Context())); wait > 0 {
				err = &apperr.Error{Code: apperr.CodeRateLimited, Message: "Too many refused deliveries from this address", RetryAfter: wait, Cause: err}
			}
		}
		httpapi.WriteError(w, r, err)
		return
	}
	var b strings.Builder
	b.Grow(96)
	b.WriteString(`{"event_uuid":"`)
	b.WriteString(receipt.EventUUID)
	b.WriteString(`","status":"received","duplicate":`)
	b.WriteString(strconv.FormatBool(receipt.Duplicate))
	b.WriteString("}\n")
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(b.Len()))
	// The client is gone when this fails; the event is stored all the same.
	_, _ = w.Write([]byte(b.String()))
}

// refusal reports whether the delivery was refused for what it is, as opposed to what the service can do now. A body that
// broke off or came too slowly counts: whoever means to deliver sends it whole.
func refusal(err error) bool {
	var e *apperr.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case apperr.CodeNotFound, apperr.CodeSignatureMissing, apperr.CodeSignatureInvalid:
		return true
	case apperr.CodeHTTP:
		return e.Status == http.StatusBadRequest || e.Status == http.StatusRequestTimeout
	default:
		return false
	}
}

func document(api *httpapi.API) *huma.Operation {
	maxLength := 255
	body := &huma.Schema{Description: "The provider's body, byte for byte. Up to 10 MiB, or what the connection allows."}
	op := &huma.Operation{
		OperationID: "receive-webhook", Method: http.MethodPost, Path: "/webhook/{connection}", Tags: []string{"Inbound"},
		Summary: "Receive a provider's webhook",
		Description: "Where a provider posts its webhooks. The credential is the provider's signature; `API-Key` and `Authorization` are not " +
			"looked at. The answer comes when the event is durable. A repeat of an event gets 200 with `duplicate: true`. The " +
			"first 256 KiB of a body must arrive within 10 seconds, the rest within a further minute.",
		Parameters: []*huma.Param{{Name: "connection", In: "path", Required: true, Description: "The connection's path token or alias.",
			Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &maxLength}, Example: "whk_06dprg8dj1v6hckm0sjzmn2m1c"}},
		RequestBody: &huma.RequestBody{Required: false, Description: "Any body of any content type.",
			Content: map[string]*huma.MediaType{"*/*": {Schema: body}}},
		Security: []map[string][]string{},
		Responses: map[string]*huma.Response{
			"200": {Description: "The event is stored.", Content: map[string]*huma.MediaType{"application/json": {Schema: api.Schema(Acknowledgement{}),
				Example: Acknowledgement{EventUUID: "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11", Status: "received"}}}},
		},
	}
	for _, c := range []apperr.Code{apperr.CodeSignatureMissing, apperr.CodeNotFound, apperr.CodePayloadTooLarge, apperr.CodeRateLimited,
		apperr.CodeInternal, apperr.CodeUnavailable} {
		op.Responses[strconv.Itoa(c.Info().Status)] = api.ErrorResponse("`" + string(c) + "`")
	}
	op.Responses["400"] = api.ErrorResponse("`http_error`: the body ended early")
	op.Responses["408"] = api.ErrorResponse("`http_error`: the body did not arrive in time")
	op.Responses["401"].Description = "`signature_missing`, `signature_invalid`"
	op.Responses["503"].Description = "`unavailable`, `connection_disabled`; `Retry-After` says when to send it again"
	return op
}

// seconds rounds up to whole seconds, at least one.
func seconds(s float64) float64 { return max(1, math.Ceil(s)) }
