package apiclient

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/sse"
)

const (
	// maxMessage bounds one message of a stream; an event without its payload is far smaller.
	maxMessage = 4 << 20
	// maxQuiet is how long a stream may be silent: three of its heartbeats.
	maxQuiet = 45 * time.Second
	// leastWait, firstWait and maxWait: how long to wait before a stream is opened again. The server may ask for another
	// than the first, and each failure in a row doubles it.
	leastWait, firstWait, maxWait = time.Second, 3 * time.Second, 30 * time.Second
	// maxRefusal bounds the body of an answer that is no stream.
	maxRefusal = 1 << 20
)

// Following is a stream that is opened again whenever it ends, behind the last message, so that nothing is missed.
type Following struct {
	// Path and Query are those of a Request.
	Path  string
	Query url.Values
	// From is the id of a message to begin behind; empty begins with what happens from now on.
	From string
	// Message takes each message, also those about the stream itself, one after the other; its error ends the following.
	Message func(m sse.Message) error
	// Opened is told, where it is set, that the stream is open and nothing that happens from now on is missed: the first
	// time, and again after each loss.
	Opened func(again bool)
	// Lost is told, where it is set, that the stream broke off, and when it will be opened again. It hears nothing more
	// until the stream is open again, nor of streams that end in order, as every one does after some time.
	Lost func(err error, wait time.Duration)
}

// errEnded says that a stream ended in order.
var errEnded = errors.New("the stream ended")

// Follow reads the stream until ctx ends, whose error it returns, or Message returns an error, or the server refuses
// for good. It returns the id of the last place that it has read. The first opening must succeed, because most likely
// nothing would mend it; later ones are tried for ever. The errors are those of Call, and sse.ErrTooLong.
func (c *Client) Follow(ctx context.Context, f Following) (last string, err error) {
	p := place{id: f.From, retry: firstWait}
	wait := firstWait
	opened, lost := false, false
	for {
		err := c.stream(ctx, &f, &p, func() {
			if (lost || !opened) && f.Opened != nil {
				f.Opened(opened)
			}
			opened, lost, wait = true, false, p.retry
		})
		var own ownError
		var refused *Error
		switch {
		case errors.As(err, &own):
			return p.id, own.error
		case ctx.Err() != nil:
			return p.id, ctx.Err()
		case !opened, !errors.Is(err, errEnded) && !Temporary(err):
			return p.id, err
		}
		pause := jitter(wait)
		if errors.As(err, &refused) {
			pause = max(pause, refused.RetryAfter)
		}
		if !errors.Is(err, errEnded) {
			if !lost && f.Lost != nil {
				f.Lost(err, pause)
			}
			lost, wait = true, min(2*wait, maxWait)
		}
		if err := c.sleep(ctx, pause); err != nil {
			return p.id, err
		}
	}
}

// place is where a stream has been read to, and how long it asks clients to wait before they come back.
type place struct {
	id    string
	retry time.Duration
}

// ownError is an error of Following.Message.
type ownError struct{ error }

// jitter spreads the readers of a server that was away over a fifth of the time.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5) //nolint:gosec // nothing is to be kept secret here
}

func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	t := c.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stream opens the stream once and reads it to its end.
func (c *Client) stream(ctx context.Context, f *Following, p *place, opened func()) error {
	q, err := c.request(Request{Method: http.MethodGet, Path: f.Path, Query: f.Query}, sse.ContentType)
	if err != nil {
		return err
	}
	if p.id != "" {
		q.Header.Set("Last-Event-ID", p.id)
	}
	req := (&http.Request{Method: q.Method, URL: q.URL, Header: q.Header}).WithContext(ctx)
	resp, err := c.streams.RoundTrip(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }() // errors have come from reading
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // the status is enough if the rest breaks off
		return errorOf(resp.StatusCode, resp.Header, body)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), sse.ContentType) {
		return ErrForeign
	}
	r := sse.NewReader(resp.Body, maxMessage)
	for begun := false; ; {
		m, isEvent, err := r.NextBlock()
		if id := r.LastID(); id != "" {
			p.id = id
		}
		// What happens before the stream has a place may be missed.
		if !begun && (isEvent || r.LastID() != "") {
			begun = true
			opened()
		}
		if d := r.Retry(); d > 0 {
			p.retry = min(max(d, leastWait), maxWait)
		}
		switch {
		case errors.Is(err, io.EOF):
			return errEnded
		case err != nil:
			return c.unreachable(err)
		}
		if !isEvent {
			continue
		}
		if err := f.Message(m); err != nil {
			return ownError{err}
		}
	}
}

// unreachable returns a failure of egress as an *Unreachable, and other errors as they are.
func (c *Client) unreachable(err error) error {
	var failure *egress.Error
	if !errors.As(err, &failure) {
		return err
	}
	return &Unreachable{Server: c.Server(), Code: failure.Code, Message: failure.Message, Sent: failure.BytesSent}
}
