package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

// Rendered is a request as it would be sent, without its credentials.
type Rendered struct {
	Method, URL string
	Headers     map[string]string
	// Body is the beginning of the body; empty for one that is not text. Size is that of the whole body in bytes.
	Body string
	Size int64
}

// maxRendered is how much of a body is shown.
const maxRendered = 64 << 10

// Render returns the request that Run would send, after what the rules decide about it. It sends the provider nothing
// and records nothing. It opens the credentials only to leave them out; if an access token has expired, that renews it.
func (p *Pipeline) Render(ctx context.Context, c *Call) (*Rendered, error) {
	leave, err := p.gate.Enter(ctx, string(c.Environment()))
	if err != nil {
		return nil, refused(c, err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, c.Request.Timeout)
	defer cancel()
	if err := p.decide(ctx, c); err != nil {
		return nil, refused(c, err)
	}
	if err := p.cfg.Redactor.Request(ctx, c); err != nil {
		return nil, refused(c, err)
	}
	out, err := p.render(ctx, c)
	if err != nil {
		failure := refused(c, err)
		failure.Call.ExecutionID = ""
		return nil, failure
	}
	return out, nil
}

func (p *Pipeline) render(ctx context.Context, c *Call) (*Rendered, error) {
	var err error
	if c.session, err = p.cfg.Connections.Open(ctx, c.Request.Principal, c.Connected); err != nil {
		return nil, err //nolint:wrapcheck // an error of the API
	}
	signed, err := c.session.Prepare(ctx, c.out, nil)
	if err != nil {
		return nil, notSendable(err)
	}
	req := signed.Request
	out := &Rendered{Method: req.Method, URL: signed.Mask.Text(req.URL.String()), Headers: map[string]string{},
		Size: max(0, req.ContentLength)}
	for name, values := range req.Header {
		out.Headers[name] = signed.Mask.Text(strings.Join(values, ", "))
	}
	// Nothing of these is shown, with any scheme.
	for _, name := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
		if req.Header.Get(name) != "" {
			out.Headers[name] = secretbox.Redacted
		}
	}
	if req.Body == nil || req.Body == http.NoBody {
		return out, nil
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxRendered))
	if err != nil {
		return nil, apperr.Wrap(apperr.CodeInternal, "An unexpected error occurred", err)
	}
	if utf8.Valid(body) {
		out.Body = string(signed.Mask.Bytes(body, int64(len(body)) < out.Size))
	}
	return out, nil
}
