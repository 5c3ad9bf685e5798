package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

type eventsPublish struct {
	EventType         string `arg:"" name:"type" help:"The event type, such as invoice.paid."`
	DataJSON          string `name:"data-json" placeholder:"JSON" xor:"data" required:"" help:"The event's data: any JSON value."`
	DataFile          string `placeholder:"PATH" xor:"data" required:"" help:"JSON file with the event's data; - reads standard input."`
	IdempotencyKey    string `placeholder:"KEY" help:"Of several events with the same key only the first is forwarded."`
	ConnectionID      string `name:"connection-id" placeholder:"ID" aliases:"connection" help:"The connection that the event is about, as an id or as provider/connection_id. Default: none. --connection is the same flag."`
	ProviderConfigKey string `placeholder:"KEY" aliases:"provider" help:"The provider configuration of the connection, if several connections have this id. --provider is the same flag."`
	apiFlags          `embed:""`
}

// body returns the request's body.
func (c *eventsPublish) body(e *env) (map[string]any, error) {
	text, name := []byte(c.DataJSON), "--data-json"
	if c.DataFile != "" {
		var err error
		if text, err = e.readInput(c.DataFile); err != nil {
			return nil, err
		}
		name = named(c.DataFile)
	}
	if !json.Valid(text) {
		return nil, usageError(name + ` is not valid JSON; a text needs quotes: "paid"`)
	}
	body := map[string]any{"event_type": c.EventType, "data": json.RawMessage(text)}
	connection, key := c.ConnectionID, c.ProviderConfigKey
	if before, after, found := strings.Cut(connection, "/"); found {
		if key != "" && key != before {
			return nil, usageError("--connection-id and --provider-config-key name different provider configurations")
		}
		connection, key = after, before
	}
	for name, v := range map[string]string{"connection_id": connection, "provider_config_key": key,
		"idempotency_key": c.IdempotencyKey} {
		if v != "" {
			body[name] = v
		}
	}
	return body, nil
}

// publishedRow is the response to a publication.
type publishedRow struct {
	EventUUID string `json:"event_uuid"`
	Duplicate bool   `json:"duplicate"`
	Suspect   string `json:"suspect"`
}

// Run publishes the event.
func (c *eventsPublish) Run(ctx context.Context, e *env) error {
	body, err := c.body(e)
	if err != nil {
		return err
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: "/webhook-events", Body: body})
		if err != nil {
			return err
		}
		r, err := into[publishedRow](a.Body)
		if err != nil {
			return err
		}
		if r.Suspect != "" {
			e.note("warning: an event with this idempotency key was published before with other data; these were not forwarded")
		}
		if c.JSON {
			return printRaw(e.stdout, a.Body)
		}
		fields := [][2]string{{"Event", r.EventUUID}, {"Type", c.EventType}}
		if r.Duplicate {
			fields = [][2]string{{"Duplicate of", r.EventUUID}}
		}
		if err := e.printFields(fields); err != nil {
			return err
		}
		if !r.Duplicate {
			e.note("The event is stored, and forwarded to the subscriptions that match. Its deliveries:\n"+
				"sallyport events show %s --explain", terminal.Inline(r.EventUUID))
		}
		return nil
	})
}
