package httpapi

import (
	"net/http"
	"net/netip"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/ratelimit"
)

// Limits are how often operations may be called. The zero Limits limit nothing.
type Limits struct {
	Limiter *ratelimit.Limiter
	// Key and User hold for each API key that has no limit of its own, and for each user.
	Key, User ratelimit.Limit
	// Address holds for requests that nobody is known to make: those to public operations, and those whose credential is
	// missing or refused. Whoever is known is not counted by address.
	Address ratelimit.Limit
}

// of returns whose requests are counted, and how many may pass.
func (l Limits) of(p access.Principal, address netip.Addr) (ratelimit.Bucket, ratelimit.Limit) {
	switch p.Kind {
	case access.KindAPIKey:
		if p.Rate != nil {
			return ratelimit.Bucket{Kind: ratelimit.APIKey, ID: p.ID}, *p.Rate
		}
		return ratelimit.Bucket{Kind: ratelimit.APIKey, ID: p.ID}, l.Key
	case access.KindUser:
		return ratelimit.Bucket{Kind: ratelimit.User, ID: p.ID}, l.User
	case access.KindSystem:
		return ratelimit.OfAddress(address), l.Address
	default:
		return ratelimit.OfAddress(address), l.Address
	}
}

// limited counts a request, tells the client how it stands, and returns an error where it is too much. cause is what
// the request is refused for besides; what failed through no fault of the client's is not counted.
func (a *API) limited(w http.ResponseWriter, r *http.Request, p access.Principal, cause error) error {
	if a.cfg.Limits.Limiter == nil || cause != nil && Resolve(cause).HTTPStatus() >= http.StatusInternalServerError {
		return nil
	}
	bucket, limit := a.cfg.Limits.of(p, ClientAddr(r.Context()))
	if limit.Off() {
		return nil
	}
	d := a.cfg.Limits.Limiter.Take(r.Context(), bucket, limit)
	d.SetHeaders(w.Header())
	if d.Allowed {
		return nil
	}
	return &apperr.Error{Code: apperr.CodeRateLimited, Message: tooMany(bucket.Kind), RetryAfter: d.RetryAfter,
		Cause: cause}
}

// LimitedByAddress returns a handler whose requests count as those to public operations do. It is for what is mounted
// by Handle.
func (a *API) LimitedByAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.limited(w, r, access.Principal{}, nil); err != nil {
			WriteError(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func tooMany(k ratelimit.Kind) string {
	switch k {
	case ratelimit.APIKey:
		return "Too many requests with this API key"
	case ratelimit.User:
		return "Too many requests of this user"
	case ratelimit.Address, ratelimit.Connection:
		return "Too many requests from this address without a valid credential"
	default:
		return "Too many requests"
	}
}

const retryAfter = "Retry-After"

// rateHeaders are the headers of every answer of a limited operation, and of the refusal, as the document refers to
// them.
func rateHeaders() map[string]*huma.Header {
	header := func(description string) *huma.Header {
		return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeInteger}}
	}
	return map[string]*huma.Header{
		"X-RateLimit-Limit": header("The number of requests allowed at the same time after a pause (the burst). Absent " +
			"if there is no limit."),
		"X-RateLimit-Remaining": header("The number of further requests allowed now."),
		retryAfter:              header("The number of seconds after which the request can be retried."),
		"X-RateLimit-Reset": header("The number of seconds after which `X-RateLimit-Remaining` equals `X-RateLimit-Limit` " +
			"again, without further requests."),
	}
}
