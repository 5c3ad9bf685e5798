package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

type subscriptionsTest struct {
	ID        string `arg:"" name:"subscription_id" help:"The subscription."`
	EventType string `placeholder:"TYPE" help:"The type of the test event. Default: webhook.test."`
	EventUUID string `name:"event-uuid" placeholder:"UUID" help:"Send this stored event instead of a test event."`
	DataFile  string `placeholder:"PATH" help:"JSON file with the data of the test event; - reads standard input."`
	DryRun    bool   `help:"Show the request without sending it."`
	apiFlags  `embed:""`
}

// subscriptionTestRow is the result of a test.
type subscriptionTestRow struct {
	Delivered  bool         `json:"delivered"`
	WouldMatch bool         `json:"would_match"`
	EventType  string       `json:"event_type"`
	Warnings   []warningRow `json:"warnings"`
	Filter     *struct {
		Error *failureRow `json:"error"`
	} `json:"filter"`
	WebhookID string `json:"webhook_id"`
	Request   struct {
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	} `json:"request"`
	Response *struct {
		StatusCode int    `json:"status_code"`
		Body       string `json:"body"`
	} `json:"response"`
	Error    *failureRow `json:"error"`
	Duration float64     `json:"duration_ms"`
	DNS      float64     `json:"dns_ms"`
	Connect  float64     `json:"connect_ms"`
	TLS      float64     `json:"tls_ms"`
	TTFB     float64     `json:"ttfb_ms"`
}

// Run sends the test. If the target does not accept it, the command fails, for scripts.
func (c *subscriptionsTest) Run(ctx context.Context, e *env) error {
	body := map[string]any{}
	for name, v := range map[string]string{"event_type": c.EventType, "event_uuid": c.EventUUID} {
		if v != "" {
			body[name] = v
		}
	}
	if c.DataFile != "" {
		text, err := e.readInput(c.DataFile)
		if err != nil {
			return err
		}
		if !json.Valid(text) {
			return usageError(named(c.DataFile) + " is not valid JSON")
		}
		body["body"] = json.RawMessage(text)
	}
	if c.DryRun {
		body["dry_run"] = true
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: subscriptionsPath +
			apiclient.Path(c.ID, "test"), Body: body})
		if err != nil {
			return err
		}
		r, err := into[subscriptionTestRow](a.Body)
		if err != nil {
			return err
		}
		if c.JSON {
			err = printRaw(e.stdout, a.Body)
		} else {
			err = c.print(e, r)
		}
		e.warn(r.Warnings)
		if err == nil && !r.Delivered && !c.DryRun {
			return exitError(exitFailed)
		}
		return err
	})
}

func (c *subscriptionsTest) print(e *env, r subscriptionTestRow) error {
	outcome := "not delivered"
	switch {
	case c.DryRun:
		outcome = "nothing was sent"
	case r.Delivered:
		outcome = "delivered"
	}
	matches := "yes"
	if !r.WouldMatch {
		matches = "no: the subscription does not match such events"
		if r.Filter != nil && r.Filter.Error != nil {
			matches = "no: the filter cannot be evaluated: " + r.Filter.Error.Message
		}
	}
	fields := [][2]string{{"Outcome", outcome}, {"Event type", r.EventType}, {"Would match", matches},
		{"URL", r.Request.URL}, {"webhook-id", r.WebhookID}}
	if r.Response != nil {
		fields = append(fields, [2]string{"Response", strings.TrimSpace(strconv.Itoa(r.Response.StatusCode) + " " +
			r.Response.Body)})
	}
	if r.Error != nil {
		fields = append(fields, [2]string{"Error", r.Error.Code + ": " + r.Error.Message})
	}
	if !c.DryRun {
		fields = append(fields, [2]string{"Duration", fmt.Sprintf("%.1f ms (DNS %.1f, connection %.1f, TLS %.1f, first "+
			"byte %.1f)",
			r.Duration, r.DNS, r.Connect, r.TLS, r.TTFB)})
	}
	if err := e.printFields(fields); err != nil || !c.DryRun {
		return err
	}
	if err := e.printHeaders(r.Request.Headers); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "\nBody\n%s\n", terminal.Text(r.Request.Body))
	return err
}
