// Package listen forwards the events of the live stream to a URL on a developer's machine, for the command listen.
package listen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/sse"
	"sallyport/internal/webhooks/eventstream"
	"sallyport/internal/webhooks/subscriptions"
)

// waiting is how many events may wait while one is forwarded. Beyond that the stream is not read, which the server
// bears for a while; then it ends the stream, which is opened again where it was read to.
const waiting = 1000

// Options select the events to forward and where to.
type Options struct {
	API *apiclient.Client
	// Forward is the http:// or https:// URL that gets the events.
	Forward string
	// AllowRemote accepts a Forward that is not on this machine.
	AllowRemote bool
	// Secret signs the events, as a subscription's signing secret does.
	Secret secretbox.Secret
	// Filter are the query parameters of the stream.
	Filter url.Values
	// Timeout bounds each forward, including its response.
	Timeout time.Duration
	Clock   clock.Clock
	// Observer is called as things happen.
	Observer Observer
}

// Observer follows the stream and the forwards, by one call at a time.
type Observer interface {
	// Opened reports that the stream is open; again reports that it was interrupted before.
	Opened(again bool)
	// Lost reports that the stream was interrupted, why, and when it is opened again.
	Lost(why error, wait time.Duration)
	// Stream passes a message of the stream about itself.
	Stream(m sse.Message) error
	// Forwarded reports that an event was forwarded, or could not be.
	Forwarded(r Result) error
}

// Errors of Options.
var (
	// ErrForward says that the URL cannot be forwarded to.
	ErrForward = errors.New("--forward takes a URL such as http://localhost:3000/webhooks")
	// ErrRemote says that the URL is not on this machine.
	ErrRemote = errors.New("--forward names another machine, which would get everything that providers send; " +
		"allow it with --allow-remote")
	// ErrSecret says that the secret cannot sign.
	ErrSecret = errors.New("the signing secret cannot be used")
)

// NewSecret returns a secret to sign with, as subscriptions get one.
func NewSecret() secretbox.Secret { return subscriptions.NewSigningSecret() }

// Run forwards events until ctx ends, which is no error. left is how many had come and were not forwarded by then. The
// errors are ErrForward, ErrRemote, ErrSecret, those of apiclient.Client.Follow, and those of the Observer.
func Run(ctx context.Context, o Options) (left int, err error) {
	l, err := newListener(o)
	if err != nil {
		return 0, err
	}
	defer l.client.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var forwarding sync.WaitGroup
	forwarding.Go(func() {
		if err := l.forwardAll(ctx); err != nil {
			cancel(err)
		}
	})
	_, err = o.API.Follow(ctx, apiclient.Following{Path: "/webhook-events/stream", Query: l.query(),
		Message: l.message(ctx), Opened: l.opened, Lost: l.lost})
	if errors.Is(err, context.Canceled) {
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	cancel(nil)
	close(l.queue)
	forwarding.Wait()
	return int(l.left.Load()), err
}

// Replay forwards stored events once, one after the other, until ctx ends. The filter counts for nothing. failed is how
// many the receiver has not taken. The errors are those of Run, and that of the request for an event, which ends it.
func Replay(ctx context.Context, o Options, eventUUIDs []string) (failed int, err error) {
	l, err := newListener(o)
	if err != nil {
		return 0, err
	}
	defer l.client.Close()
	for _, uuid := range eventUUIDs {
		e := event{EventUUID: uuid}
		body, err := l.fetch(ctx, &e)
		if err != nil {
			return failed, err
		}
		r := l.post(ctx, &e, body)
		if ctx.Err() != nil && r.Status == 0 {
			return failed, nil // an interrupt
		}
		if !r.Taken {
			failed++
		}
		if err := l.Observer.Forwarded(r); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

func newListener(o Options) (*listener, error) {
	// The user of the command names the receiver, also one in a private network.
	everywhere := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(),
		0)}
	client := egress.New(egress.Policy{AllowCIDRs: everywhere, AllowHTTP: true}, egress.Options{Clock: o.Clock})
	target, terr := client.ParseTarget(o.Forward)
	if terr != nil {
		return nil, fmt.Errorf("%w: %s", ErrForward, terr.Message)
	}
	if !o.AllowRemote && !apiclient.Loopback(target.Hostname()) {
		return nil, ErrRemote
	}
	key, err := subscriptions.SigningKey(o.Secret)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecret, err)
	}
	return &listener{Options: o, client: client, target: target, key: key, queue: make(chan event, waiting)}, nil
}

type listener struct {
	Options
	client *egress.Client
	target *url.URL
	key    []byte
	queue  chan event
	left   atomic.Int64
	// mu is held while the observer is called.
	mu sync.Mutex
}

func (l *listener) opened(again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Observer.Opened(again)
}

func (l *listener) lost(why error, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Observer.Lost(why, wait)
}

// query is the filter, without what a subscription would not forward either: duplicates, and the providers' pings.
func (l *listener) query() url.Values {
	q := url.Values{"duplicate": {"false"}, "control": {"false"}}
	for name, values := range l.Filter {
		q[name] = values
	}
	return q
}

// wanted reports whether a subscription to these types would take the event: the gateway's own events must be named.
func (l *listener) wanted(e *event) bool {
	const own = subscriptions.OwnProvider + "."
	if e.Provider != subscriptions.OwnProvider || !strings.HasPrefix(e.EventType, own) {
		return true
	}
	for _, pattern := range l.Filter["event_type"] {
		if strings.HasPrefix(pattern, own) {
			return true
		}
	}
	return false
}

// message takes the messages of the stream.
func (l *listener) message(ctx context.Context) func(sse.Message) error {
	return func(m sse.Message) error {
		switch m.Event {
		case string(eventstream.EventReceived):
			var e event
			if err := json.Unmarshal(m.Data, &e); err != nil {
				return fmt.Errorf("%w: %w", apiclient.ErrForeign, err)
			}
			if !l.wanted(&e) {
				return nil
			}
			select {
			case l.queue <- e:
				return nil
			case <-ctx.Done():
				l.left.Add(1)
				return ctx.Err()
			}
		case eventstream.StreamGap, eventstream.StreamLagged, eventstream.StreamClosed:
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.Observer.Stream(m)
		default: // attempts and changes
			return nil
		}
	}
}

// forwardAll forwards what waits, one event after the other, so that the receiver sees them in their order.
func (l *listener) forwardAll(ctx context.Context) error {
	for e := range l.queue {
		if ctx.Err() != nil {
			l.left.Add(1) // what has not been begun is left
			continue
		}
		r := l.forward(ctx, &e)
		if ctx.Err() != nil && r.Status == 0 {
			l.left.Add(1)
			continue
		}
		l.mu.Lock()
		err := l.Observer.Forwarded(r)
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
