package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

type eventsCommand struct {
	List    eventsList    `cmd:"" help:"List webhook events."`
	Show    eventsShow    `cmd:"" help:"Show an event with its deliveries and attempts."`
	Tail    eventsTail    `cmd:"" help:"Print events and attempts as they happen, until interrupted."`
	Replay  eventsReplay  `cmd:"" help:"Send events again to the subscriptions that did not receive them."`
	Publish eventsPublish `cmd:"" help:"Publish an event of your own: it is stored, and forwarded to the subscriptions that match."`
}

// eventFilter holds the filters of lists of events. An event must match every filter, and any of a filter's values.
type eventFilter struct {
	Status            []string `placeholder:"STATUS" enum:"received,forwarding,forwarded,failed,dead_letter" help:"Only events with these statuses: received, forwarding, forwarded, failed, dead_letter."`
	Provider          []string `placeholder:"SLUG" help:"Only events of these providers."`
	ProviderConfigKey []string `placeholder:"KEY" help:"Only events of these provider configurations."`
	ConnectionID      []string `name:"connection-id" placeholder:"ID" aliases:"connection" help:"Only events of the connections with these ids. --connection is the same flag."`
	EventType         []string `placeholder:"PATTERN" help:"Only events of these types; issues.* matches all that begin with \"issues.\"."`
	SubscriptionID    []string `name:"subscription-id" placeholder:"ID" help:"Only events with a delivery to one of these subscriptions."`
	IdempotencyKey    string   `placeholder:"KEY" help:"Only events with this idempotency key."`
	Duplicate         *bool    `negatable:"" help:"Only duplicates, or only events that are not duplicates."`
	Control           *bool    `negatable:"" help:"Only control messages of providers (pings and confirmations), or only other events."`
	ReceivedAfter     moment   `placeholder:"TIME" help:"Only events received after this time (RFC 3339), or within this duration, such as 90m or 48h."`
	ReceivedBefore    moment   `placeholder:"TIME" help:"Only events received before this time, or longer ago than this duration."`
	HTTPStatus        []int    `name:"http-status" placeholder:"STATUS" help:"Only events with a delivery whose last attempt got this status code."`
	ErrorCode         []string `placeholder:"CODE" help:"Only events with a delivery whose last error has one of these codes."`
	Q                 string   `name:"q" placeholder:"TEXT" help:"Only events with this uuid, with this idempotency key, or with a type that begins with this text."`
}

// query returns the filter as the API takes it, at the time now.
func (f *eventFilter) query(now time.Time) url.Values {
	q := url.Values{}
	for name, values := range map[string][]string{
		"status": f.Status, "provider": f.Provider, "provider_config_key": f.ProviderConfigKey,
		"connection_id": f.ConnectionID, "event_type": f.EventType, "subscription_id": f.SubscriptionID,
		"error_code": f.ErrorCode,
	} {
		for _, v := range values {
			q.Add(name, v)
		}
	}
	for _, status := range f.HTTPStatus {
		q.Add("http_status", strconv.Itoa(status))
	}
	for name, value := range map[string]string{"idempotency_key": f.IdempotencyKey, "q": f.Q} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, choice := range map[string]*bool{"duplicate": f.Duplicate, "control": f.Control} {
		if choice != nil {
			q.Set(name, strconv.FormatBool(*choice))
		}
	}
	for name, m := range map[string]moment{"received_after": f.ReceivedAfter, "received_before": f.ReceivedBefore} {
		if m.given {
			q.Set(name, clock.Wire(m.time(now)))
		}
	}
	return q
}

// moment is a time, or a duration before now.
type moment struct {
	given bool
	at    time.Time
	ago   time.Duration
}

// UnmarshalText reads an RFC 3339 time or a duration such as 48h.
func (m *moment) UnmarshalText(text []byte) error {
	*m = moment{given: true}
	var err error
	if m.at, err = time.Parse(time.RFC3339Nano, string(text)); err == nil {
		return nil
	}
	if m.ago, err = time.ParseDuration(string(text)); err == nil && m.ago > 0 {
		return nil
	}
	return fmt.Errorf("%q is neither a time such as 2026-03-04T05:06:07Z nor a duration such as 48h", text)
}

func (m moment) time(now time.Time) time.Time {
	if m.ago > 0 {
		return now.Add(-m.ago)
	}
	return m.at
}

// second writes a time for people, to the second.
func second(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// failureRow is the reason why an attempt failed.
type failureRow struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	HTTPStatus *int   `json:"http_status"`
}

// text returns the failure in a few words.
func (f *failureRow) text() string {
	switch {
	case f == nil:
		return ""
	case f.HTTPStatus != nil:
		return f.Code + " " + strconv.Itoa(*f.HTTPStatus)
	default:
		return f.Code
	}
}

// eventRow holds the properties of an event that commands show.
type eventRow struct {
	EventUUID         string      `json:"event_uuid"`
	Provider          string      `json:"provider"`
	ProviderConfigKey string      `json:"provider_config_key"`
	ConnectionID      string      `json:"connection_id"`
	EventType         string      `json:"event_type"`
	EventTypes        []string    `json:"event_types"`
	Status            string      `json:"status"`
	IdempotencyKey    string      `json:"idempotency_key"`
	IdempotencySource string      `json:"idempotency_source"`
	DuplicateOf       *string     `json:"duplicate_of"`
	Suspect           *string     `json:"suspect"`
	Control           bool        `json:"control"`
	AttemptCount      int64       `json:"attempt_count"`
	DeliveryCount     *int64      `json:"delivery_count"`
	HeldCount         int64       `json:"held_count"`
	LastError         *failureRow `json:"last_error"`
	ContentType       string      `json:"content_type"`
	BodySize          int64       `json:"body_size"`
	PayloadExpired    bool        `json:"payload_expired"`
	Verification      struct {
		Result string  `json:"result"`
		Scheme string  `json:"scheme"`
		KeyID  *string `json:"key_id"`
	} `json:"verification"`
	ReceivedAt time.Time `json:"received_at"`
}

