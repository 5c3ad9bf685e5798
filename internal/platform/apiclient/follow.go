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
	// maxMessage limits a message of a stream; an event without its payload is far smaller.
	maxMessage = 4 << 20
	// maxQuiet is the longest silence of a stream: three of its heartbeats.
	maxQuiet = 45 * time.Second
	// leastWait, firstWait and maxWait limit the time before a stream is opened again. The server may set another first
	// one, and each failure in a row doubles it.
	leastWait, firstWait, maxWait = time.Second, 3 * time.Second, 30 * time.Second
	// maxRefusal limits the body of a response that is not a stream.
	maxRefusal = 1 << 20
)

// Following is a stream that is opened again when it ends, after the last message, so that nothing is missed.
type Following struct {
	// Path and Query are those of the Request.
	Path  string
	Query url.Values
	// From is the id of the message to begin after; empty begins now.
	From string
	// Message is called for each message, including those about the stream itself. Its error ends the following.
	Message func(m sse.Message) error
	// Opened, if set, is called when the stream is open and misses nothing from now on: first, and after each loss.
	Opened func(again bool)
	// Lost, if set, is called when the stream breaks off, with the time until it is opened again. It is called once until
	// the stream is open again, and not for streams that end in order, as every one does after some time.
	Lost func(err error, wait time.Duration)
}

// errEnded is the error of a stream that ended in order.
var errEnded = errors.New("the stream ended")

// Follow reads the stream until ctx ends, Message returns an error, or the server refuses permanently. It returns the
// last position that it has read. It does not retry the first opening, because waiting would probably not help; it
// retries later ones for ever. Its errors are those of ctx, Message and Call, and sse.ErrTooLong.
func (c *Client) Follow(ctx context.Context, f Following) (last string, err error) {
	p := position{id: f.From, retry: firstWait}
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

// position is the position of a reader in a stream, and the time that the stream asks clients to wait before they
// reconnect.
type position struct {
	id    string
	retry time.Duration
}

// ownError wraps an error of Following.Message.
type ownError struct{ error }

// jitter spreads the readers of a restarted server over a fifth of the time.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5) //nolint:gosec // it need not be secret
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
func (c *Client) stream(ctx context.Context, f *Following, p *position, opened func()) error {
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
		// Events before the stream has a position may be missed.
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
