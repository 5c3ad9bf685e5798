// Package connectionshttp serves connections over HTTP.
package connectionshttp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/probes"
)

const (
	tag            = "Connections"
	collectionPath = "/connections"
	itemPath       = "/connections/{provider}/{connection_id}"
)

// Mount adds the operations on connections to the API. publicURL is the URL at which providers
// reach the service, without a path.
func Mount(api *httpapi.API, svc *connections.Service, links *connecting.Service, publicURL string) {
	h := &handlers{svc: svc, links: links, standingLinks: connecting.NewStandingLinks(links),
		tester: connections.NewTester(svc), renewer: connections.NewRenewer(svc),
		webhookBase: strings.TrimRight(publicURL, "/") + httpapi.Prefix + "/webhook/"}
	op := func(o httpapi.Operation) httpapi.Operation {
		o.Tag, o.Route, o.Environment = tag, access.RouteConnections, true
		if o.Permission == "" {
			o.Permission = access.ConnectionsWrite
		}
		return o
	}
	conflicts := []apperr.Code{apperr.CodeAliasTaken, apperr.CodeInvalidCredentials, apperr.CodeConnectionOwned}
	limited := map[apperr.Code][]string{apperr.CodeRateLimited: {limiter.TooManyGiven}}
	httpapi.Register(api, op(httpapi.Operation{
		ID: "create-connection", Method: http.MethodPost, Path: collectionPath, Status: http.StatusCreated,
		OtherStatuses: []int{http.StatusOK},
		Summary:       "Create a connection",
		Example: `{"provider": "github", "connection_id": "acme-production", ` +
			`"webhook_secret": "the-secret-of-the-provider", "on_conflict": "update"}`,
		Description: "Creates a connection that receives webhooks. Register its `webhook_url` at the provider. With " +
			"`credentials` requests to the provider can be made, too; with `connect` a person gives these on a page. If " +
			"`on_conflict` is `update` and a connection with this id exists, that connection is updated instead, and the " +
			"status code is 200.",
		Errors: append([]apperr.Code{apperr.CodeConnectionExists, apperr.CodeProviderNotConfigured,
			apperr.CodePendingConnectionsLimit}, conflicts...),
		Messages: limited,
	}), h.create)
	httpapi.RegisterList(api, op(httpapi.Operation{
		ID: "list-connections", Method: http.MethodGet, Path: collectionPath, Status: http.StatusOK,
		Permission: access.ConnectionsRead,
		Summary:    "List connections", Description: "Lists the environment's connections, newest first.",
	}), httpapi.List[listInput, connections.Connection, connection]{Rows: h.list, View: h.viewListed,
		Key: func(c *connections.Connection) string { return c.UUID }, IsKey: id.IsUUID})
	httpapi.Register(api, op(httpapi.Operation{
		ID: "get-connection", Method: http.MethodGet, Path: itemPath, Status: http.StatusOK,
		Permission: access.ConnectionsRead,
		Summary:    "Get a connection", Description: "Returns a connection. Secrets are never returned.",
	}), h.get)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "update-connection", Method: http.MethodPatch, Path: itemPath, Status: http.StatusOK,
		Summary: "Update a connection",
		Example: `{"tags": {"team": "billing"}}`,
		Description: "Applies a merge patch (RFC 7396) to the writable fields: absent fields stay, and `null` clears a " +
			"field that can be cleared. The update applies from the next webhook on. Of a connection that belongs to a " +
			"member, only they change `auth_mode`, `credentials` and `connection_config`.",
		Errors: conflicts, Messages: limited, IfMatch: true,
	}), h.update)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "operate-connection", Method: http.MethodPost, Path: itemPath, Status: http.StatusOK,
		Summary: "Disable, enable, reconnect, refresh, revoke, rotate or delete a connection",
		Example: `{"operation": "disable"}`,
		Description: "Runs the `operation` of the body. Without `operation` the body updates the connection as PATCH " +
			"does.\n\n" +
			"- `disable`: responds to webhooks with 503 until `enable`.\n" +
			"- `enable`: accepts webhooks again.\n" +
			"- `rotate_webhook_path`: replaces the path token. The old `webhook_url` stops working immediately.\n" +
			"- `reconnect`: makes a link under which a person connects the same account again. The present credentials are " +
			"kept until others are proven. A link that the connection has stops working. So does this one if credentials are " +
			"given or removed in another way.\n" +
			"- `refresh`: gets another access token from the provider, at the earliest 30 seconds after the last request for " +
			"one.\n" +
			"- `revoke`: asks the provider to revoke the credentials, and removes them. Webhooks are still accepted.\n" +
			"- `delete`: asks the provider to revoke the credentials, and deletes the connection.\n\n" +
			"Of a connection that belongs to a member, only they run `refresh`, and only they can use the link of `reconnect`.",
		Errors: append([]apperr.Code{apperr.CodeProviderNotConfigured, apperr.CodeConnectionNotReady}, conflicts...),
		Messages: map[apperr.Code][]string{apperr.CodeRateLimited: {limiter.TooManyGiven},
			apperr.CodeConnectionNotReady: {apperr.CodeConnectionNotReady.Example(), connections.OwnerDisabled}},
		IfMatch: true,
	}), h.operate)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "delete-connection", Method: http.MethodDelete, Path: itemPath, Status: http.StatusNoContent,
		Summary: "Delete a connection",
		Description: "Waits for a refresh that is in progress, for at most 25 seconds, asks the provider to revoke the " +
			"credentials, for at most ten, and deletes the connection and its secrets. Its events are kept. Its alias stays " +
			"reserved for the environment for 90 days, so that no one else can take over a URL that a provider still posts to.",
		IfMatch: true,
	}), h.delete)
	mountTest(api, h, op)
	mountSecrets(api, h, op)
	mountEnrolment(api, h, op)
}

