package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"golang.org/x/term"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

type secretsCommand struct {
	List    secretsList    `cmd:"" help:"List a connection's webhook secrets, without their values."`
	Add     secretsAdd     `cmd:"" help:"Add a secret next to the stored ones, to rotate without a gap: add the new one, set it at the provider, and delete the old one."`
	Replace secretsReplace `cmd:"" help:"Store a secret in place of every stored one. Webhooks that the provider still signs with an old one are rejected."`
	Delete  secretsDelete  `cmd:"" help:"Delete a secret; after the last one every webhook that needs one is rejected."`
}

const secretsSegment = "webhook-secrets"

// webhookSecretRow holds the properties of a webhook secret.
type webhookSecretRow struct {
	ID            string     `json:"id"`
	Label         string     `json:"label"`
	Hint          *string    `json:"hint"`
	CreatedAt     time.Time  `json:"created_at"`
	LastMatchedAt *time.Time `json:"last_matched_at"`
}

func (r *webhookSecretRow) ending() string {
	if r.Hint == nil {
		return ""
	}
	return "…" + *r.Hint
}

// print writes the secret's properties.
func (r *webhookSecretRow) print(e *env) error {
	return e.printFields([][2]string{{"Secret", r.ID}, {"Label", r.Label}, {"Ends in", r.ending()},
		{"Created", clock.Wire(r.CreatedAt)}})
}

type secretsList struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run lists the secrets.
func (c *secretsList) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: c.path(secretsSegment)})
		if err != nil {
			return err
		}
		if c.JSON {
			return printRaw(e.stdout, a.Body)
		}
		rows, err := into[[]webhookSecretRow](a.Body)
		if err != nil {
			return err
		}
		t := e.table(terminal.Column{Title: "SECRET", Fixed: true}, terminal.Column{Title: "LABEL"},
			terminal.Column{Title: "ENDS IN"}, terminal.Column{Title: "CREATED (UTC)", Fixed: true},
			terminal.Column{Title: "LAST MATCHED (UTC)", Fixed: true})
		for i := range rows {
			matched := "never"
			if at := rows[i].LastMatchedAt; at != nil {
				matched = second(*at)
			}
			t.Row(rows[i].ID, rows[i].Label, rows[i].ending(), second(rows[i].CreatedAt), matched)
		}
		return t.Flush()
	})
}

// secretInput is where a command reads a secret from. There is no flag for the secret itself, because command lines
// appear in histories and process lists.
type secretInput struct {
	SecretFile string `aliases:"webhook-secret-file" placeholder:"PATH" help:"File that contains only the secret; - reads it from standard input. Default: a prompt at a terminal, else standard input."`
}

func (f secretInput) read(ctx context.Context, e *env) (string, error) {
	if f.SecretFile != "" {
		return e.readSecret(f.SecretFile)
	}
	if file, ok := e.stdin.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		secret, err := e.prompt(ctx, file, "Webhook secret: ")
		if err == nil && secret == "" {
			err = errNoSecret
		}
		return secret.Reveal(), err
	}
	return e.readSecret("-")
}

type secretsAdd struct {
	connectionName `embed:""`
	secretInput    `embed:""`
	Label          string `placeholder:"TEXT" help:"A name for the secret, for example the day it came into use."`
	apiFlags       `embed:""`
}

// Run adds the secret.
func (c *secretsAdd) Run(ctx context.Context, e *env) error {
	secret, err := c.read(ctx, e)
	if err != nil {
		return err
	}
	body := map[string]any{"secret": secret}
	if c.Label != "" {
		body["label"] = c.Label
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: c.path(secretsSegment), Body: body})
		if err != nil {
			return err
		}
		return c.secret(e, a.Body)
	})
}

// secret prints the webhook secret in a response.
func (f apiFlags) secret(e *env, body json.RawMessage) error {
	if f.JSON {
		return printRaw(e.stdout, body)
	}
	r, err := into[webhookSecretRow](body)
	if err != nil {
		return err
	}
	return r.print(e)
}

type secretsReplace struct {
	connectionName `embed:""`
	secretInput    `embed:""`
	apiFlags       `embed:""`
}

// Run replaces the secrets.
func (c *secretsReplace) Run(ctx context.Context, e *env) error {
	secret, err := c.read(ctx, e)
	if err != nil {
		return err
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPatch, Path: c.path(),
			Body: map[string]any{"webhook_secret": secret}})
		if err != nil {
			return err
		}
		return c.connection(e, a.Body)
	})
}

type secretsDelete struct {
	connectionName `embed:""`
	SecretID       string `arg:"" name:"secret_id" help:"The secret, as shown by connections secrets list."`
	apiFlags       `embed:""`
}

// Run deletes the secret.
func (c *secretsDelete) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		_, err := api.Call(ctx, apiclient.Request{Method: http.MethodDelete, Path: c.path(secretsSegment, c.SecretID)})
		if err != nil {
			return err
		}
		return e.reportDone(c.JSON, "%s is deleted", c.SecretID)
	})
}
