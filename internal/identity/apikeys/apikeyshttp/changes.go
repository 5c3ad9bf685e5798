package apikeyshttp

import (
	"context"
	"time"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/ratelimit"
)

type updateInput struct {
	// The id of the key.
	ID   string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body keyPatch
}

type keyPatch struct {
	// A display name for the key; no control characters. Default: unchanged.
	Name patch.Optional[string] `json:"name,omitempty" minLength:"1" maxLength:"100" example:"billing service"`
	// When the key stops working; in the future. A new time makes an expired key work again. Default: unchanged.
	ExpiresAt patch.Optional[httpapi.Time] `json:"expires_at,omitempty" example:"2027-01-31T00:00:00.000Z"`
	// The networks that requests with the key may come from, in CIDR notation. They replace the present ones; `null`
	// allows all. Default: unchanged.
	SourceCIDRs patch.Field[[]string] `json:"source_cidrs,omitempty" minItems:"1" maxItems:"50" example:"[\"192.0.2.0/24\"]"`
	// The rate limit of the key. `null` means the service's limit for each key. Default: unchanged.
	RateLimit patch.Field[keyRate] `json:"rate_limit,omitempty"`
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

// Check adds the errors of what the schema accepts.
func (p *keyPatch) Check(ctx context.Context, v *apperr.Violations) {
	c := p.change()
	c.Rate = nil // the schema has all its rules
	if p.Name.Value == "" {
		c.Name = nil // the schema has this error, or the name stays
	}
	v.AddAll(c.Violations(httpapi.RequestTime(ctx)))
}

type rotateInput struct {
	// The id of the key.
	ID   string       `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body *keyRotation // absent means {}
}

type keyRotation struct {
	// How long, in seconds, the old secret works alongside the new one. 0 ends all old secrets immediately. Default 86400,
	// a day.
	OverlapSeconds patch.Optional[int64] `json:"overlap_seconds,omitempty" minimum:"0" maximum:"2592000" example:"3600"`
}

type rotateOutput struct {
	httpapi.Versioned
	// Always `no-store`.
	CacheControl string `header:"Cache-Control"`
	Body         APIKeyCreated
}

func (h *handlers) update(ctx context.Context, in *updateInput) (*keyOutput, error) {
	return respondKey(ctx)(h.svc.UpdateKey(ctx, access.From(ctx), in.ID, in.Body.change()))
}

// respondKey returns the response with a key that an operation returns.
func respondKey(ctx context.Context) func(apikeys.Key, error) (*keyOutput, error) {
	return func(k apikeys.Key, err error) (*keyOutput, error) {
		if err != nil {
			return nil, err
		}
		return &keyOutput{Versioned: httpapi.Version(k.Version()), Body: viewKey(k, httpapi.RequestTime(ctx))}, nil
	}
}

func (h *handlers) rotate(ctx context.Context, in *rotateInput) (*rotateOutput, error) {
	overlap := apikeys.DefaultOverlap
	if in.Body != nil && in.Body.OverlapSeconds.Set {
		overlap = time.Duration(in.Body.OverlapSeconds.Value) * time.Second
	}
	k, secret, err := h.svc.RotateKey(ctx, access.From(ctx), in.ID, overlap)
	if err != nil {
		return nil, err
	}
	return &rotateOutput{Versioned: httpapi.Version(k.Version()), CacheControl: "no-store",
		Body: APIKeyCreated{APIKey: viewKey(k, httpapi.RequestTime(ctx)), Key: secret.Reveal()}}, nil
}

func (h *handlers) disable(ctx context.Context, in *keyInput) (*keyOutput, error) {
	return respondKey(ctx)(h.svc.DisableKey(ctx, access.From(ctx), in.ID))
}

func (h *handlers) enable(ctx context.Context, in *keyInput) (*keyOutput, error) {
	return respondKey(ctx)(h.svc.EnableKey(ctx, access.From(ctx), in.ID))
}

func (h *handlers) revoke(ctx context.Context, in *keyInput) (*keyOutput, error) {
	return respondKey(ctx)(h.svc.RevokeKey(ctx, access.From(ctx), in.ID))
}
