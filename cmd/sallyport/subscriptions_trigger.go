package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

type subscriptionsTrigger struct {
	Provider   string `arg:"" name:"provider" help:"The provider configuration's key, such as github, or a connection as provider/connection_id."`
	EventType  string `arg:"" name:"type" help:"The event type, such as issues.opened."`
	Connection string `placeholder:"ID" aliases:"connection-id" help:"The id of the connection that gets the sample. Default: the provider's only connection. --connection-id is the same flag."`
	DataFile   string `placeholder:"PATH" help:"JSON file with the body, an object or array, in which type, id, times and signature are set; - reads standard input. Default: a sample of the type, or a minimal body."`
	apiFlags   `embed:""`
}

// Run sends the sample.
func (c *subscriptionsTrigger) Run(ctx context.Context, e *env) error {
	body := map[string]any{"event_type": c.EventType}
	if c.DataFile != "" {
		text, err := e.readInput(c.DataFile)
		if err != nil {
			return err
		}
		if !json.Valid(text) {
			return usageError(named(c.DataFile) + " is not valid JSON")
		}
		body["data"] = json.RawMessage(text)
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		connection, err := c.connection(ctx, api)
		if err != nil {
			return err
		}
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: connection.path("webhook-sample"),
			Body: body})
		if err != nil {
			return err
		}
		r, err := into[sampleRow](a.Body)
		if err != nil {
			return err
		}
		e.warn(r.Warnings)
		if c.JSON {
			return printRaw(e.stdout, a.Body)
		}
		if err := e.printFields([][2]string{{"Event", r.EventUUID}, {"Type", r.EventType}, {"Connection",
			connection.Provider + "/" + connection.ConnectionID}, {"Subscriptions", strconv.Itoa(r.Subscriptions)}, {"Sample",
			r.SampleID}}); err != nil {
			return err
		}
		if c.DataFile != "" {
			e.note("Its body is yours, so that deliveries carry no signature of the provider: a receiver of raw webhooks that " +
				"verifies one refuses it.")
		}
		if r.MinimalBody {
			e.note("It has a minimal body: only what the gateway reads from it. --data-file names a file with a whole one.")
		}
		if r.Subscriptions == 0 {
			e.note("The sample was verified and stored as a webhook of the provider is. No subscription gets it; the reasons:\n"+
				"sallyport events show %s --explain", terminal.Inline(r.EventUUID))
			return nil
		}
		e.note("The sample was verified, stored and matched as a webhook of the provider is. Its deliveries:\n"+
			"sallyport events show %s", terminal.Inline(r.EventUUID))
		if held := heldBy(ctx, api, r.EventUUID); held != "" {
			e.note("held: %s; they are disabled, or their receivers fail", terminal.Inline(held))
		}
		return nil
	})
}

// heldBy returns the subscriptions that hold the event; empty if there are none, or if the server does not say.
func heldBy(ctx context.Context, api *apiclient.Client, event string) string {
	a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: "/webhook-events" + apiclient.Path(event)})
	if err != nil {
		return ""
	}
	p, err := into[payload](a.Body)
	if err != nil {
		return ""
	}
	var held []string
	for i := range p.Deliveries {
		if p.Deliveries[i].Status == "held" {
			held = append(held, p.Deliveries[i].SubscriptionID)
		}
	}
	return strings.Join(held, ", ")
}

// sampleRow is the response to a sample.
type sampleRow struct {
	EventUUID     string       `json:"event_uuid"`
	EventType     string       `json:"event_type"`
	SampleID      string       `json:"sample_id"`
	MinimalBody   bool         `json:"minimal_body"`
	Subscriptions int          `json:"subscriptions"`
	Warnings      []warningRow `json:"warnings"`
}

// connection returns the connection that the flag names, or the provider's only one.
func (c *subscriptionsTrigger) connection(ctx context.Context, api *apiclient.Client) (connectionName, error) {
	if c.Connection != "" {
		return connectionName{c.Provider, c.Connection}, nil
	}
	if provider, id, found := strings.Cut(c.Provider, "/"); found {
		return connectionName{provider, id}, nil
	}
	var ids []string
	more, err := api.Each(ctx, apiclient.Request{Path: connectionsPath, Query: url.Values{"provider": {c.Provider}}},
		maxNamed, func(row json.RawMessage) error {
			r, err := into[connectionRow](row)
			ids = append(ids, r.ConnectionID)
			return err
		})
	switch {
	case err != nil:
		return connectionName{}, err
	case len(ids) == 1 && !more:
		return connectionName{c.Provider, ids[0]}, nil
	case len(ids) == 0:
		if message := missingProvider(ctx, api, c.Provider); message != "" {
			return connectionName{}, usageError(message)
		}
		return connectionName{}, fmt.Errorf("there is no connection to %s; create one with\nsallyport connections create "+
			"--provider %s", terminal.Inline(c.Provider), terminal.Inline(c.Provider))
	default:
		return connectionName{}, usageError("there are several connections to " + terminal.Inline(c.Provider) +
			"; name one with --connection: " + terminal.Inline(strings.Join(ids, ", ")))
	}
}

// maxNamed is how many connections an error names.
const maxNamed = 10
