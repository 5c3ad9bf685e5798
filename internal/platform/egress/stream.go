package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Stream is an answer whose body is read as it comes.
type Stream struct {
	Status int
	Header http.Header
	// Body must be closed. A read that ends in an error other than io.EOF ends in an *Error.
	Body io.ReadCloser
}

// Open sends the request and returns when the headers of the answer are there, within the request's Timeout. From then
// on the answer may last for as long as no read of its body waits longer than quiet; MaxResponseBytes plays no part.
// The end of ctx ends it.
func (c *Client) Open(ctx context.Context, r Request, quiet time.Duration) (Stream, *Error) {
	own, cancel := context.WithCancel(ctx)
	opening, opened := context.WithTimeout(ctx, r.timeout())
	defer opened()
	unbounded := context.AfterFunc(opening, cancel)
	resp, x, err := c.send(ctx, own, r) //nolint:bodyclose // closed by the caller, as a part of the Stream
	if err != nil {
		cancel()
		return Stream{}, err
	}
	body := &streamBody{parent: ctx, own: own, cancel: cancel, body: resp.Body, quiet: quiet}
	// When the time is over already, or the answer is none of HTTP any more, the exchange has ended.
	if !unbounded() || resp.StatusCode == http.StatusSwitchingProtocols {
		code := CodeTimeout
		if resp.StatusCode == http.StatusSwitchingProtocols {
			code = CodeResponseInvalid
		}
		_ = body.Close() // it is given up
		return Stream{}, newError(code, x.timings(), true)
	}
	return Stream{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// streamBody bounds the silence between two reads.
type streamBody struct {
	parent, own context.Context //nolint:containedctx // they live as long as the body
	cancel      context.CancelFunc
	body        io.ReadCloser
	quiet       time.Duration
}

// Read reads what has come, and waits for it no longer than quiet.
func (b *streamBody) Read(p []byte) (int, error) {
	wait, read := context.WithTimeout(b.own, b.quiet)
	defer read()
	unbounded := context.AfterFunc(wait, b.cancel)
	defer unbounded()
	n, err := b.body.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, newError(classify(b.parent, b.own, err, phaseAnswering), Timings{}, true)
}

// Close ends the exchange.
func (b *streamBody) Close() error {
	b.cancel()
	return b.body.Close()
}
