package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/alecthomas/kong"

	"sallyport/internal/platform/apiclient"
)

// connectionFields are the properties that create and update have flags for. --from-file takes every property.
type connectionFields struct {
	WebhookSecretFile string            `placeholder:"PATH" help:"File that contains only the secret that the provider signs with, which replaces every stored one; - reads it from standard input."`
	Param             map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"A parameter of the provider's definition, as shown by providers show; may be given several times. They are stored in clear."`
	Alias             string            `placeholder:"TEXT" help:"A readable segment for the webhook URL."`
	Scheme            string            `enum:",none" default:"" placeholder:"none" help:"none: accept webhooks without verification, for providers whose webhooks cannot be verified."`
	URLBase           string            `name:"url-base" placeholder:"URL" help:"Scheme, host and path prefix that the provider calls, if it is not the server's public URL and the provider signs the URL."`
	SourceCIDRs       []string          `name:"source-cidrs" placeholder:"CIDR" help:"The networks that webhooks may come from."`
	RateLimit         *int64            `name:"rate-limit-per-second" placeholder:"N" help:"The maximum number of verified webhooks per second."`
	MaxBodyBytes      *int64            `name:"max-body-bytes" placeholder:"N" help:"The maximum size of a body, in bytes."`
	DedupeWindow      *int64            `name:"dedupe-window-seconds" placeholder:"N" help:"How long a webhook without an id is recognised as a duplicate by its body; 0: never."`
	Redeliver         *bool             `name:"redeliver-on-duplicate" negatable:"" help:"Whether a webhook that the provider resends restarts the dead deliveries of its event."`
	SameBodyNewID     string            `name:"same-body-new-id" enum:",accept,refuse" default:"" placeholder:"CHOICE" help:"How to handle a known body under a new id that the provider does not sign: accept, or refuse, which does not forward it."`
	credentialFlags   `embed:""`
	Tag               map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"A label; may be given several times."`
	MetadataFile      string            `placeholder:"PATH" help:"JSON file with an object of your own."`
	FromFile          string            `placeholder:"PATH" help:"JSON file with the connection's properties, as in the API; - reads standard input. Flags take precedence."`
}

// body returns the request's body.
func (f *connectionFields) body(e *env) (map[string]any, error) {
	if f.FromFile == "-" && f.WebhookSecretFile == "-" {
		return nil, usageError("only one of --from-file and --webhook-secret-file can read standard input")
	}
	if f.reads() && (f.FromFile == "-" || f.WebhookSecretFile == "-") {
		return nil, usageError("only one flag can read standard input")
	}
	body, err := e.readProperties(f.FromFile)
	if err != nil {
		return nil, err
	}
	if err := f.add(e, body); err != nil {
		return nil, err
	}
	if f.WebhookSecretFile != "" {
		if body["webhook_secret"], err = e.readSecret(f.WebhookSecretFile); err != nil {
			return nil, err
		}
	}
	if f.MetadataFile != "" {
		if body["metadata"], err = e.readProperties(f.MetadataFile); err != nil {
			return nil, err
		}
	}
	if len(f.Tag) > 0 {
		body["tags"] = f.Tag
	}
	return body, f.webhook(body)
}

// webhook adds what the flags say about the member webhook to the one of --from-file.
func (f *connectionFields) webhook(body map[string]any) error {
	set := map[string]any{}
	for name, v := range map[string]string{"alias": f.Alias, "scheme": f.Scheme, "url_base": f.URLBase,
		"same_body_new_id": f.SameBodyNewID} {
		if v != "" {
			set[name] = v
		}
	}
	for name, n := range map[string]*int64{"rate_limit_per_second": f.RateLimit, "max_body_bytes": f.MaxBodyBytes,
		"dedupe_window_seconds": f.DedupeWindow} {
		if n != nil {
			set[name] = *n
		}
	}
	if f.Redeliver != nil {
		set["redeliver_on_duplicate"] = *f.Redeliver
	}
	if len(f.SourceCIDRs) > 0 {
		set["source_cidrs"] = f.SourceCIDRs
	}
	if len(f.Param) > 0 {
		set["params"] = f.Param
	}
	return merge(body, memberWebhook, set)
}

// Members of a body that are objects.
const (
	memberWebhook = "webhook"
	memberConnect = "connect"
)

// merge adds members to a member of a body that is an object.
func merge(body map[string]any, name string, set map[string]any) error {
	if len(set) == 0 {
		return nil
	}
	members := map[string]any{}
	switch given := body[name].(type) {
	case map[string]any:
		members = given
	case json.RawMessage:
		var raw map[string]json.RawMessage
		if json.Unmarshal(given, &raw) != nil {
			return usageError("the property " + name + " must be a JSON object")
		}
		for name, v := range raw {
			members[name] = v
		}
	}
	maps.Copy(members, set)
	body[name] = members
	return nil
}