type handlers struct {
	svc           *connections.Service
	links         *connecting.Service
	standingLinks connecting.StandingLinks
	tester        *connections.Tester
	renewer       connections.Renewer
	webhookBase   string
}

// Item identifies a connection in a path. It is exported because only exported embedded structs are documented.
type Item struct {
	// The key of the provider configuration.
	Provider string `path:"provider" example:"github"`
	// The id of the connection.
	ConnectionID string `path:"connection_id" example:"acme-production"`
}

type connectionOutput struct {
	httpapi.Versioned
	Body connection
}

// output returns what makes the response from the outcome of a rule.
func (h *handlers) output(ctx context.Context) func(c connections.Connection, err error) (*connectionOutput, error) {
	return func(c connections.Connection, err error) (*connectionOutput, error) {
		if err != nil {
			return nil, err
		}
		return &connectionOutput{Versioned: httpapi.Version(c.Version()), Body: h.view(ctx, c)}, nil
	}
}

type createInput struct{ Body creation }

type createOutput struct {
	httpapi.Versioned
	Status int
	// The path of the connection.
	Location string `header:"Location"`
	Body     connection
}

func (h *handlers) create(ctx context.Context, in *createInput) (*createOutput, error) {
	if in.Body.Connect.Set {
		return h.connect(ctx, in)
	}
	c, created, err := h.svc.Create(ctx, access.From(ctx), in.Body.domain())
	if err != nil {
		return nil, err
	}
	out := &createOutput{Versioned: httpapi.Version(c.Version()), Status: http.StatusOK,
		Body: h.view(ctx, c)}
	if created {
		out.Status = http.StatusCreated
		out.Location = location(&c)
	}
	return out, nil
}

type listInput struct {
	page.Query
	// Only connections of these provider configurations.
	Provider []string `query:"provider,explode" maxLength:"63" maxItems:"50" example:"github"`
	// Only connections with one of these statuses.
	Status []connections.Status `query:"status,explode" maxItems:"50"`
	// Only connections whose last test had one of these outcomes. A connection that was never tested has none.
	Health []probes.Status `query:"health,explode" maxItems:"50"`
	// Only connections whose credentials are for one of these modes of their provider's definition, or `none`.
	AuthMode []string `query:"auth_mode,explode" maxLength:"63" maxItems:"50" example:"oauth2"`
	// Only connections that belong to these members of the team.
	OwnerUserID []string `query:"owner_user_id,explode" maxLength:"63" maxItems:"50" example:"usr_06f3k2m9q0x8v4t7b5n1"`
	// Only connections that have all of these tags. Each is a parameter of its own: `tag.team=billing` requires the tag
	// `team` with the value `billing`. `tag[team]=billing`, as clients made from this document write it, means the same.
	Tag map[string]string `query:"tag,deepObject,explode" maxProperties:"10"`
	// Only connections whose id begins with this text.
	Q string `query:"q" maxLength:"255" pattern:"^[A-Za-z0-9._:@-]+$"`
}

// Check checks the filters.
func (in *listInput) Check(_ context.Context, v *apperr.Violations) {
	for i, key := range in.Provider {
		if !configs.ValidKey(key) {
			v.Add(fmt.Sprintf("query.provider[%d]", i), "pattern", "must be the key of a provider configuration")
		}
	}
	for i, user := range in.OwnerUserID {
		if !id.Is(id.PrefixUser, user) {
			v.Add(fmt.Sprintf("query.owner_user_id[%d]", i), "pattern", "must be the id of a user")
		}
	}
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]connections.Connection, error) {
	f := connections.Filter{ProviderConfigKeys: in.Provider, Prefix: in.Q, Statuses: in.Status,
		Health: in.Health, AuthModes: in.AuthMode, Owners: in.OwnerUserID}
	for _, key := range slices.Sorted(maps.Keys(in.Tag)) {
		f.Tags = append(f.Tags, connections.Tag{Key: key, Value: in.Tag[key]})
	}
	return h.svc.List(ctx, access.From(ctx).View(), f, p)
}

