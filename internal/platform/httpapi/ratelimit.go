package httpapi

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/ratelimit"
)

// Limits holds the rate limits of operations. The zero Limits limits nothing.
type Limits struct {
	Limiter *ratelimit.Limiter
	// Key limits each API key without a limit of its own. User limits each user.
	Key, User ratelimit.Limit
	// Address limits the requests from an IP address without a known principal: requests to public operations, and those
	// whose credential is missing or rejected.
	Address ratelimit.Limit
}

// bucketOf returns the bucket in which a request counts, and its limit.
func (l Limits) bucketOf(p access.Principal, address netip.Addr) (ratelimit.Bucket, ratelimit.Limit) {
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

// countRequest counts a request, sets the headers of its limit, and returns an error if the limit is exceeded. cause is
// another error of the request. Requests that failed because of the server are not counted.
func (a *API) countRequest(w http.ResponseWriter, r *http.Request, p access.Principal, cause error) error {
	if a.cfg.Limits.Limiter == nil || cause != nil && resolveError(cause).HTTPStatus() >= http.StatusInternalServerError {
		return nil
	}
	bucket, limit := a.cfg.Limits.bucketOf(p, ClientAddr(r.Context()))
	if limit.Off() {
		return nil
	}
	d := a.cfg.Limits.Limiter.Take(r.Context(), bucket, limit)
	d.SetHeaders(w.Header())
	if d.Allowed {
		return nil
	}
	w.Header().Set(retryAfter, seconds(d.RetryAfter)) // for a response that WriteError does not write
	return apperr.Wrap(apperr.CodeRateLimited, tooManyMessage(bucket.Kind), cause).RetryIn(d.RetryAfter)
}

// LimitedByAddress returns a handler whose requests are limited like those to public operations. It is for handlers
// that Handle mounts.
func (a *API) LimitedByAddress(next http.Handler) http.Handler {
	return a.LimitedByAddressWith(next, WriteError)
}

// LimitedByAddressWith is LimitedByAddress with another response to requests over the limit. The headers that say when
// to send another request are set before refuse is called.
func (a *API) LimitedByAddressWith(next http.Handler,
	refuse func(w http.ResponseWriter, r *http.Request, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.countRequest(w, r, access.Principal{}, nil); err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func tooManyMessage(k ratelimit.Kind) string {
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

// seconds returns the text of a header with whole seconds, rounded up.
func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// rateHeaders returns the headers that every response to a limited request has.
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
