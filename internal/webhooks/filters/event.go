package filters

import (
	"time"

	"cel.dev/cel-go/common/types"
)

// Event is an event as a filter sees it. Expensive parts are decoded when a filter first reads them, once for all
// filters, so an Event is for one goroutine at a time.
type Event struct {
	// Type is the event's type, and Types all types of a batch. If Types is empty, Type is the only one.
	Type  string
	Types []string
	// Provider, ProviderConfigKey and ConnectionID identify the source of the event.
	Provider, ProviderConfigKey, ConnectionID string
	ReceivedAt                                time.Time
	ContentType                               string
	// Control marks a provider's ping or confirmation.
	Control bool
	// Headers is the stored JSON object of lower-case names and texts, with secrets redacted; empty for none.
	Headers string
	// Body is the body's JSON, which must be valid; nil if the body is not JSON.
	Body []byte
	// Expired is true if headers and body are gone. A filter that reads them fails.
	Expired bool

	headers, body *document
	// openable is how many bytes of JSON filters may still open together; nil for no limit.
	openable *int64
}

// fields returns the fields of the event by name. They are the whole of what a filter can ask.
func fields() map[string]*types.FieldType {
	list := map[string]*types.FieldType{}
	add := func(name string, t *types.Type, get func(e *Event) any) {
		list[name] = &types.FieldType{
			Type:    t,
			IsSet:   func(target any) bool { _, ok := target.(*Event); return ok },
			GetFrom: func(target any) (any, error) { return read(target, get) },
		}
	}
	add("type", types.StringType, func(e *Event) any { return e.Type })
	add("types", types.NewListType(types.StringType), func(e *Event) any { return e.types() })
	add("provider", types.StringType, func(e *Event) any { return e.Provider })
	add("provider_config_key", types.StringType, func(e *Event) any { return e.ProviderConfigKey })
	add("connection_id", types.StringType, func(e *Event) any { return e.ConnectionID })
	add("received_at", types.TimestampType, func(e *Event) any { return types.Timestamp{Time: e.ReceivedAt.UTC()} })
	add("content_type", types.StringType, func(e *Event) any { return e.ContentType })
	add("control", types.BoolType, func(e *Event) any { return e.Control })
	add("headers", types.NewMapType(types.StringType, types.StringType), func(e *Event) any { return e.readHeaders() })
	add("body", types.DynType, func(e *Event) any { return e.readBody() })
	list["body"].IsSet = func(target any) bool {
		e, ok := target.(*Event)
		return ok && (e.Body != nil || e.Expired)
	}
	return list
}

// read returns a field's value, or the error in its place.
func read(target any, get func(e *Event) any) (any, error) {
	e, ok := target.(*Event)
	if !ok {
		return nil, errNotEvent
	}
	v := get(e)
	if err, failed := v.(error); failed {
		return nil, err
	}
	return v, nil
}

func (e *Event) types() []string {
	if len(e.Types) == 0 {
		return []string{e.Type}
	}
	return e.Types
}

func (e *Event) readHeaders() any {
	switch {
	case e.Expired:
		return errExpired
	case e.headers == nil && e.Headers == "":
		e.headers = newDocument([]byte("{}"), e.openable)
	case e.headers == nil:
		e.headers = newDocument([]byte(e.Headers), e.openable)
	}
	return e.headers.root
}

func (e *Event) readBody() any {
	switch {
	case e.Expired:
		return errExpired
	case e.Body == nil:
		return errNoJSON
	case e.body == nil:
		e.body = newDocument(e.Body, e.openable)
	}
	return e.body.root
}

// close releases what filters have opened. A further filter opens it again.
func (e *Event) close() { e.headers, e.body = nil, nil }

// begin lets another filter have the whole of what one may read.
func (e *Event) begin() {
	for _, d := range []*document{e.headers, e.body} {
		if d != nil {
			d.begin()
		}
	}
}

// failed returns the bound that the filter has exceeded, if any.
func (e *Event) failed() error {
	for _, d := range []*document{e.headers, e.body} {
		if d != nil && d.failed != nil {
			return d.failed
		}
	}
	return nil
}