// note returns the special properties of the event, in a few words.
// connection names the connection of the event; empty if it has none.
func (r *eventRow) connection() string {
	if r.ConnectionID == "" {
		return ""
	}
	return r.ProviderConfigKey + "/" + r.ConnectionID
}

func (r *eventRow) note() string {
	var parts []string
	if r.DuplicateOf != nil {
		parts = append(parts, "duplicate")
	} else if r.PayloadExpired {
		parts = append(parts, "payload removed")
	}
	if r.Control {
		parts = append(parts, "control")
	}
	if r.Suspect != nil {
		parts = append(parts, *r.Suspect)
	}
	switch {
	case r.DuplicateOf != nil || r.Control:
	case r.DeliveryCount != nil && *r.DeliveryCount == 0:
		parts = append(parts, "no subscription matched")
	case r.HeldCount > 0:
		parts = append(parts, strconv.FormatInt(r.HeldCount, 10)+" held")
	}
	if r.LastError != nil && r.Status != "forwarded" {
		parts = append(parts, r.LastError.text())
	}
	return strings.Join(parts, ", ")
}

// statusTone colours the states of events, deliveries and attempts.
func statusTone(status string) terminal.Tone {
	switch status {
	case "forwarded", "succeeded":
		return terminal.Good
	case "forwarding", "pending", "sending", "retry_wait", "held":
		return terminal.Busy
	case "failed", "dead_letter", "dead":
		return terminal.Bad
	default:
		return terminal.Plain
	}
}

type eventsList struct {
	eventFilter `embed:""`
	paging      `embed:""`
	apiFlags    `embed:""`
}

// Run lists the events.
func (c *eventsList) Run(ctx context.Context, e *env) error {
	q := c.query(e.clock.Now())
	q.Set("order", c.Order)
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		t := e.table(terminal.Column{Title: "EVENT", Fixed: true}, terminal.Column{Title: "RECEIVED (UTC)", Fixed: true},
			terminal.Column{Title: "TYPE"}, terminal.Column{Title: "CONNECTION"}, terminal.Column{Title: "STATUS", Fixed: true,
				Tone: statusTone}, terminal.Column{Title: "ATTEMPTS"},
			terminal.Column{Title: "NOTE"})
		n, err := e.rows(ctx, api, apiclient.Request{Path: "/webhook-events", Query: q}, c.paging, c.JSON, "events", t,
			func(t *terminal.Table, row json.RawMessage) error {
				r, err := into[eventRow](row)
				t.Row(r.EventUUID, second(r.ReceivedAt), r.EventType, r.connection(), r.Status,
					strconv.FormatInt(r.AttemptCount, 10), r.note())
				return err
			})
		if err == nil && n == 0 {
			e.warnNames(ctx, api, c.names())
		}
		return err
	})
}

type eventsReplay struct {
	Events         []string `arg:"" name:"event_uuid" help:"The events."`
	SubscriptionID []string `name:"subscription-id" placeholder:"ID" help:"Only the deliveries to these subscriptions."`
	Force          bool     `help:"Also replay deliveries that succeeded, wait for their first attempt or are held; held ones are sent when the subscription is enabled."`
	apiFlags       `embed:""`
}

// Run replays each event. An event that cannot be replayed does not stop the others.
func (c *eventsReplay) Run(ctx context.Context, e *env) error {
	body := map[string]any{}
	if len(c.SubscriptionID) > 0 {
		body["subscription_ids"] = c.SubscriptionID
	}
	if c.Force {
		body["force"] = true
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		t := e.table(deliveryColumns("EVENT")...)
		array := jsonArray{w: e.stdout}
		held := map[string]bool{}
		failed, err := e.each(ctx, c.Events, func(event string) error {
			a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: "/webhook-events" +
				apiclient.Path(event, "replay"), Body: body})
			if err != nil {
				return err
			}
			r, err := into[struct {
				Deliveries []deliveryRow `json:"deliveries"`
			}](a.Body)
			for i := range r.Deliveries {
				if r.Deliveries[i].Status == "held" {
					held[r.Deliveries[i].SubscriptionID] = true
				}
			}
			if c.JSON {
				return array.add(a.Body)
			}
			for i := range r.Deliveries {
				t.Row(append([]string{event}, r.Deliveries[i].cells()...)...)
			}
			return err
		})
		switch {
		case err != nil:
		case c.JSON:
			err = array.end()
		case failed < len(c.Events):
			err = t.Flush()
		}
		for _, sub := range slices.Sorted(maps.Keys(held)) {
			e.note("held deliveries are not sent: the subscription is disabled, or its receiver fails. To see which:\n"+
				"sallyport subscriptions show %s", terminal.Inline(sub))
		}
		if err == nil && failed > 0 {
			return exitError(exitFailed)
		}
		return err
	})
}

// each calls f for each name. It reports and counts what the server rejects; any other error ends the loop.
func (e *env) each(ctx context.Context, names []string, f func(name string) error) (failed int, err error) {
	for _, name := range names {
		err := f(name)
		if err != nil && len(names) > 1 && isRejected(err) && ctx.Err() == nil {
			e.say("%s: %s", terminal.Inline(name), terminal.Inline(err.Error()))
			failed++
			continue
		}
		if err != nil {
			return failed, err
		}
	}
	return failed, nil
}
