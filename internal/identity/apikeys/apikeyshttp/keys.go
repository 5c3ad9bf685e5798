package apikeyshttp

import (
	"context"
	"slices"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

type createInput struct {
	Body newAPIKey
}

// Check adds the errors of what the schema accepts.
func (n *newAPIKey) Check(ctx context.Context, v *apperr.Violations) {
	in := n.input()
	in.Rate = nil // the schema has all its rules
	v.AddAll(slices.DeleteFunc(in.Violations(httpapi.RequestTime(ctx)), func(d apperr.Detail) bool {
		return d.Location == "name" && n.Name == "" // the schema has this error
	}))
}

type createOutput struct {
	httpapi.Versioned
	// Always `no-store`.
	CacheControl string `header:"Cache-Control"`
	// The path of the new key.
	Location string `header:"Location"`
	Body     APIKeyCreated
}

type listInput struct {
	page.Query
	// Only keys of these environments. Default: all environments of the team.
	EnvironmentID []string `query:"environment_id,explode" maxItems:"50" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type keyInput struct {
	// The id of the key.
	ID string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type keyOutput struct {
	httpapi.Versioned
	Body APIKey
}

func (h *handlers) create(ctx context.Context, in *createInput) (*createOutput, error) {
	k, secret, err := h.svc.CreateKey(ctx, access.From(ctx), in.Body.input())
	if err != nil {
		return nil, err
	}
	return &createOutput{
		Versioned: httpapi.Version(k.Version()), CacheControl: "no-store", Location: httpapi.Prefix + "/api-keys/" + k.ID,
		Body: APIKeyCreated{APIKey: viewKey(k, httpapi.RequestTime(ctx)), Key: secret.Reveal()},
	}, nil
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]apikeys.Key, error) {
	return h.svc.ListKeys(ctx, access.From(ctx),
		httpapi.ConvertAll[id.Environment](httpapi.Distinct(in.EnvironmentID)), p)
}

func viewListed(ctx context.Context, k *apikeys.Key) APIKey {
	return viewKey(*k, httpapi.RequestTime(ctx))
}

func (h *handlers) get(ctx context.Context, in *keyInput) (*keyOutput, error) {
	return respondKey(ctx)(h.svc.GetKey(ctx, access.From(ctx), in.ID))
}

func (h *handlers) delete(ctx context.Context, in *keyInput) (*struct{}, error) {
	return nil, h.svc.DeleteKey(ctx, access.From(ctx), in.ID)
}
