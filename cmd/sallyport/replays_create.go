package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

type replaysCreate struct {
	eventFilter      `embed:""`
	EventUUIDs       []string `name:"event-uuid" placeholder:"UUID" help:"Only these events."`
	All              bool     `help:"All events, instead of a filter."`
	Force            bool     `help:"Also replay deliveries that succeeded, wait for their first attempt or are held; held ones are sent when the subscription is enabled."`
	ToSubscriptionID string   `name:"to-subscription-id" placeholder:"ID" help:"Send the events to this subscription, instead of the subscriptions that they went to."`
	RatePerSecond    *int64   `placeholder:"N" help:"Maximum number of deliveries to start a second. Default: the server's, 50."`
	DryRun           bool     `help:"Only count the deliveries that the job would start."`
	Wait             bool     `help:"Wait until the job has ended, and report progress; exit with 1 if it failed or was cancelled. Ctrl-C ends only the wait."`
	apiFlags         `embed:""`
}

// filter returns the filter that selects the events, at the time now.
func (c *replaysCreate) filter(now time.Time) map[string]any {
	filter := map[string]any{}
	for name, values := range c.query(now) {
		switch name {
		case "duplicate", "control":
			filter[name] = values[0] == "true"
		case "received_after", "received_before":
			filter[name] = values[0]
		case "http_status":
			filter[name] = c.HTTPStatus
		default:
			filter[name] = values
		}
	}
	if len(c.EventUUIDs) > 0 {
		filter["event_uuids"] = c.EventUUIDs
	}
	if c.All {
		filter["all"] = true
	}
	return filter
}

// body returns the request's body.
func (c *replaysCreate) body(filter map[string]any) map[string]any {
	body := map[string]any{"filter": filter}
	for name, on := range map[string]bool{"force": c.Force, "dry_run": c.DryRun} {
		if on {
			body[name] = true
		}
	}
	if c.ToSubscriptionID != "" {
		body["to_subscription_id"] = c.ToSubscriptionID
	}
	if c.RatePerSecond != nil {
		body["rate_per_second"] = *c.RatePerSecond
	}
	return body
}

// Run creates the bulk replay, or counts the deliveries it would start.
func (c *replaysCreate) Run(ctx context.Context, e *env) error {
	if c.Wait && c.DryRun {
		return usageError("--wait and --dry-run can't be used together")
	}
	filter := c.filter(e.clock.Now())
	if len(filter) == 0 {
		return usageError("nothing restricts the replay: give a filter, such as --status dead_letter, or --all " +
			"for all events")
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		if !c.DryRun {
			e.warnNames(ctx, api, c.names())
		}
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: replaysPath, Body: c.body(filter)})
		if err != nil {
			return err
		}
		if c.DryRun {
			return c.preview(ctx, e, api, a.Body)
		}
		if !c.Wait {
			return c.replay(e, a.Body)
		}
		return c.awaitReplay(ctx, e, api, a.Body)
	})
}

// noteNone says why a replay may have found nothing.
func (c *replaysCreate) noteNone(e *env, matched int64) {
	if matched == 0 && !c.Force {
		e.note("No delivery of such events has failed. --force sends those again that have succeeded or wait, too.")
	}
}

// preview prints the result of a dry run.
func (c *replaysCreate) preview(ctx context.Context, e *env, api *apiclient.Client, body json.RawMessage) error {
	p, err := into[struct {
		replayCounts
		AtLeast bool `json:"at_least"`
		Sample  []struct {
			EventUUID      string    `json:"event_uuid"`
			EventType      string    `json:"event_type"`
			ConnectionID   string    `json:"connection_id"`
			ReceivedAt     time.Time `json:"received_at"`
			SubscriptionID string    `json:"subscription_id"`
		} `json:"sample"`
	}](body)
	if err != nil {
		return err
	}
	if p.Matched == 0 {
		e.warnNames(ctx, api, c.names())
	}
	if c.JSON {
		return printRaw(e.stdout, body)
	}
	least := ""
	if p.AtLeast {
		least = " or more"
	}
	if err := e.printFields([][2]string{{"Events", strconv.FormatInt(p.Matched, 10) + least},
		{"Would start", strconv.FormatInt(p.Replayed, 10) + least}, {"Would skip", p.skipped()}}); err != nil {
		return err
	}
	c.noteNone(e, p.Matched)
	t := e.table(terminal.Column{Title: "EVENT", Fixed: true}, terminal.Column{Title: "RECEIVED (UTC)", Fixed: true},
		terminal.Column{Title: "TYPE"}, terminal.Column{Title: "CONNECTION"}, terminal.Column{Title: "SUBSCRIPTION",
			Fixed: true})
	for _, s := range p.Sample {
		t.Row(s.EventUUID, second(s.ReceivedAt), s.EventType, s.ConnectionID, s.SubscriptionID)
	}
	return e.section("Examples", len(p.Sample), t)
}
