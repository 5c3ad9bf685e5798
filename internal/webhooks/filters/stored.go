package filters

import "sallyport/internal/webhooks/events"

// NewEvent returns a stored event as filters see it. p is nil if its payload was removed.
func NewEvent(e *events.Event, p *events.Payload) *Event {
	out := &Event{Type: e.Type, Types: e.Types, Provider: e.Provider, ProviderConfigKey: e.ProviderConfigKey,
		ConnectionID: e.ConnectionID, ReceivedAt: e.ReceivedAt, ContentType: e.ContentType, Control: e.Control,
		Expired: p == nil}
	if p != nil {
		out.Headers = p.Headers
		if p.Encoding == events.JSON {
			out.Body = p.Body
		}
	}
	return out
}
