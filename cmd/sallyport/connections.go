package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

type connectionsCommand struct {
	List   connectionsList   `cmd:"" help:"List connections."`
	Show   connectionsShow   `cmd:"" help:"Show a connection."`
	Create connectionsCreate `cmd:"" help:"Create a connection and print the URL that its provider posts to."`
	Delete connectionsDelete `cmd:"" help:"Delete a connection and its secrets; its events stay."`
}

const connectionsPath = "/connections"

// connectionRow holds the properties of a connection that commands show.
type connectionRow struct {
	UUID              string  `json:"uuid"`
	ConnectionID      string  `json:"connection_id"`
	WebhookAlias      *string `json:"webhook_alias"`
	ProviderConfigKey string  `json:"provider_config_key"`
	Provider          string  `json:"provider"`
	Status            string  `json:"status"`
	StatusReason      *string `json:"status_reason"`
	WebhookURL        string  `json:"webhook_url"`
	Webhook           struct {
		HasSecret  bool    `json:"has_secret"`
		SecretHint *string `json:"secret_hint"`
		Scheme     *string `json:"scheme"`
		Duplicates struct {
			Summary string `json:"summary"`
		} `json:"duplicates"`
	} `json:"webhook"`
	CreatedAt time.Time `json:"created_at"`
}

func (r *connectionRow) secret() string {
	switch {
	case r.Webhook.Scheme != nil:
		return *r.Webhook.Scheme
	case !r.Webhook.HasSecret:
		return "missing"
	case r.Webhook.SecretHint != nil:
		return "…" + *r.Webhook.SecretHint
	default:
		return "stored"
	}
}

type connectionsList struct {
	Provider []string `placeholder:"KEY" help:"Only connections of these provider configurations."`
	Status   []string `placeholder:"STATUS" enum:"active,disabled" help:"Only active connections, or only disabled ones."`
	Q        string   `name:"q" placeholder:"PREFIX" help:"Only connections with ids that begin with this text."`
	paging   `embed:""`
	apiFlags `embed:""`
}

// Run lists the connections.
func (c *connectionsList) Run(ctx context.Context, e *env) error {
	q := url.Values{"provider": c.Provider, "status": c.Status, "order": {c.Order}}
	if c.Q != "" {
		q.Set("q", c.Q)
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		t := e.table(terminal.Column{Title: "PROVIDER", Fixed: true}, terminal.Column{Title: "CONNECTION", Fixed: true},
			terminal.Column{Title: "STATUS"}, terminal.Column{Title: "SECRET"}, terminal.Column{Title: "WEBHOOK URL",
				Fixed: true})
		return e.list(ctx, api, apiclient.Request{Path: connectionsPath, Query: q}, c.paging, c.JSON, "connections", t,
			func(t *terminal.Table, row json.RawMessage) error {
				r, err := into[connectionRow](row)
				t.Row(r.ProviderConfigKey, r.ConnectionID, r.Status, r.secret(), r.WebhookURL)
				return err
			})
	})
}

type connectionsShow struct {
	Provider     string `arg:"" name:"provider" help:"The provider configuration's key."`
	ConnectionID string `arg:"" name:"connection_id" help:"The id of the connection."`
	apiFlags     `embed:""`
}

// Run shows the connection.
func (c *connectionsShow) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: connectionsPath + apiclient.Path(c.Provider,
			c.ConnectionID)})
		if err != nil {
			return err
		}
		return c.connection(e, a.Body)
	})
}

// connection prints the connection in a response.
func (f apiFlags) connection(e *env, body json.RawMessage) error {
	if f.JSON {
		return printRaw(e.stdout, body)
	}
	r, err := into[connectionRow](body)
	if err != nil {
		return err
	}
	return e.printFields([][2]string{
		{"Connection", r.ProviderConfigKey + "/" + r.ConnectionID}, {"Provider", r.Provider}, {"UUID", r.UUID},
		{"Status", r.Status}, {"Status reason", value(r.StatusReason)}, {"Webhook URL", r.WebhookURL},
		{"Webhook alias", value(r.WebhookAlias)}, {"Webhook secret", r.secret()},
		{"Duplicates", r.Webhook.Duplicates.Summary}, {"Created", clock.Wire(r.CreatedAt)},
	})
}

type connectionsCreate struct {
	Provider          string `placeholder:"SLUG" help:"The provider, as shown by providers list."`
	ConnectionID      string `name:"connection-id" placeholder:"ID" help:"The id of the connection. Default: generated."`
	WebhookSecretFile string `placeholder:"PATH" help:"File that contains only the secret that the provider signs with; - reads it from standard input."`
	FromFile          string `placeholder:"PATH" help:"JSON file with the connection's properties, as in the API; - reads standard input. Flags take precedence."`
	apiFlags          `embed:""`
}

// Run creates the connection.
func (c *connectionsCreate) Run(ctx context.Context, e *env) error {
	if c.FromFile == "-" && c.WebhookSecretFile == "-" {
		return usageError("only one of --from-file and --webhook-secret-file can read standard input")
	}
	body, err := e.readProperties(c.FromFile)
	if err != nil {
		return err
	}
	for name, v := range map[string]string{"provider": c.Provider, "connection_id": c.ConnectionID} {
		if v != "" {
			body[name] = v
		}
	}
	if c.WebhookSecretFile != "" {
		if body["webhook_secret"], err = e.readSecret(c.WebhookSecretFile); err != nil {
			return err
		}
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: connectionsPath, Body: body})
		if err != nil {
			return err
		}
		if err := c.connection(e, a.Body); err != nil {
			return err
		}
		if r, err := into[connectionRow](a.Body); err == nil && r.secret() == "missing" {
			e.note("The connection has no webhook secret yet, so it rejects every webhook. "+
				"Add one with POST %s/webhook-secrets.", connectionsPath+apiclient.Path(r.ProviderConfigKey, r.ConnectionID))
		}
		return nil
	})
}

type connectionsDelete struct {
	Provider     string `arg:"" name:"provider" help:"The provider configuration's key."`
	ConnectionID string `arg:"" name:"connection_id" help:"The id of the connection."`
	apiFlags     `embed:""`
}

// Run deletes the connection.
func (c *connectionsDelete) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		_, err := api.Call(ctx, apiclient.Request{Method: http.MethodDelete, Path: connectionsPath +
			apiclient.Path(c.Provider, c.ConnectionID)})
		if err != nil {
			return err
		}
		return e.reportDone(c.JSON, "%s is deleted", c.Provider+"/"+c.ConnectionID)
	})
}
