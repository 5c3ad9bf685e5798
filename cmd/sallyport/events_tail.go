package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/sse"
	"sallyport/internal/platform/terminal"
)

// The messages of the stream.
const (
	messageReceived = "webhook_event.received"
	messageAttempt  = "webhook_attempt.completed"
	messageUpdated  = "webhook_event.updated"
	messageGap      = "stream.gap"
	messageLagged   = "stream.lagged"
	messageClosed   = "stream.closed"
)

type eventsTail struct {
	eventFilter `embed:""`
	Only        []string `placeholder:"KIND" enum:"received,attempt,updated,rejected" help:"Only messages of these kinds: received, attempt, updated, rejected. Default: all."`
	Rejections  bool     `default:"true" negatable:"" help:"Show rejected webhooks too, unless a filter is given that only events have."`
	LastEventID string   `name:"last-event-id" placeholder:"ID" help:"Start after this message of the stream. An earlier tail names it when it ends, and lines of --json contain it as id."`
	Count       int      `placeholder:"N" help:"Stop after this many messages."`
	apiFlags    `embed:""`
}

// errEnough ends a tail that has printed --count messages.
var errEnough = errors.New("enough")

// Run prints messages until it is interrupted. If the stream breaks off, Run reopens it after the last message, so that
// it misses nothing. It reports a gap if the server does. With --json it prints one object a line.
func (c *eventsTail) Run(ctx context.Context, e *env) error {
	if c.Count < 0 {
		return usageError("--count must not be below 0")
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		e.warnNames(ctx, api, c.names())
		last, err := c.follow(ctx, e, api)
		switch {
		case errors.Is(err, errEnough):
			return nil
		case ctx.Err() != nil:
			if last != "" {
				e.note("To continue from here: --last-event-id %s", terminal.Inline(last))
			}
			return nil
		default:
			return err
		}
	})
}

// follow prints the messages of the stream, and rejected webhooks between them, until one of the two ends.
func (c *eventsTail) follow(ctx context.Context, e *env, api *apiclient.Client) (last string, err error) {
	filter := c.query(e.clock.Now())
	o := &tailOutput{c: c, e: e, screen: terminal.ScreenOf(e.stdout, e.environ)}
	ctx, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end(nil)
	last, err = api.Follow(ctx, apiclient.Following{
		Path: "/webhook-events/stream", Query: filter, From: c.LastEventID, Message: o.message,
		Opened: func(again bool) {
			if again {
				e.back()
			} else {
				if c.showsRejections(filter) {
					e.watchRejections(ctx, api, filter, &watching, o.rejected, end)
				}
				e.note("Watching %s. Press Ctrl-C to stop.", api.Server())
			}
		},
		Lost: e.lost,
	})
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return last, err
}

// showsRejections reports whether rejected webhooks are shown. They have a connection and a provider, and no other
// property that events are filtered by.
func (c *eventsTail) showsRejections(filter url.Values) bool {
	for name := range filter {
		if name != "connection_id" && name != "provider_config_key" && name != "provider" {
			return false
		}
	}
	return c.Rejections && (len(c.Only) == 0 || slices.Contains(c.Only, "rejected"))
}

// tailOutput prints what comes from the stream and from the watch of rejections, one message at a time.
type tailOutput struct {
	c      *eventsTail
	e      *env
	screen terminal.Screen
	mu     sync.Mutex
	shown  int
}

// message takes a message of the stream.
func (o *tailOutput) message(m sse.Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.e.reportStream(m); err != nil || !o.c.wanted(m.Event) {
		return err
	}
	if err := o.c.print(o.e, o.screen, m); err != nil {
		return err
	}
	if m.Event == messageGap {
		return nil
	}
	return o.count()
}

// rejected takes a rejected webhook.
func (o *tailOutput) rejected(raw json.RawMessage, r *rejectionRow) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.c.Provider) > 0 && !slices.Contains(o.c.Provider, r.Provider) {
		return nil
	}
	var err error
	if o.c.JSON {
		err = o.e.printMessage("", messageRejected, raw)
	} else {
		_, err = fmt.Fprintln(o.e.stdout, r.line(o.screen))
	}
	if err != nil {
		return err
	}
	return o.count()
}