func (h *handlers) viewListed(ctx context.Context, c *connections.Connection) connection {
	return h.view(ctx, *c)
}

func (h *handlers) get(ctx context.Context, in *Item) (*connectionOutput, error) {
	view := access.From(ctx).View()
	c, err := h.svc.Get(ctx, view, in.Provider, in.ConnectionID)
	return h.output(ctx)(c, connections.Explain(ctx, h.svc, view.Environment, in.Provider, err))
}

type updateInput struct {
	Item
	Body Patch
}

func (h *handlers) update(ctx context.Context, in *updateInput) (*connectionOutput, error) {
	return h.output(ctx)(h.svc.Update(ctx, access.From(ctx), in.Provider, in.ConnectionID, in.Body.domain()))
}

func (h *handlers) delete(ctx context.Context, in *Item) (*struct{}, error) {
	_, err := h.renewer.Delete(ctx, access.From(ctx), in.Provider, in.ConnectionID)
	return nil, err
}

type operateInput struct {
	Item
	Body request
}

type operateOutput struct {
	httpapi.Versioned
	Body result
}

// result is the response of an operation: the connection, or a deletion.
type result struct {
	// version is that of the connection, without which the response has none.
	version    httpapi.Versioned
	connection *connection
	deletion   *deletion
}

// MarshalJSON writes the one that is set.
func (r result) MarshalJSON() ([]byte, error) {
	if r.deletion != nil {
		return json.Marshal(r.deletion)
	}
	return json.Marshal(r.connection)
}

// Schema returns a schema of either.
func (result) Schema(r oas.Registry) *oas.Schema {
	return &oas.Schema{OneOf: []*oas.Schema{oas.Ref[connection](r), oas.Ref[deletion](r)}}
}

// operation runs an operation on a connection.
type operation func(ctx context.Context, h *handlers, in *Item) (result, error)

// operations returns the operations by their names in the API.
func operations() map[string]operation {
	set := func(status connections.Status) operation {
		return func(ctx context.Context, h *handlers, in *Item) (result, error) {
			return h.result(ctx)(h.svc.SetStatus(ctx, access.From(ctx), in.Provider, in.ConnectionID, status))
		}
	}
	return map[string]operation{
		"disable": set(connections.Disabled),
		"enable":  set(connections.Active),
		"rotate_webhook_path": func(ctx context.Context, h *handlers, in *Item) (result, error) {
			return h.result(ctx)(h.svc.RotatePath(ctx, access.From(ctx), in.Provider, in.ConnectionID))
		},
		"delete": func(ctx context.Context, h *handlers, in *Item) (result, error) {
			r, err := h.renewer.Delete(ctx, access.From(ctx), in.Provider, in.ConnectionID)
			return ended(true, r, err)
		},
		"revoke": func(ctx context.Context, h *handlers, in *Item) (result, error) {
			r, err := h.renewer.Revoke(ctx, access.From(ctx), in.Provider, in.ConnectionID)
			return ended(false, r, err)
		},
		"refresh": func(ctx context.Context, h *handlers, in *Item) (result, error) {
			return h.result(ctx)(h.renewer.Refresh(ctx, access.From(ctx), in.Provider, in.ConnectionID))
		},
	}
}

// ended is the result of a deletion or a revocation.
func ended(deleted bool, r connections.Revocation, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	return result{deletion: &deletion{Deleted: deleted, UpstreamRevoked: r.Upstream,
		Reason: httpapi.NullIfEmpty(r.Reason)}}, nil
}

// result returns what makes the response from the outcome of an operation.
func (h *handlers) result(ctx context.Context) func(c connections.Connection, err error) (result, error) {
	return func(c connections.Connection, err error) (result, error) {
		if err != nil {
			return result{}, err
		}
		v := h.view(ctx, c)
		return result{connection: &v, version: httpapi.Version(c.Version())}, nil
	}
}

func (h *handlers) operate(ctx context.Context, in *operateInput) (*operateOutput, error) {
	if name := in.Body.Operation.Pointer(); name != nil && *name == opReconnect {
		return h.reconnect(ctx, in)
	} else if name != nil {
		r, err := operations()[*name](ctx, h, &in.Item)
		if err != nil {
			return nil, err
		}
		return &operateOutput{Versioned: r.version, Body: r}, nil
	}
	r, err := h.result(ctx)(h.svc.Update(ctx, access.From(ctx), in.Provider, in.ConnectionID, in.Body.domain()))
	if err != nil {
		return nil, err
	}
	return &operateOutput{Versioned: r.version, Body: r}, nil
}
