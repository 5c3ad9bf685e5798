package identityhttp

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

type createKeyInput struct {
	Body newAPIKey
}

// Resolve adds what the schema cannot say to its validation errors, so that all come in one answer.
func (n *newAPIKey) Resolve(ctx huma.Context, prefix *huma.PathBuffer) []error {
	in := n.input()
	in.Rate = nil // the schema says all about it
	violations := slices.DeleteFunc(in.Violations(httpapi.RequestTime(ctx.Context())), func(d apperr.Detail) bool {
		return d.Location == "name" && n.Name == "" // the schema says so, unless there is no body to speak of
	})
	return violationsAt(prefix.String(), violations)
}

type createKeyOutput struct {
	// Always `no-store`.
	CacheControl string `header:"Cache-Control"`
	// The path of the new key.
	Location string `header:"Location"`
	Body     APIKeyCreated
}

type listKeysInput struct {
	page.Query
	// Only keys of these environments. Default: all environments of the team.
	EnvironmentID []string `query:"environment_id,explode" maxItems:"50" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	url           url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *listKeysInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type listKeysOutput struct {
	page.Headers
	Body []APIKey
}

type keyInput struct {
	// The id of the key.
	ID string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type keyOutput struct {
	Body APIKey
}

func (h handler) createKey(ctx context.Context, in *createKeyInput) (*createKeyOutput, error) {
	k, secret, err := h.identity.Keys.CreateKey(ctx, access.From(ctx), in.Body.input())
	if err != nil {
		return nil, err
	}
	return &createKeyOutput{
		CacheControl: noStore, Location: httpapi.Prefix + "/api-keys/" + k.ID,
		Body: APIKeyCreated{APIKey: keyOf(k, httpapi.RequestTime(ctx)), Key: secret.Reveal()},
	}, nil
}

func (h handler) listKeys(ctx context.Context, in *listKeysInput) (*listKeysOutput, error) {
	actor := access.From(ctx)
	environments := slices.Compact(slices.Sorted(slices.Values(in.EnvironmentID)))
	scope := "api-keys\x00" + string(actor.Team) + "\x00" + strings.Join(environments, ",")
	r, err := in.Parse(scope, func(key string) bool { return id.Is(id.PrefixAPIKey, key) })
	if err != nil {
		return nil, err
	}
	keys, err := h.identity.Keys.ListKeys(ctx, actor, convert[id.Environment](environments), r)
	if err != nil {
		return nil, err
	}
	keys, headers := page.Cut(r, keys, func(k apikeys.Key) string { return k.ID }, in.url.Path, in.url.Query())
	out := &listKeysOutput{Headers: headers, Body: make([]APIKey, 0, len(keys))}
	for _, k := range keys {
		out.Body = append(out.Body, keyOf(k, httpapi.RequestTime(ctx)))
	}
	return out, nil
}

func (h handler) getKey(ctx context.Context, in *keyInput) (*keyOutput, error) {
	k, err := h.identity.Keys.GetKey(ctx, access.From(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &keyOutput{Body: keyOf(k, httpapi.RequestTime(ctx))}, nil
}

func (h handler) deleteKey(ctx context.Context, in *keyInput) (*struct{}, error) {
	return nil, h.identity.Keys.DeleteKey(ctx, access.From(ctx), in.ID)
}
