package connectionshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/providers/limiter"
)

type rateLimit struct {
	// Whether requests can be sent:
	//
	// - `ok`: they can.
	// - `limited`: the provider wants no request until `reset_at`.
	State limitState `json:"state"`
	// The number of requests of a whole window; `null` if the provider does not say it.
	Limit *int64 `json:"limit"`
	// How many of them are left; `null` if the provider does not say it.
	Remaining *int64 `json:"remaining"`
	// When the window ends, or requests can be sent again; `null` if it is not known or over.
	ResetAt *httpapi.Time `json:"reset_at" nullable:"true" example:"2026-12-24T18:00:00.000Z"`
}

// limitState is a state of a rate limit.
type limitState string

const (
	limitOK limitState = "ok"
	limited limitState = "limited"
)

// Schema returns the schema with the states.
func (limitState) Schema(oas.Registry) *oas.Schema { return oas.Enum([]limitState{limitOK, limited}) }

func viewRateLimit(s *limiter.State) (out httpapi.OrNull[rateLimit]) {
	if s == nil {
		return out
	}
	out.Value = &rateLimit{State: limitOK}
	if s.Limited {
		out.Value.State = limited
	}
	if !s.ResetAt.IsZero() {
		out.Value.ResetAt = (*httpapi.Time)(&s.ResetAt)
	}
	if s.Limit > 0 {
		out.Value.Limit = &s.Limit
	}
	if s.Remaining >= 0 {
		out.Value.Remaining = &s.Remaining
	}
	return out
}
