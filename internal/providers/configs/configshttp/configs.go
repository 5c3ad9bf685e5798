// Package configshttp serves provider configurations over HTTP.
package configshttp

import (
	"context"
	"fmt"
	"net/http"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/configs"
)

const (
	tag            = "Provider configurations"
	collectionPath = "/provider-configs"
	itemPath       = collectionPath + "/{provider_config_key}"
)

type handlers struct {
	svc       *configs.Service
	publicURL string
}

// mount adds the operations on provider configurations to the API.
func mount(api *httpapi.API, svc *configs.Service, publicURL string) {
	h := &handlers{svc: svc, publicURL: publicURL}
	op := func(o httpapi.Operation) httpapi.Operation {
		o.Tag, o.Environment = tag, true
		if o.Permission == "" {
			o.Permission = access.ConfigsWrite
		}
		return o
	}
	httpapi.Register(api, op(httpapi.Operation{
		ID: "create-provider-config", Method: http.MethodPost, Path: collectionPath, Status: http.StatusCreated,
		Summary: "Create a provider configuration",
		Example: `{"provider": "github", "provider_config_key": "github-eu", "display_name": "GitHub of the European unit"}`,
		Description: "Creates a provider configuration in an environment. Connections name its key as their provider. The " +
			"slug of each provider is a key that works without a provider configuration; create one with that key to set " +
			"anything.",
		Errors: []apperr.Code{apperr.CodeProviderConfigExists, apperr.CodeProviderConfigsLimit},
	}), h.create)
	httpapi.RegisterList(api, op(httpapi.Operation{
		ID: "list-provider-configs", Method: http.MethodGet, Path: collectionPath, Status: http.StatusOK,
		Permission:  access.ConfigsRead,
		Summary:     "List provider configurations",
		Description: "Lists the environment's provider configurations, newest first, without their secrets.",
	}), httpapi.List[listInput, configs.Config, providerConfig]{Rows: h.list, View: h.viewListed,
		Key: func(c *configs.Config) string { return c.ID }, IsKey: id.IsUUID})
	httpapi.Register(api, op(httpapi.Operation{
		ID: "get-provider-config", Method: http.MethodGet, Path: itemPath, Status: http.StatusOK,
		Permission: access.ConfigsRead,
		Summary:    "Get a provider configuration",
		Description: "Returns a provider configuration without its secrets. The slug of a provider for which none was " +
			"created is not found, although connections can use it.",
	}), h.get)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "update-provider-config", Method: http.MethodPatch, Path: itemPath, Status: http.StatusOK,
		Summary: "Update a provider configuration",
		Example: `{"display_name": "GitHub of the European unit"}`,
		Description: "Applies a merge patch (RFC 7396): absent fields stay, and `null` clears a field that can be " +
			"cleared. A new `client_secret` replaces the old one without a gap.",
		IfMatch: true,
	}), h.update)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "delete-provider-config", Method: http.MethodDelete, Path: itemPath, Status: http.StatusNoContent,
		Summary: "Delete a provider configuration",
		Description: "Deletes a provider configuration and its secrets. One that connections belong to cannot be deleted; " +
			"the message has their number.",
		Errors: []apperr.Code{apperr.CodeProviderConfigInUse}, IfMatch: true,
		Messages: map[apperr.Code][]string{apperr.CodeProviderConfigInUse: {
			"1 connection belongs to the provider configuration; delete it first",
			"3 connections belong to the provider configuration; delete them first",
		}},
	}), h.delete)
}

// Item identifies a provider configuration in a path. It is exported because only exported embedded structs are
// documented.
type Item struct {
	// The key of the provider configuration.
	Key string `path:"provider_config_key" example:"github-eu"`
}

type output struct {
	httpapi.Versioned
	Body providerConfig
}

type createInput struct{ Body creation }

type createOutput struct {
	httpapi.Versioned
	// The path of the provider configuration.
	Location string `header:"Location"`
	Body     providerConfig
}

func (h *handlers) create(ctx context.Context, in *createInput) (*createOutput, error) {
	c, err := h.svc.Create(ctx, access.From(ctx), in.Body.domain())
	if err != nil {
		return nil, err
	}
	return &createOutput{Versioned: httpapi.Version(c.Version()), Body: h.view(&c),
		Location: httpapi.Prefix + collectionPath + "/" + c.Key}, nil
}

type listInput struct {
	page.Query
	// Only configurations of these providers.
	Provider []string `query:"provider,explode" maxLength:"63" maxItems:"50" example:"github"`
	// Only provider configurations whose key begins with this text.
	Q string `query:"q" maxLength:"63" pattern:"^[a-z0-9-]+$"`
}

// Check checks the filters.
func (in *listInput) Check(_ context.Context, v *apperr.Violations) {
	for i, slug := range in.Provider {
		if !configs.ValidKey(slug) {
			v.Add(fmt.Sprintf("query.provider[%d]", i), "pattern", "must be the slug of a provider")
		}
	}
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]configs.Config, error) {
	return h.svc.List(ctx, access.From(ctx).Environment, configs.Filter{Providers: in.Provider, Prefix: in.Q}, p)
}

func (h *handlers) viewListed(_ context.Context, c *configs.Config) providerConfig { return h.view(c) }

func (h *handlers) get(ctx context.Context, in *Item) (*output, error) {
	return h.respond(h.svc.Get(ctx, access.From(ctx).Environment, in.Key))
}

type updateInput struct {
	Item
	Body Patch
}

func (h *handlers) update(ctx context.Context, in *updateInput) (*output, error) {
	return h.respond(h.svc.Update(ctx, access.From(ctx), in.Key, in.Body.domain()))
}

func (h *handlers) delete(ctx context.Context, in *Item) (*struct{}, error) {
	return nil, h.svc.Delete(ctx, access.From(ctx), in.Key)
}

func (h *handlers) respond(c configs.Config, err error) (*output, error) {
	if err != nil {
		return nil, err
	}
	return &output{Versioned: httpapi.Version(c.Version()), Body: h.view(&c)}, nil
}
