package identityhttp

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

type keyUsageInput struct {
	// The key's id.
	ID string `path:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The length of a bucket: an hour, or a day of UTC.
	Bucket string `query:"bucket" enum:"hour,day" default:"day" example:"hour"`
	// Where the range begins; widened to a whole bucket. At most 31 days before its end by the hour, 90 by the day.
	// Default 24 hours before its end by the hour, 30 days by the day.
	From httpapi.Optional[httpapi.Time] `query:"from" example:"2026-11-01T00:00:00.000Z"`
	// Where the range ends; widened to a whole bucket. Default now.
	To httpapi.Optional[httpapi.Time] `query:"to" example:"2026-11-02T00:00:00.000Z"`
}

func (in *keyUsageInput) request() identity.UsageRequest {
	return identity.UsageRequest{From: (*time.Time)(in.From.Pointer()), To: (*time.Time)(in.To.Pointer()),
		Bucket: identity.UsageBucket(in.Bucket)}
}

// Resolve checks what the schema cannot say.
func (in *keyUsageInput) Resolve(ctx huma.Context) []error {
	return faultsAt("query", in.request().Faults(httpapi.RequestTime(ctx.Context())))
}

type keyUsageOutput struct{ Body keyUsage }

// keyUsage is how a key was used.
type keyUsage struct {
	// Where the range begins.
	From httpapi.Time `json:"from" example:"2026-11-01T00:00:00.000Z"`
	// Where the range ends; it is not part of it.
	To httpapi.Time `json:"to" example:"2026-12-01T00:00:00.000Z"`
	// The length of a bucket.
	Bucket string `json:"bucket" enum:"hour,day" example:"day"`
	// The requests of the whole range.
	Total int64 `json:"total" example:"1204"`
	// The buckets in which there were requests, oldest first.
	Buckets []usageBucket `json:"buckets"`
}

type usageBucket struct {
	// Where the bucket begins.
	Start httpapi.Time `json:"start" example:"2026-11-02T00:00:00.000Z"`
	// The requests of the bucket, by route and outcome.
	Counts []usageCount `json:"counts"`
}

type usageCount struct {
	// The route that the requests needed.
	Route route `json:"route" example:"webhooks"`
	// How they ended. denied: for want of a grant. limited: there were too many. refused: any other status of 4xx. failed:
	// a status of 5xx.
	Outcome useOutcome `json:"outcome" example:"succeeded"`
	// How many there were.
	Requests int64 `json:"requests" example:"120"`
}

type useOutcome identity.UseOutcome

// Schema lists the outcomes.
func (useOutcome) Schema(huma.Registry) *huma.Schema { return enum(identity.UseOutcomes()) }

func (h handler) keyUsage(ctx context.Context, in *keyUsageInput) (*keyUsageOutput, error) {
	u, err := h.identity.KeyUsage(ctx, access.From(ctx), in.ID, in.request())
	if err != nil {
		return nil, err
	}
	out := keyUsage{From: httpapi.TimeMillis(u.FromMillis), To: httpapi.TimeMillis(u.ToMillis), Bucket: in.Bucket,
		Buckets: make([]usageBucket, 0, len(u.Parts))}
	for _, p := range u.Parts {
		b := usageBucket{Start: httpapi.TimeMillis(p.StartMillis)}
		for _, c := range p.Counts {
			b.Counts = append(b.Counts, usageCount{route(c.Route), useOutcome(c.Outcome), c.Requests})
			out.Total += c.Requests
		}
		out.Buckets = append(out.Buckets, b)
	}
	return &keyUsageOutput{Body: out}, nil
}

type verifyKeyInput struct{ Body keyText }

type keyText struct {
	// The text.
	Key string `json:"key" writeOnly:"true" minLength:"1" maxLength:"256" example:"spk_test_4fZk01Qw8x_EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLEk3Vd_CHECKSUM"`
}

type verifyKeyOutput struct {
	// Always no-store.
	CacheControl string `header:"Cache-Control"`
	Body         keyVerification
}

// keyVerification is what a text is.
type keyVerification struct {
	// Whether the text is a key of the team that works now, from where it may be used.
	Valid bool `json:"valid" example:"true"`
	// Which secret of the key the text has: current, or previous, the one before the last rotation, while that works. Null
	// where it is no key of the team.
	Generation httpapi.OrNull[generation] `json:"generation"`
	// The key, also where it is disabled, revoked or expired; null where the text is no key of the team.
	Match httpapi.OrNull[APIKey] `json:"match"`
}

// generation says which of a key's secrets a text has.
type generation string

const (
	currentSecret  generation = "current"
	previousSecret generation = "previous"
)

// Schema lists the generations.
func (generation) Schema(huma.Registry) *huma.Schema {
	return enum([]generation{currentSecret, previousSecret})
}

func (h handler) verifyKey(ctx context.Context, in *verifyKeyInput) (*verifyKeyOutput, error) {
	v, err := h.identity.VerifyKey(ctx, access.From(ctx), secretbox.Secret(in.Body.Key))
	if err != nil {
		return nil, err
	}
	out := keyVerification{Valid: v.Works}
	if v.Key != nil {
		k, which := keyOf(*v.Key, httpapi.RequestTime(ctx)), currentSecret
		if v.Previous {
			which = previousSecret
		}
		out.Match.Value, out.Generation.Value = &k, &which
	}
	return &verifyKeyOutput{CacheControl: noStore, Body: out}, nil
}
