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

type connectionsCommand struct {
	List       connectionsList      `cmd:"" help:"List connections."`
	Show       connectionsShow      `cmd:"" help:"Show a connection."`
	Create     connectionsCreate    `cmd:"" help:"Create a connection, and print the URL that its provider posts to. With --connect a person connects their account on a page."`
	Update     connectionsUpdate    `cmd:"" help:"Change a connection."`
	Test       connectionsTest      `cmd:"" help:"Test a connection's credentials at the provider."`
	Enable     connectionOperation  `cmd:"" operation:"enable" help:"Accept webhooks of a disabled connection again."`
	Disable    connectionOperation  `cmd:"" operation:"disable" help:"Respond to a connection's webhooks with 503 until it is enabled."`
	RotatePath connectionOperation  `cmd:"" operation:"rotate_webhook_path" note:"The old webhook URL no longer works. Register the new one at the provider." help:"Replace the path token of a connection's webhook URL; the old URL stops working immediately."`
	Reconnect  connectionsReconnect `cmd:"" help:"Make a link under which a person connects the connection's account again, and wait for it. The present credentials are kept until others are proven."`
	Refresh    connectionOperation  `cmd:"" operation:"refresh" help:"Get another access token for a connection from its provider."`
	Revoke     connectionsRevoke    `cmd:"" help:"Ask the provider to revoke a connection's credentials, and remove them; webhooks are still accepted."`
	Delete     connectionsDelete    `cmd:"" help:"Delete a connection and its secrets; its events stay."`
	Secrets    secretsCommand       `cmd:"" help:"List, add, replace and delete the secrets that verify a connection's webhooks."`
	Enrolment  enrolmentCommand     `cmd:"" help:"Let a provider hand over its secret in a handshake, as Asana and Notion do."`
}

// connectionName names a connection.
type connectionName struct {
	Provider     string `arg:"" name:"provider" help:"The provider configuration's key."`
	ConnectionID string `arg:"" name:"connection_id" help:"The id of the connection."`
}

// splitConnection returns the arguments of a command with a connection's name as provider/connection_id, as responses
// show it, in two.
func splitConnection(args []string) []string {
	if len(args) == 0 || args[0] != "connections" {
		return args
	}
	for i, arg := range args {
		provider, id, found := strings.Cut(arg, "/")
		switch {
		case strings.HasPrefix(arg, "-"):
			return args
		case found && provider != "" && id != "":
			return slices.Concat(args[:i], []string{provider, id}, args[i+1:])
		default:
		}
	}
	return args
}

// path returns the path of the connection, or of what is below it.
func (n connectionName) path(below ...string) string {
	return connectionsPath + apiclient.Path(append([]string{n.Provider, n.ConnectionID}, below...)...)
}

const connectionsPath = "/connections"

