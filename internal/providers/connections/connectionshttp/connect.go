package connectionshttp

import (
	"context"
	"net/http"
	"net/url"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connections"
)

// opReconnect is the operation that makes a link for a connection.
const opReconnect = "reconnect"

// location is the path of a connection.
func location(c *connections.Connection) string {
	return httpapi.Prefix + collectionPath + "/" + url.PathEscape(c.ProviderConfigKey) + "/" +
		url.PathEscape(c.ConnectionID)
}

// viewMade returns the wire form of a connection with its link.
func (h *handlers) viewMade(ctx context.Context, m *connecting.Made) connection {
	out, link, at := h.view(ctx, m.Connection), m.URL.Reveal(), httpapi.Time(m.ExpiresAt)
	out.ConnectURL, out.ConnectExpiresAt, out.ConnectModes = &link, &at, []connectMode{}
	for _, o := range m.Modes {
		out.ConnectModes = append(out.ConnectModes, connectMode(o))
	}
	return out
}

// connect creates a connection with a link.
func (h *handlers) connect(ctx context.Context, in *createInput) (*createOutput, error) {
	m, err := h.links.Create(ctx, access.From(ctx), in.Body.domain(), in.Body.Connect.Value.domain())
	if err != nil {
		return nil, err
	}
	return &createOutput{Versioned: httpapi.Version(m.Connection.Version()), Status: http.StatusCreated,
		Location: location(&m.Connection), Body: h.viewMade(ctx, &m)}, nil
}

// reconnect makes a link for a connection.
func (h *handlers) reconnect(ctx context.Context, in *operateInput) (*operateOutput, error) {
	m, err := h.links.Reconnect(ctx, access.From(ctx), in.Provider, in.ConnectionID, in.Body.Connect.Value.domain())
	if err != nil {
		return nil, err
	}
	v := h.viewMade(ctx, &m)
	return &operateOutput{Versioned: httpapi.Version(m.Connection.Version()), Body: result{connection: &v,
		version: httpapi.Version(m.Connection.Version())}}, nil
}

// standing returns the standing link of a connection for callers who may write it, and when it expires; nil where there
// is none.
func (h *handlers) standing(ctx context.Context, c *connections.Connection) (*string, *httpapi.Time) {
	// An API key gets here only with a grant for connections, which opens all of their operations.
	if p := access.From(ctx); p.Kind != access.KindAPIKey && !p.Has(access.ConnectionsWrite) {
		return nil, nil
	}
	link, until, err := h.standingLinks.URL(ctx, c)
	if err != nil || link == "" {
		return nil, nil // the connection is shown also while its configuration cannot be read
	}
	text, at := link.Reveal(), httpapi.Time(until)
	return &text, &at
}
