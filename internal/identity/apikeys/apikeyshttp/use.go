package apikeyshttp

import (
	"context"
	"time"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
)

type usageInput struct {
	// The id of the key.
	ID string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The length of a bucket: an hour, or a UTC day. Default `day`.
	Bucket apikeys.UsageBucket `query:"bucket" default:"day" example:"hour"`
	// The start of the range, rounded down to a whole bucket. At most 31 days before the end by hour and 90 days by day.
	// Default: 24 hours before the end by hour, 30 days by day.
	From patch.Optional[httpapi.Time] `query:"from" example:"2026-11-01T00:00:00.000Z"`
	// The end of the range, rounded up to a whole bucket. Default: now.
	To patch.Optional[httpapi.Time] `query:"to" example:"2026-11-02T00:00:00.000Z"`
}

func (in *usageInput) request() apikeys.UsageRequest {
	return apikeys.UsageRequest{From: (*time.Time)(in.From.Pointer()), To: (*time.Time)(in.To.Pointer()),
		Bucket: in.Bucket}
}

// Check adds the errors of a range that the schema accepts.
func (in *usageInput) Check(ctx context.Context, v *apperr.Violations) {
	v.At("query").AddAll(in.request().Violations(httpapi.RequestTime(ctx)))
}

type usageOutput struct{ Body keyUsage }

// keyUsage is how a key was used.
type keyUsage struct {
	// The start of the range.
	From httpapi.Time `json:"from" example:"2026-11-01T00:00:00.000Z"`
	// The end of the range, exclusive.
	To httpapi.Time `json:"to" example:"2026-12-01T00:00:00.000Z"`
	// The length of a bucket.
	Bucket apikeys.UsageBucket `json:"bucket" example:"day"`
	// The number of requests in the whole range.
	Total int64 `json:"total" example:"1204"`
	// The buckets with at least one request, oldest first.
	Buckets []usageBucket `json:"buckets"`
}

type usageBucket struct {
	// The start of the bucket.
	Start httpapi.Time `json:"start" example:"2026-11-02T00:00:00.000Z"`
	// The requests of the bucket, by route and outcome.
	Counts []usageCount `json:"counts"`
}

type usageCount struct {
	// The route that the requests needed.
	Route access.Route `json:"route" example:"webhooks"`
	// The outcome of the requests:
	// - `succeeded`: the request succeeded.
	// - `denied`: a grant was missing.
	// - `limited`: a rate limit was exceeded.
	// - `refused`: any other 4xx status code.
	// - `failed`: a 5xx status code.
	Outcome apikeys.UseOutcome `json:"outcome" example:"succeeded"`
	// The number of requests.
	Requests int64 `json:"requests" example:"120"`
}

func (h *handlers) usage(ctx context.Context, in *usageInput) (*usageOutput, error) {
	u, err := h.svc.KeyUsage(ctx, access.From(ctx), in.ID, in.request())
	if err != nil {
		return nil, err
	}
	out := keyUsage{From: httpapi.TimeMillis(u.FromMillis), To: httpapi.TimeMillis(u.ToMillis), Bucket: in.Bucket,
		Buckets: make([]usageBucket, 0, len(u.Parts))}
	for _, p := range u.Parts {
		b := usageBucket{Start: httpapi.TimeMillis(p.StartMillis)}
		for _, c := range p.Counts {
			b.Counts = append(b.Counts, usageCount{c.Route, c.Outcome, c.Requests})
			out.Total += c.Requests
		}
		out.Buckets = append(out.Buckets, b)
	}
	return &usageOutput{Body: out}, nil
}

type verifyInput struct{ Body keyText }

type keyText struct {
	// The text to check.
	Key string `json:"key" writeOnly:"true" minLength:"1" maxLength:"256" example:"spk_test_4fZk01Qw8x_EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLEk3Vd_CHECKSUM"`
}

type verifyOutput struct {
	// Always `no-store`.
	CacheControl string `header:"Cache-Control"`
	Body         keyVerification
}

// keyVerification describes a text.
type keyVerification struct {
	// Whether the text is a key of the team that works now if it is used from an allowed network.
	Valid bool `json:"valid" example:"true"`
	// The secret of the key that the text contains: `current`, or `previous` for the secret before the last rotation while
	// it works. `null` if the text is not a key of the team.
	Generation httpapi.OrNull[generation] `json:"generation"`
	// The key, also if it is disabled, revoked or expired; `null` if the text is not a key of the team.
	Match httpapi.OrNull[APIKey] `json:"match"`
}

// generation is the secret of a key that a text contains.
type generation string

const (
	currentSecret  generation = "current"
	previousSecret generation = "previous"
)

// Schema returns the schema with the generations.
func (generation) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]generation{currentSecret, previousSecret})
}

func (h *handlers) verify(ctx context.Context, in *verifyInput) (*verifyOutput, error) {
	v, err := h.svc.VerifyKey(ctx, access.From(ctx), secretbox.Secret(in.Body.Key))
	if err != nil {
		return nil, err
	}
	out := keyVerification{Valid: v.Works}
	if v.Key != nil {
		k, which := viewKey(*v.Key, httpapi.RequestTime(ctx)), currentSecret
		if v.Previous {
			which = previousSecret
		}
		out.Match.Value, out.Generation.Value = &k, &which
	}
	return &verifyOutput{CacheControl: "no-store", Body: out}, nil
}
