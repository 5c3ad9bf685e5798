// Package ingesthttp serves the inbound endpoint. It is a plain handler beside the operations: its bodies are the
// providers' and its credential is their signature.
package ingesthttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/ingest"
)

// Receiver takes deliveries; *ingest.Service is one.
type Receiver interface {
	Receive(ctx context.Context, r ingest.Request) (ingest.Receipt, error)
}

// Acknowledgement is the answer to a delivery that is stored.
type Acknowledgement struct {
	// The UUID of the event; for a duplicate, the UUID of the original event.
	EventUUID string `json:"event_uuid" format:"uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	// Always `received`: the event is durable, and forwarding continues in the background.
	Status string `json:"status" enum:"received"`
	// Whether the request duplicates a stored event.
	Duplicate bool `json:"duplicate"`
}

// Mount mounts the inbound endpoint, and the operation that publishes events.
func Mount(api *httpapi.API, receiver Receiver, publisher Publisher) {
	mountPublish(api, publisher)
	h := &handler{receiver: receiver, refusals: newRefusals()}
	// The connection decides which of these methods its provider uses. GET is HEAD too.
	const path = httpapi.Prefix + "/webhook/{connection}"
	api.Handle("GET "+path, h)
	api.Handle("OPTIONS "+path, h)
	api.Handle("POST "+path, h, document(api)...)
}

type handler struct {
	receiver Receiver
	refusals *refusals
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address := httpapi.ClientAddr(r.Context())
	source := clientaddr.Host(address)
	receipt, err := h.receiver.Receive(r.Context(), ingest.Request{Segment: r.PathValue("connection"), Source: source,
		Address: address, HTTP: r, Deadlines: http.NewResponseController(w)})
	if receipt.Rate != nil {
		receipt.Rate.SetHeaders(w.Header())
	}
	if err != nil {
		if refusal(err) {
			if d := h.refusals.count(source, httpapi.RequestTime(r.Context())); !d.Allowed {
				d.SetHeaders(w.Header())
				err = &apperr.Error{Code: apperr.CodeRateLimited, Message: "Too many rejected webhooks from this address",
					RetryAfter: d.RetryAfter, Cause: err}
			}
		}
		httpapi.WriteError(w, r, err)
		return
	}
	if a := receipt.Answer; a != nil {
		answer(w, a)
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

// answer writes what the provider expects.
func answer(w http.ResponseWriter, a *verification.Answer) {
	header := w.Header()
	for name, values := range a.Header {
		header[name] = values
	}
	header.Set("Cache-Control", "no-store")
	if a.Status != http.StatusNoContent {
		header.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client is gone when this fails
}

// refusal reports whether the delivery was refused for what it is, as opposed to what the service can do now. A body
// that broke off or came too slowly counts: whoever means to deliver sends it whole.
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

func document(api *httpapi.API) []*huma.Operation {
	return []*huma.Operation{documentDelivery(api),
		documentHandshake(api, http.MethodGet,
			"Providers such as Meta, Dropbox and X verify the ownership of the URL with this method: they send a value and "+
				"expect it back, or its HMAC with the webhook secret."),
		documentHandshake(api, http.MethodHead, "Providers such as Trello check with this method that the URL is reachable."),
		documentHandshake(api, http.MethodOptions, "Senders of CloudEvents ask with this method for the permission to deliver.")}
}

func parameters() []*huma.Param {
	maxLength := 255
	return []*huma.Param{{Name: "connection", In: "path", Required: true,
		Description: "The connection's path token or alias.", Schema: &huma.Schema{Type: huma.TypeString,
			MaxLength: &maxLength}, Example: "whk_06dprg8dj1v6hckm0sjzmn2m1c"}}
}

func documentHandshake(api *httpapi.API, method, why string) *huma.Operation {
	op := &huma.Operation{
		OperationID: "answer-webhook-handshake-" + strings.ToLower(method), Method: method, Path: "/webhook/{connection}",
		Tags: []string{"Inbound"}, Summary: "Respond to a provider's handshake by " + method,
		Description: why + " The definition of the connection's provider describes the response. Handshakes are not stored, " +
			"and no handshake can make the service sign content that could pass as an event. If the provider's definition " +
			"has no such handshake, the status code is 405.",
		Parameters: parameters(), Security: []map[string][]string{},
		Responses: map[string]*huma.Response{
			"200": {Description: "The response to the handshake.", Content: map[string]*huma.MediaType{"*/*": {Schema: expected()}}},
			"400": api.ErrorResponse("`http_error`: the request is not a handshake of the provider"),
			"401": api.ErrorResponse("`signature_missing`, `signature_invalid`: the handshake is refused."),
			"405": api.ErrorResponse("`http_error`: the provider has no handshake with this method; `Allow` lists its methods"),
		},
	}
	documentErrors(api, op, apperr.CodeNotFound, apperr.CodeRateLimited, apperr.CodeInternal, apperr.CodeUnavailable)
	httpapi.DocumentLimits(op, 0)
	return op
}

// expected is the schema of an answer that a provider's definition gives.
func expected() *huma.Schema {
	return &huma.Schema{Description: "The response that the provider expects: text, JSON or nothing, at most 1 KiB."}
}

func documentErrors(api *httpapi.API, op *huma.Operation, codes ...apperr.Code) {
	for _, c := range codes {
		op.Responses[strconv.Itoa(c.Info().Status)] = api.ErrorResponse("`" + string(c) + "`")
	}
	op.Responses["2XX"] = &huma.Response{Description: "The response if the provider expects another status code than 200.",
		Content: map[string]*huma.MediaType{"*/*": {Schema: expected()}}}
	op.Responses["4XX"] = api.ErrorResponse("`signature_missing`, `signature_invalid`, if the provider expects another " +
		"status code than 401")
	op.Responses["503"].Description = "`unavailable`, `connection_disabled`; `Retry-After` says when to resend it"
}

func documentDelivery(api *httpapi.API) *huma.Operation {
	body := &huma.Schema{Description: "The provider's body, byte for byte. At most 10 MiB, unless the connection sets another limit."}
	op := &huma.Operation{
		OperationID: "receive-webhook", Method: http.MethodPost, Path: "/webhook/{connection}", Tags: []string{"Inbound"},
		Summary: "Receive a webhook from a provider",
		Description: "Receives the webhooks of a provider. The provider's signature is the credential; `API-Key` and " +
			"`Authorization` are ignored. The service responds when the event is durable. A duplicate gets 200 with " +
			"`duplicate: true`. If the provider expects a specific acknowledgement, or posts a handshake, it gets that " +
			"response instead. The first 256 KiB of the body must arrive within 10 seconds, the rest within another minute.",
		Parameters: parameters(),
		RequestBody: &huma.RequestBody{Required: false, Description: "Any body with any content type.",
			Content: map[string]*huma.MediaType{"*/*": {Schema: body}}},
		Security: []map[string][]string{},
		Responses: map[string]*huma.Response{
			"200": {Description: "The event is stored, or the response to a handshake.", Content: map[string]*huma.MediaType{
				"application/json": {Schema: &huma.Schema{AnyOf: []*huma.Schema{api.Schema(Acknowledgement{}), expected()}},
					Example: Acknowledgement{EventUUID: "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11", Status: "received"}},
				"*/*": {Schema: expected()},
			}},
		},
	}
	documentErrors(api, op, apperr.CodeSignatureMissing, apperr.CodeNotFound, apperr.CodePayloadTooLarge,
		apperr.CodeRateLimited, apperr.CodeInternal, apperr.CodeUnavailable)
	op.Responses["400"] = api.ErrorResponse("`http_error`: the body ended early")
	op.Responses["408"] = api.ErrorResponse("`http_error`: the body did not arrive in time")
	op.Responses["401"].Description = "`signature_missing`, `signature_invalid`."
	httpapi.DocumentLimits(op, http.StatusOK)
	return op
}
