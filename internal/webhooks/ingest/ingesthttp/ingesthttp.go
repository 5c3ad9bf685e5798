// Package ingesthttp serves the inbound endpoint and the publishing of events. The inbound endpoint is a plain handler:
// providers define its bodies, and their signature is its credential.
package ingesthttp

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/ingest"
)

// Receiver receives webhooks. *ingest.Service implements it.
type Receiver interface {
	Receive(ctx context.Context, r ingest.Request) (ingest.Receipt, error)
}

// Acknowledgement is the response to a stored webhook.
type Acknowledgement struct {
	// The UUID of the event; for a duplicate, the UUID of the original event.
	EventUUID string `json:"event_uuid" format:"uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	// Always `received`: the event is durable, and forwarding continues in the background.
	Status string `json:"status" enum:"received"`
	// Whether the request duplicates a stored event.
	Duplicate bool `json:"duplicate"`
}

// Mount adds the inbound endpoint and the operations that publish events and send samples to the API.
func Mount(api *httpapi.API, receiver Receiver, publisher Publisher, sampler Sampler) {
	mountPublish(api, publisher)
	mountSample(api, sampler)
	h := &handler{receiver: receiver}
	// The connection decides which of these methods its provider uses. GET is HEAD too.
	const path = httpapi.Prefix + "/webhook/{connection_id}"
	api.Handle("GET "+path, h)
	api.Handle("OPTIONS "+path, h)
	api.Handle("POST "+path, h, inboundRoutes(api)...)
}

type handler struct{ receiver Receiver }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address := httpapi.ClientAddr(r.Context())
	source := clientaddr.Host(address)
	receipt, err := h.receiver.Receive(r.Context(), ingest.Request{Segment: r.PathValue("connection_id"), Source: source,
		Address: address, HTTP: r, Deadlines: http.NewResponseController(w)})
	if receipt.Rate != nil {
		receipt.Rate.SetHeaders(w.Header())
	}
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	if a := receipt.Response; a != nil {
		writeAnswer(w, a)
		return
	}
	b := append(make([]byte, 0, 112), `{"event_uuid":"`...)
	b = append(append(b, receipt.EventUUID...), `","status":"received","duplicate":`...)
	b = append(strconv.AppendBool(b, receipt.Duplicate), "}\n"...)
	values := []string{"application/json", strconv.Itoa(len(b))} // one allocation for both
	header := w.Header()
	header["Content-Type"], header["Content-Length"] = values[0:1:1], values[1:2:2]
	// The client is gone when this fails; the event is stored all the same.
	_, _ = w.Write(b)
}

// writeAnswer writes the response that the provider expects.
func writeAnswer(w http.ResponseWriter, a *verification.Response) {
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

// inboundRoutes describes the inbound endpoint.
func inboundRoutes(api *httpapi.API) []httpapi.Route {
	return []httpapi.Route{
		deliveryRoute(api),
		handshakeRoute(http.MethodGet,
			"Providers such as Meta, Dropbox and X verify the ownership of the URL with this method: they send a value and "+
				"expect it back, or its HMAC with the webhook secret."),
		handshakeRoute(http.MethodHead, "Providers such as Trello check with this method that the URL is reachable."),
		handshakeRoute(http.MethodOptions, "Senders of CloudEvents ask with this method for the permission to deliver."),
	}
}

func pathParameters() []httpapi.Parameter {
	maxLength := 255
	return []httpapi.Parameter{{Name: "connection_id", In: "path", Description: "The connection's path token or alias.",
		Schema: &oas.Schema{Type: "string", MaxLength: &maxLength}, Example: "whk_06dprg8dj1v6hckm0sjzmn2m1c"}}
}

func handshakeRoute(method, why string) httpapi.Route {
	r := httpapi.Route{
		ID: "answer-webhook-handshake-" + strings.ToLower(method), Method: method, Path: "/webhook/{connection_id}",
		Tag: "Inbound", Summary: "Respond to a provider's handshake by " + method,
		Description: why + " The definition of the connection's provider describes the response. Handshakes are not " +
			"stored, and no handshake can make the service sign content that could pass as an event. If the provider's " +
			"definition " +
			"has no such handshake, the status code is 405.",
		Parameters: pathParameters(),
		Responses: map[string]httpapi.Response{
			"200": {Description: "The response to the handshake.", Content: expectedContent()},
			"400": httpapi.ErrorResponse("`http_error`: the request is not a handshake of the provider").
				Saying(apperr.CodeHTTP, "The request is not a handshake of the provider"),
			"401": httpapi.ErrorResponse("`signature_missing`, `signature_invalid`: the handshake is refused.").
				Saying(apperr.CodeSignatureInvalid, "The handshake is rejected"),
			"403": httpapi.ErrorResponse("`handshake_refused`: the verify token is another one than the connection's.").
				Saying(apperr.CodeHandshakeRefused, "The handshake is rejected"),
			"405": httpapi.ErrorResponse("`http_error`: the provider has no handshake with this method; `Allow` lists its "+
				"methods").Saying(apperr.CodeHTTP, "The provider sends its webhooks by POST"),
		},
	}
	addErrors(r.Responses, apperr.CodeNotFound, apperr.CodeRateLimited, apperr.CodeInternal, apperr.CodeUnavailable)
	return r
}

// expectedSchema is the schema of a response that a provider's definition describes.
func expectedSchema() *oas.Schema {
	return &oas.Schema{Description: "The response that the provider expects: text, JSON or nothing, at most 1 KiB."}
}

func expectedContent() map[string]httpapi.Content {
	return map[string]httpapi.Content{"*/*": {Schema: expectedSchema()}}
}

func addErrors(responses map[string]httpapi.Response, codes ...apperr.Code) {
	for _, c := range codes {
		responses[strconv.Itoa(c.Info().Status)] = httpapi.ErrorResponse("`"+string(c)+"`").
			Saying(apperr.CodePayloadTooLarge, "The body is larger than the connection accepts",
				"The webhook has too many items").
			Saying(apperr.CodeRateLimited, "The connection accepts no more webhooks now",
				ingest.MessageRefusals, ingest.MessageRefusals+ingest.MessageShared)
	}
	responses["2XX"] = httpapi.Response{
		Description: "The response if the provider expects another status code than 200.", Content: expectedContent()}
	responses["4XX"] = httpapi.ErrorResponse("`signature_missing`, `signature_invalid`, if the provider expects another " +
		"status code than 401")
	responses["503"] = httpapi.ErrorResponse("`unavailable`, `connection_disabled`; `Retry-After` says when to resend it")
}

func deliveryRoute(api *httpapi.API) httpapi.Route {
	stored := expectedContent()
	stored["application/json"] = httpapi.Content{
		Schema:  &oas.Schema{AnyOf: []*oas.Schema{api.Schema(Acknowledgement{}), expectedSchema()}},
		Example: Acknowledgement{EventUUID: "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11", Status: "received"},
	}
	r := httpapi.Route{
		ID: "receive-webhook", Method: http.MethodPost, Path: "/webhook/{connection_id}", Tag: "Inbound",
		Summary: "Receive a webhook from a provider",
		Description: "Receives the webhooks of a provider. The provider's signature is the credential; `API-Key` and " +
			"`Authorization` are ignored. The service responds when the event is durable. A duplicate gets 200 with " +
			"`duplicate: true`. If the provider expects a specific acknowledgement, or posts a handshake, it gets that " +
			"response instead. The first 256 KiB of the body must arrive within 10 seconds, the rest within another minute.",
		Parameters: pathParameters(),
		Body: &httpapi.Body{Description: "Any body with any content type.", Schema: &oas.Schema{
			Description: "The provider's body, byte for byte. At most 10 MiB, unless the connection sets another limit."}},
		Responses: map[string]httpapi.Response{
			"200": {Description: "The event is stored, or the response to a handshake.", Content: stored},
		},
		Success: http.StatusOK,
	}
	addErrors(r.Responses, apperr.CodePayloadTooLarge, apperr.CodeNotFound, apperr.CodeRateLimited, apperr.CodeInternal,
		apperr.CodeUnavailable)
	r.Responses["400"] = httpapi.ErrorResponse("`http_error`: the body ended early, or its chunks are malformed").
		Saying(apperr.CodeHTTP, "The request body ended early", "The request is malformed: a chunk of the body is malformed")
	r.Responses["401"] = httpapi.ErrorResponse("`signature_missing`, `signature_invalid`.").
		Saying(apperr.CodeSignatureInvalid, "The webhook could not be verified", "The handshake is rejected",
			"The webhook comes from an address from which the connection accepts no webhooks")
	r.Responses["403"] = httpapi.ErrorResponse("`handshake_refused`: the request is a handshake with another "+
		"verify token than the connection's.").
		Saying(apperr.CodeHandshakeRefused, "The handshake is rejected")
	r.Responses["408"] = httpapi.ErrorResponse("`http_error`: the body did not arrive in time").
		Saying(apperr.CodeHTTP, "The request body did not arrive in time")
	return r
}