// connectionRow holds the properties of a connection that commands show.
type connectionRow struct {
	UUID              string  `json:"uuid"`
	ConnectionID      string  `json:"connection_id"`
	WebhookAlias      *string `json:"webhook_alias"`
	ProviderConfigKey string  `json:"provider_config_key"`
	Provider          string  `json:"provider"`
	OwnerUserID       *string `json:"owner_user_id"`
	Status            string  `json:"status"`
	StatusReason      *string `json:"status_reason"`
	WebhookURL        *string `json:"webhook_url"`
	ReconnectURL      *string `json:"reconnect_url"`
	authRow
	Webhook struct {
		HasSecret     bool              `json:"has_secret"`
		NeedsSecret   bool              `json:"secret_required"`
		SecretHint    *string           `json:"secret_hint"`
		Scheme        *string           `json:"scheme"`
		Params        map[string]string `json:"params"`
		DedupeWindow  *int64            `json:"dedupe_window_seconds"`
		Redeliver     bool              `json:"redeliver_on_duplicate"`
		MaxBodyBytes  int64             `json:"max_body_bytes"`
		SameBodyNewID string            `json:"same_body_new_id"`
		URLBase       *string           `json:"url_base"`
		SourceCIDRs   []string          `json:"source_cidrs"`
		RateLimit     *int64            `json:"rate_limit_per_second"`
		Duplicates    struct {
			Summary string `json:"summary"`
		} `json:"duplicates"`
		TypeKnown *bool `json:"event_type_known"`
	} `json:"webhook"`
	Tags      map[string]string `json:"tags"`
	Metadata  map[string]any    `json:"metadata"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
}

// state returns the status with its reason.
func (r *connectionRow) state() string {
	if r.StatusReason == nil {
		return r.Status
	}
	return r.Status + " (" + *r.StatusReason + ")"
}

// noSecret is the state of a connection that only receives webhooks, and rejects them all for want of a secret.
const noSecret = "missing"

// secret says which webhook secret there is. It is empty where none is needed.
func (r *connectionRow) secret() string {
	switch {
	case r.WebhookURL == nil:
		return ""
	case r.Webhook.Scheme != nil:
		return *r.Webhook.Scheme
	case !r.Webhook.HasSecret && !r.Webhook.NeedsSecret:
		return ""
	case !r.Webhook.HasSecret && r.Credentials == nil && r.Status != "pending":
		return noSecret
	case !r.Webhook.HasSecret:
		return "not stored"
	case r.Webhook.SecretHint != nil:
		return "…" + *r.Webhook.SecretHint
	default:
		return "stored"
	}
}

type connectionsList struct {
	Provider    []string `placeholder:"KEY" help:"Only connections of these provider configurations."`
	Status      []string `placeholder:"STATUS" enum:"pending,active,needs_reauth,expired,error,revoked,disabled" help:"Only connections with one of these statuses: pending, active, needs_reauth, expired, error, revoked, disabled."`
	Health      []string `placeholder:"STATUS" enum:"healthy,unknown,degraded,unhealthy" help:"Only connections whose last test had one of these outcomes: healthy, unknown, degraded, unhealthy."`
	AuthMode    []string `placeholder:"MODE" help:"Only connections whose credentials are for one of these modes, or none."`
	OwnerUserID []string `placeholder:"ID" help:"Only connections that belong to these members of the team, by their user ids."`
	Tag         []string `placeholder:"KEY=VALUE" sep:"none" help:"Only connections with this tag; given several times, with all of them."`
	Q           string   `name:"q" placeholder:"PREFIX" help:"Only connections with ids that begin with this text."`
	paging      `embed:""`
	apiFlags    `embed:""`
}

// Run lists the connections.
func (c *connectionsList) Run(ctx context.Context, e *env) error {
	q := url.Values{"provider": c.Provider, "status": c.Status, "order": {c.Order}, "health": c.Health,
		"auth_mode": c.AuthMode, "owner_user_id": c.OwnerUserID}
	for _, tag := range c.Tag {
		key, value, found := strings.Cut(tag, "=")
		if !found || key == "" {
			return usageError("--tag: expected a key, = and a value, such as team=billing")
		}
		q.Add("tag."+key, value)
	}
	if c.Q != "" {
		q.Set("q", c.Q)
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		t := e.table(terminal.Column{Title: "PROVIDER", Fixed: true}, terminal.Column{Title: "CONNECTION", Fixed: true},
			terminal.Column{Title: "STATUS"}, terminal.Column{Title: "AUTH MODE"}, terminal.Column{Title: "ACCOUNT"},
			terminal.Column{Title: "SECRET"}, terminal.Column{Title: "WEBHOOK URL", Fixed: true})
		return e.list(ctx, api, apiclient.Request{Path: connectionsPath, Query: q}, c.paging, c.JSON, "connections", t,
			func(t *terminal.Table, row json.RawMessage) error {
				r, err := into[connectionRow](row)
				t.Row(r.ProviderConfigKey, r.ConnectionID, r.state(), r.AuthMode, r.account(), r.secret(),
					value(r.WebhookURL))
				return err
			})
	})
}

type connectionsShow struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run shows the connection.
func (c *connectionsShow) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: c.path()})
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
	w := &r.Webhook
	metadata := ""
	if len(r.Metadata) > 0 {
		text, err := json.Marshal(r.Metadata)
		if err != nil {
			return fmt.Errorf("print the metadata: %w", err)
		}
		metadata = string(text)
	}
	fields := [][2]string{
		{"Connection", r.ProviderConfigKey + "/" + r.ConnectionID}, {"Provider", r.Provider}, {"UUID", r.UUID},
		{"Owner", value(r.OwnerUserID)},
		{"Status", r.Status}, {"Status reason", value(r.StatusReason)}}
	if r.ReconnectURL != nil {
		fields = append(fields, [2]string{"Reconnect URL", *r.ReconnectURL})
	}
	fields = append(fields, r.fields()...)
	if r.WebhookURL == nil {
		return e.printFields(append(fields, [][2]string{{"Tags", pairs(r.Tags)}, {"Metadata", metadata},
			{"Created", clock.Wire(r.CreatedAt)}, {"Updated", clock.Wire(r.UpdatedAt)}}...))
	}
	return e.printFields(append(fields, [][2]string{
		{"Webhook URL", value(r.WebhookURL)}, {"Webhook alias", value(r.WebhookAlias)}, {"Webhook secret", r.secret()},
		{"Parameters", pairs(w.Params)},
		{"URL base", value(w.URLBase)}, {"Networks", strings.Join(w.SourceCIDRs, " ")},
		{"Rate limit", counted(w.RateLimit, "per second")}, {"Body limit", counted(&w.MaxBodyBytes, "bytes")},
		{"Dedupe window", counted(w.DedupeWindow, "seconds")}, {"Same body", w.SameBodyNewID},
		{"Event types", r.types()}, {"Duplicates", w.Duplicates.Summary},
		{"On a duplicate", map[bool]string{true: "restart dead deliveries", false: "restart nothing"}[w.Redeliver]},
		{"Tags", pairs(r.Tags)}, {"Metadata", metadata}, {"Created", clock.Wire(r.CreatedAt)},
		{"Updated", clock.Wire(r.UpdatedAt)},
	}...))
}

// types warns that events have no type; empty if they have.
func (r *connectionRow) types() string {
	if r.WebhookURL == nil || r.Webhook.TypeKnown == nil || *r.Webhook.TypeKnown {
		return ""
	}
	return "unknown: name the place of the type, as with --param event_type_header=X-Event-Type or --param " +
		"event_type_pointer=/type"
}

// pairs writes names and values in the order of the names.
func pairs(values map[string]string) string {
	out := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, name+"="+values[name])
	}
	return strings.Join(out, " ")
}

// counted writes a number with its unit, and nothing if there is none.
func counted(n *int64, unit string) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10) + " " + unit
}

type connectionsDelete struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run deletes the connection.
func (c *connectionsDelete) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		_, err := api.Call(ctx, apiclient.Request{Method: http.MethodDelete, Path: c.path()})
		if err != nil {
			return err
		}
		if err := e.reportDone(c.JSON, "%s is deleted", c.Provider+"/"+c.ConnectionID); err != nil {
			return err
		}
		if left := c.subscriptionsTo(ctx, api); len(left) > 0 {
			e.note("Subscriptions name this connection, and would match another one with its id: %s\n"+
				"Delete them with sallyport subscriptions delete.", terminal.Inline(strings.Join(left, ", ")))
		}
		return nil
	})
}

// subscriptionsTo returns the subscriptions that name the connection; none if the server does not say, because the key
// may not read them.
func (n connectionName) subscriptionsTo(ctx context.Context, api *apiclient.Client) (ids []string) {
	_, _ = api.Each(ctx, apiclient.Request{Path: subscriptionsPath, Query: url.Values{"connection_id": {n.ConnectionID}}},
		maxNamed, func(row json.RawMessage) error {
			r, err := into[subscriptionRow](row)
			if err == nil && (r.ProviderConfigKey == nil || *r.ProviderConfigKey == n.Provider) {
				ids = append(ids, r.ID)
			}
			return err
		})
	return ids
}
