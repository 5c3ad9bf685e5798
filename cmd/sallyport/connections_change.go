package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

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
	return mergeWebhook(body, set)
}

// mergeWebhook adds members to the member webhook of a body.
func mergeWebhook(body, set map[string]any) error {
	if len(set) == 0 {
		return nil
	}
	members := map[string]any{}
	switch given := body["webhook"].(type) {
	case map[string]any:
		members = given
	case json.RawMessage:
		var raw map[string]json.RawMessage
		if json.Unmarshal(given, &raw) != nil {
			return usageError("the property webhook must be a JSON object")
		}
		for name, v := range raw {
			members[name] = v
		}
	}
	maps.Copy(members, set)
	body["webhook"] = members
	return nil
}

type connectionsCreate struct {
	Provider         string `placeholder:"SLUG" help:"The provider, as shown by providers list."`
	ConnectionID     string `name:"connection-id" placeholder:"ID" help:"The id of the connection. Default: generated."`
	OnConflict       string `enum:",error,update" default:"" placeholder:"CHOICE" help:"If the connection exists: error (the default), or update, which changes it."`
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
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: connectionsPath, Body: body})
		if err != nil {
			return err
		}
		if err := c.connection(e, a.Body); err != nil {
			return err
		}
		if r, err := into[connectionRow](a.Body); err == nil && r.secret() == "missing" && r.Credentials == nil {
			e.note("The connection has no webhook secret yet, so it rejects every webhook. Add one with\n"+
				"sallyport connections secrets add %s %s", r.ProviderConfigKey, r.ConnectionID)
		}
		return nil
	})
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
		if err := mergeWebhook(body, map[string]any{"params": without(c.Param, c.Unset)}); err != nil {
			return err
		}
	}
	if len(c.RemoveTag) > 0 {
		body["tags"] = without(c.Tag, c.RemoveTag)
	}
	for _, name := range c.Clear {
		target := body
		if !slices.Contains([]string{"webhook_secret", "credentials", "connection_config", "tags", "metadata"}, name) {
			if err := mergeWebhook(body, map[string]any{}); err != nil {
				return err
			}
			target, _ = body["webhook"].(map[string]any)
			if target == nil {
				target = map[string]any{}
			}
			if raw, ok := body["webhook"].(json.RawMessage); ok && json.Unmarshal(raw, &target) != nil {
				return usageError("the property webhook must be a JSON object")
			}
			body["webhook"] = target
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

// operate runs an operation on a connection and prints the connection.
func (n connectionName) operate(ctx context.Context, e *env, flags apiFlags, operation string) error {
	return e.withAPI(flags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: n.path(),
			Body: map[string]any{"operation": operation}})
		if err != nil {
			return err
		}
		return flags.connection(e, a.Body)
	})
}

type connectionsEnable struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run enables the connection.
func (c *connectionsEnable) Run(ctx context.Context, e *env) error {
	return c.operate(ctx, e, c.apiFlags, "enable")
}

type connectionsDisable struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run disables the connection.
func (c *connectionsDisable) Run(ctx context.Context, e *env) error {
	return c.operate(ctx, e, c.apiFlags, "disable")
}

type connectionsRotatePath struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run replaces the path token.
func (c *connectionsRotatePath) Run(ctx context.Context, e *env) error {
	err := c.operate(ctx, e, c.apiFlags, "rotate_webhook_path")
	if err == nil {
		e.note("The old webhook URL no longer works. Register the new one at the provider.")
	}
	return err
}
