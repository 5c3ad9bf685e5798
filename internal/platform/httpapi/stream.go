package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sallyport/internal/platform/sse"
)

// StreamMessage describes one type of message of an event stream.
type StreamMessage struct {
	// Event is the name of the type in the stream.
	Event string
	// Doc describes the message. Data is a value of the type of its data.
	Doc  string
	Data any
}

// Responder writes a whole response: its headers, its status and its body. The context is the request's, which ends
// when the client disconnects.
type Responder func(ctx context.Context, w http.ResponseWriter)

// RegisterStream adds an operation with a Download or a Stream. The handler returns an error, which becomes an ordinary
// error response, or a Responder. A HEAD request for a Stream gets its headers and does not reach the handler.
func RegisterStream[I any](a *API, op Operation, handler func(context.Context, *I) (Responder, error)) {
	Register(a, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		respond := respondHead
		if len(op.Stream) == 0 || RequestFrom(ctx).Method != http.MethodHead {
			var err error
			if respond, err = handler(ctx, in); err != nil {
				return nil, err
			}
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) { //nolint:contextcheck // it gets the request's own
			r, w := humago.Unwrap(hc)
			respond(r.Context(), w)
		}}, nil
	})
}

func respondHead(_ context.Context, w http.ResponseWriter) {
	w.Header().Set("Content-Type", sse.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

// documentStream documents a stream in the form that generators expect: an array whose items are the messages.
func (a *API) documentStream(ho *huma.Operation, op Operation) {
	text := func(description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Description: description}
	}
	items := &huma.Schema{}
	for _, m := range op.Stream {
		event := text("The type of the message.")
		event.Enum = []any{m.Event}
		items.OneOf = append(items.OneOf, &huma.Schema{Type: huma.TypeObject, Title: m.Event, Description: m.Doc,
			Required: []string{"id", "event", "data"},
			Properties: map[string]*huma.Schema{"id": text("The id of the message, for `Last-Event-ID`."), "event": event,
				"data": a.Schema(m.Data)}})
	}
	ho.Responses[strconv.Itoa(op.Status)] = &huma.Response{
		Description: "Server-sent events (WHATWG HTML, section 9.2). Each item of the schema describes one message; " +
			"its `data` is JSON.",
		Content: map[string]*huma.MediaType{sse.ContentType: {Schema: &huma.Schema{Type: huma.TypeArray, Items: items,
			Description: "The messages of the stream."}}},
	}
}