type connectionsCreate struct {
	Provider         string `placeholder:"SLUG" help:"The provider, as shown by providers list."`
	ConnectionID     string `name:"connection-id" placeholder:"ID" help:"The id of the connection. Default: generated."`
	OnConflict       string `enum:",error,update" default:"" placeholder:"CHOICE" help:"If the connection exists: error (the default), or update, which changes it."`
	Connect          bool   `help:"Make a link under which a person connects their account, instead of --credentials: open it, and wait until the account is connected. Further flags for it: --user-id, --redirect-url, --state, --scopes, --expires-in, --no-open, --no-wait."`
	linkFlags        `embed:""`
	connectionFields `embed:""`
	apiFlags         `embed:""`
}

// Run creates the connection.
func (c *connectionsCreate) Run(ctx context.Context, e *env) error {
	body, err := c.body(e)
	if err != nil {
		return err
	}
	for name, v := range map[string]string{"provider": c.Provider, "connection_id": c.ConnectionID,
		"on_conflict": c.OnConflict} {
		if v != "" {
			body[name] = v
		}
	}
	if err := c.connect(body); err != nil {
		return err
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: connectionsPath, Body: body})
		if err != nil {
			return err
		}
		if _, ok := body[memberConnect]; ok {
			return c.follow(ctx, e, c.apiFlags, api, a)
		}
		if err := c.connection(e, a.Body); err != nil {
			return err
		}
		if r, err := into[connectionRow](a.Body); err == nil && r.secret() == noSecret {
			e.note("The connection has no webhook secret yet, so it rejects every webhook. Add one with\n"+
				"sallyport connections secrets add %s %s", r.ProviderConfigKey, r.ConnectionID)
		}
		return nil
	})
}

// connect adds the terms of a link to a body that is to have one.
func (c *connectionsCreate) connect(body map[string]any) error {
	terms, err := c.terms()
	if err != nil {
		return err
	}
	if _, ok := body[memberConnect]; !ok && !c.Connect {
		if len(terms) > 0 {
			return usageError("--user-id, --redirect-url, --state, --scopes and --expires-in are for a link: " +
				"give --connect, too")
		}
		return nil
	} else if !ok {
		body[memberConnect] = map[string]any{}
	}
	return merge(body, memberConnect, terms)
}

type connectionsUpdate struct {
	connectionName   `embed:""`
	connectionFields `embed:""`
	Unset            []string `placeholder:"NAME" help:"Reset these parameters of the definition to their defaults."`
	RemoveTag        []string `placeholder:"NAME" help:"Remove these labels."`
	Clear            []string `placeholder:"NAME" enum:"webhook_secret,credentials,connection_config,alias,params,scheme,url_base,source_cidrs,rate_limit_per_second,dedupe_window_seconds,tags,metadata" help:"Clear these properties: webhook_secret, credentials, connection_config, alias, params, scheme, url_base, source_cidrs, rate_limit_per_second, dedupe_window_seconds, tags, metadata."`
	apiFlags         `embed:""`
}

// Run changes the connection.
func (c *connectionsUpdate) Run(ctx context.Context, e *env) error {
	body, err := c.body(e)
	if err != nil {
		return err
	}
	if err := c.remove(body); err != nil {
		return err
	}
	if len(body) == 0 {
		return usageError("nothing to change: give a property by its flag or by --from-file")
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPatch, Path: c.path(), Body: body})
		if err != nil {
			return err
		}
		return c.connection(e, a.Body)
	})
}

// remove adds what --unset, --remove-tag and --clear remove.
func (c *connectionsUpdate) remove(body map[string]any) error {
	if len(c.Unset) > 0 {
		if err := merge(body, memberWebhook, map[string]any{"params": without(c.Param, c.Unset)}); err != nil {
			return err
		}
	}
	if len(c.RemoveTag) > 0 {
		body["tags"] = without(c.Tag, c.RemoveTag)
	}
	for _, name := range c.Clear {
		target := body
		if !slices.Contains([]string{"webhook_secret", "credentials", "connection_config", "tags", "metadata"}, name) {
			target, _ = body[memberWebhook].(map[string]any)
			if target == nil {
				target = map[string]any{}
			}
			if raw, ok := body[memberWebhook].(json.RawMessage); ok && json.Unmarshal(raw, &target) != nil {
				return usageError("the property webhook must be a JSON object")
			}
			body[memberWebhook] = target
		}
		if _, ok := target[name]; ok {
			return usageError(name + " cannot be set and cleared at the same time")
		}
		target[name] = nil
	}
	return nil
}

// without returns members to set, and null for those to remove.
func without(set map[string]string, names []string) map[string]any {
	out := map[string]any{}
	for name, v := range set {
		out[name] = v
	}
	for _, name := range names {
		out[name] = nil
	}
	return out
}

// connectionOperation is a command that runs an operation on a connection and prints the connection. The operation, and
// what is noted after it, are in the tag of the command.
type connectionOperation struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run runs the operation.
func (c *connectionOperation) Run(ctx context.Context, e *env, kctx *kong.Context) error {
	tag := kctx.Selected().Tag
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: c.path(),
			Body: map[string]any{"operation": tag.Get("operation")}})
		if err != nil {
			return err
		}
		if err := c.connection(e, a.Body); err != nil {
			return err
		}
		if note := tag.Get("note"); note != "" {
			e.note("%s", note)
		}
		return nil
	})
}
