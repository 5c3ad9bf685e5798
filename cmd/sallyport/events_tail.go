package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	Only        []string `placeholder:"KIND" enum:"received,attempt,updated" help:"Only messages of these kinds: received, attempt, updated. Default: all."`
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
		shown := 0
		screen := terminal.ScreenOf(e.stdout, e.environ)
		last, err := api.Follow(ctx, apiclient.Following{
			Path: "/webhook-events/stream", Query: c.query(e.clock.Now()), From: c.LastEventID,
			Message: func(m sse.Message) error {
				if err := e.reportStream(m); err != nil || !c.wanted(m.Event) {
					return err
				}
				if err := c.print(e, screen, m); err != nil {
					return err
				}
				if m.Event == messageGap {
					return nil
				}
				if shown++; shown == c.Count {
					return errEnough
				}
				return nil
			},
			Opened: func(again bool) {
				if again {
					e.back()
				} else {
					e.note("Watching %s. Press Ctrl-C to stop.", api.Server())
				}
			},
			Lost: e.lost,
		})
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
		line, err := json.Marshal(struct {
			ID    string          `json:"id"`
			Event string          `json:"event"`
			Data  json.RawMessage `json:"data"`
		}{m.ID, m.Event, m.Data})
		if err != nil {
			return fmt.Errorf("print JSON: %w", err)
		}
		_, err = fmt.Fprintf(e.stdout, "%s\n", terminal.JSON(line))
		return err
	}
	if m.Event == messageGap {
		return nil // already reported, and not one of the lines
	}
	r, err := into[tailRow](m.Data)
	if err != nil {
		return err
	}
	at, status, detail := r.ReceivedAt, "", r.ProviderConfigKey+"/"+r.ConnectionID
	switch m.Event {
	case messageReceived:
		// A message contains the event as it was read, so it may already show what the following lines report.
		r.LastError = nil
		if note := r.note(); note != "" {
			detail += ", " + note
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