// count ends the tail after --count messages.
func (o *tailOutput) count() error {
	if o.shown++; o.shown == o.c.Count {
		return errEnough
	}
	return nil
}

// lost reports that a stream broke off, and back that it continues.
func (e *env) lost(err error, wait time.Duration) {
	e.note("The stream broke off: %s Retrying in %s.", terminal.Inline(sentence(err.Error())), wait.Round(time.Second))
}

func (e *env) back() { e.note("The stream is back and continues where it broke off.") }

// reportStream reports a message about the stream itself if it concerns people. A stream that ends in order is
// reopened, and nothing is missed.
func (e *env) reportStream(m sse.Message) error {
	switch m.Event {
	case messageGap:
		gap, err := into[struct {
			Message string `json:"message"`
			Since   string `json:"missed_since"`
			Until   string `json:"missed_until"`
		}](m.Data)
		if err == nil {
			e.note("%s", terminal.Inline("Messages from "+gap.Since+" to "+gap.Until+" were missed: "+sentence(gap.Message)))
		}
		return err
	case messageLagged, messageClosed:
		closing, err := into[struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		}](m.Data)
		if err == nil && closing.Reason != "time_limit" && closing.Reason != "server_stopping" {
			e.note("%s", terminal.Inline(sentence(closing.Message)))
		}
		return err
	default:
		return nil
	}
}

// sentence ends a text as a sentence ends.
func sentence(text string) string {
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// kinds are the messages by the names that --only takes.
func (*eventsTail) kinds() map[string]string {
	return map[string]string{messageReceived: "received", messageAttempt: "attempt", messageUpdated: "updated"}
}

func (c *eventsTail) wanted(event string) bool {
	kind, known := c.kinds()[event]
	switch {
	case event == messageGap:
		return true // a reader of JSON must know that messages are missing
	case !known:
		return false // from a server that sends more than this command understands
	default:
		return len(c.Only) == 0 || slices.Contains(c.Only, kind)
	}
}

// tailRow holds the properties of a message that a line shows, of an event or of an attempt.
type tailRow struct {
	eventRow
	attemptRow
	UpdatedAt time.Time `json:"updated_at"`
}

func (c *eventsTail) print(e *env, screen terminal.Screen, m sse.Message) error {
	if !json.Valid(m.Data) {
		return apiclient.ErrForeign
	}
	if c.JSON {
		return e.printMessage(m.ID, m.Event, m.Data)
	}
	if m.Event == messageGap {
		return nil // already reported, and not one of the lines
	}
	r, err := into[tailRow](m.Data)
	if err != nil {
		return err
	}
	at, status, detail := r.ReceivedAt, "", r.connection()
	switch m.Event {
	case messageReceived:
		// A message contains the event as it was read, so it may already show what the following lines report.
		r.LastError = nil
		if note := r.note(); note != "" {
			detail = strings.TrimPrefix(detail+", "+note, ", ")
		}
	case messageAttempt:
		at, status = r.StartedAt, r.Outcome
		detail = fmt.Sprintf("%s attempt %d of generation %d, %s ms", r.SubscriptionID, r.Number, r.Generation,
			strconv.FormatFloat(r.Timings.Total, 'f', 1, 64))
		if r.Error != nil {
			detail += ", " + r.Error.Code
		}
		if r.HTTPStatus != nil {
			detail += ", status " + number(r.HTTPStatus)
		}
	case messageUpdated:
		at, status, detail = r.UpdatedAt, r.Status, r.note()
	}
	_, err = fmt.Fprintf(e.stdout, "%s  %-8s  %s  %s  %s\n", at.UTC().Format(time.TimeOnly), c.kinds()[m.Event],
		terminal.Inline(r.EventUUID), terminal.Inline(r.EventType), line(screen, status, detail))
	return err
}

// line is a status, coloured on a terminal that shows colours, and the text after it.
func line(screen terminal.Screen, status, detail string) string {
	text := screen.Paint(statusTone(status), terminal.Inline(status))
	if status != "" && detail != "" {
		text += "  "
	}
	return text + terminal.Inline(detail)
}
