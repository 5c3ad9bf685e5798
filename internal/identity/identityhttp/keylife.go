package identityhttp

import (
	"context"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/ratelimit"
)

type updateKeyInput struct {
	// The id of the key.
	ID   string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body keyPatch
}

type keyPatch struct {
	// A display name for the key; no control characters. Default: unchanged.
	Name httpapi.Optional[string] `json:"name,omitempty" minLength:"1" maxLength:"100" example:"billing service"`
	// When the key stops working; in the future. A new time makes an expired key work again. Default: unchanged.
	ExpiresAt httpapi.Optional[httpapi.Time] `json:"expires_at,omitempty" example:"2027-01-31T00:00:00.000Z"`
	// The networks that requests with the key may come from, in CIDR notation. They replace the present ones; `null`
	// allows all. Default: unchanged.
	SourceCIDRs httpapi.Nullable[[]string] `json:"source_cidrs,omitempty" minItems:"1" maxItems:"50" example:"[\"192.0.2.0/24\"]"`
	// The rate limit of the key. `null` means the service's limit for each key. Default: unchanged.
	RateLimit httpapi.Nullable[keyRate] `json:"rate_limit,omitempty"`
}

func (p *keyPatch) change() apikeys.KeyChange {
	c := apikeys.KeyChange{Name: p.Name.Pointer()}
	if p.ExpiresAt.Set {
		c.ExpiresMillis = p.ExpiresAt.Value.MillisPtr()
	}
	if p.SourceCIDRs.Set {
		c.SourceCIDRs = &p.SourceCIDRs.Value
		if p.SourceCIDRs.Null {
			c.SourceCIDRs = new([]string(nil))
		}
	}
	if p.RateLimit.Set {
		c.Rate = new(p.RateLimit.Value.limit())
		if p.RateLimit.Null {
			c.Rate = new((*ratelimit.Limit)(nil))
		}
	}
	return c
}

// Resolve adds what the schema cannot say to its validation errors, so that all come in one answer.
func (p *keyPatch) Resolve(ctx huma.Context, prefix *huma.PathBuffer) []error {
	c := p.change()
	c.Rate = nil // the schema says all about it
	if p.Name.Value == "" {
		c.Name = nil // the schema says so, or the name stays
	}
	return violationsAt(prefix.String(), c.Violations(httpapi.RequestTime(ctx.Context())))
}

type rotateKeyInput struct {
	// The id of the key.
	ID   string       `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body *keyRotation // absent means {}
}

type keyRotation struct {
	// How long, in seconds, the old secret works alongside the new one. 0 ends all old secrets immediately. Default 86400,
	// a day.
	OverlapSeconds httpapi.Optional[int64] `json:"overlap_seconds,omitempty" minimum:"0" maximum:"2592000" example:"3600"`
}

type rotateKeyOutput struct {
	// Always `no-store`.
	CacheControl string `header:"Cache-Control"`
	Body         APIKeyCreated
}

func (h handler) updateKey(ctx context.Context, in *updateKeyInput) (*keyOutput, error) {
	return keyAnswer(ctx, func(actor access.Principal) (apikeys.Key, error) {
		return h.identity.Keys.UpdateKey(ctx, actor, in.ID, in.Body.change())
	})
}

// keyAnswer answers with the key that an operation returns.
func keyAnswer(ctx context.Context, operate func(access.Principal) (apikeys.Key, error)) (*keyOutput, error) {
	k, err := operate(access.From(ctx))
	if err != nil {
		return nil, err
	}
	return &keyOutput{Body: keyOf(k, httpapi.RequestTime(ctx))}, nil
}

func (h handler) rotateKey(ctx context.Context, in *rotateKeyInput) (*rotateKeyOutput, error) {
	overlap := apikeys.DefaultOverlap
	if in.Body != nil && in.Body.OverlapSeconds.Set {
		overlap = time.Duration(in.Body.OverlapSeconds.Value) * time.Second
	}
	k, secret, err := h.identity.Keys.RotateKey(ctx, access.From(ctx), in.ID, overlap)
	if err != nil {
		return nil, err
	}
	return &rotateKeyOutput{CacheControl: noStore, Body: APIKeyCreated{APIKey: keyOf(k, httpapi.RequestTime(ctx)),
		Key: secret.Reveal()}}, nil
}

func (h handler) disableKey(ctx context.Context, in *keyInput) (*keyOutput, error) {
	return keyAnswer(ctx, func(actor access.Principal) (apikeys.Key, error) {
		return h.identity.Keys.DisableKey(ctx, actor, in.ID)
	})
}

func (h handler) enableKey(ctx context.Context, in *keyInput) (*keyOutput, error) {
	return keyAnswer(ctx, func(actor access.Principal) (apikeys.Key, error) {
		return h.identity.Keys.EnableKey(ctx, actor, in.ID)
	})
}

func (h handler) revokeKey(ctx context.Context, in *keyInput) (*keyOutput, error) {
	return keyAnswer(ctx, func(actor access.Principal) (apikeys.Key, error) {
		return h.identity.Keys.RevokeKey(ctx, actor, in.ID)
	})
}

type listGrantsInput struct {
	// The id of the key.
	ID string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	page.Query
	url url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *listGrantsInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type listGrantsOutput struct {
	page.Headers
	Body []grant
}

func (h handler) listGrants(ctx context.Context, in *listGrantsInput) (*listGrantsOutput, error) {
	actor := access.From(ctx)
	r, err := in.Parse("api-key-grants\x00"+string(actor.Team)+"\x00"+in.ID, func(key string) bool {
		return id.Is(id.PrefixGrant, key)
	})
	if err != nil {
		return nil, err
	}
	list, err := h.identity.Keys.ListGrants(ctx, actor, in.ID, r)
	if err != nil {
		return nil, err
	}
	list, headers := page.Cut(r, list, func(g apikeys.Grant) string { return g.ID }, in.url.Path, in.url.Query())
	return &listGrantsOutput{Headers: headers, Body: grantsOf(list)}, nil
}

type createGrantInput struct {
	// The id of the key.
	ID   string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body grantBody
}

// grantBody is a grant that comes alone.
type grantBody newGrant

// Resolve adds what the schema cannot say to its validation errors, so that all come in one answer.
func (g *grantBody) Resolve(ctx huma.Context, prefix *huma.PathBuffer) []error {
	return violationsAt(prefix.String(), apikeys.GrantViolations(newGrant(*g).input(), httpapi.RequestTime(ctx.Context())))
}

type createGrantOutput struct {
	// The path of the grant.
	Location string `header:"Location"`
	Body     grant
}

func (h handler) createGrant(ctx context.Context, in *createGrantInput) (*createGrantOutput, error) {
	g, err := h.identity.Keys.AddGrant(ctx, access.From(ctx), in.ID, newGrant(in.Body).input())
	if err != nil {
		return nil, err
	}
	return &createGrantOutput{Location: httpapi.Prefix + "/api-keys/" + in.ID + "/grants/" + g.ID, Body: grantOf(g)}, nil
}

type grantInput struct {
	// The id of the key.
	ID string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The id of the grant.
	GrantID string `path:"grant_id" example:"grt_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

func (h handler) deleteGrant(ctx context.Context, in *grantInput) (*struct{}, error) {
	return nil, h.identity.Keys.RemoveGrant(ctx, access.From(ctx), in.ID, in.GrantID)
}
