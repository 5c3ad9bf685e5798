package oauth

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/secretbox"
)

// Kind is what an error of a provider means for a connection.
type Kind string

// The kinds of errors.
const (
	// GrantDead: the refresh token, the code or the assertion is not valid, and will not be valid again.
	GrantDead Kind = "grant_dead"
	// ClientRefused: the client is unknown, its secret is wrong, or it may not do this. Its connections cannot change
	// that.
	ClientRefused Kind = "client_refused"
	// Temporary: the provider is not there, limits requests, or responds with what cannot be read. A later attempt may
	// succeed, and says nothing about the grant.
	Temporary Kind = "temporary"
	// Misconfigured: the request is one that this provider never grants, such as an unknown scope.
	Misconfigured Kind = "misconfigured"
	// Refused: the provider refuses the request for another reason.
	Refused Kind = "refused"
)

// TokenError is an error of a token or revocation endpoint. Nothing in it is a token.
type TokenError struct {
	Kind Kind
	// Code is the provider's error code, or empty.
	Code string
	// Description is the provider's, printable and at most 300 characters, or says what is wrong with the response.
	Description string
	// Status is the HTTP status.
	Status int
	// Unsent is true if it is certain that the endpoint got nothing of the request.
	Unsent bool
	// RetryAfter is how long the provider asks to wait, at most a day, or 0.
	RetryAfter time.Duration
}

// Error returns the status, the code and the description.
func (e *TokenError) Error() string {
	text := "the endpoint responded with " + strconv.Itoa(e.Status)
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	if e.Description != "" {
		text += ": " + e.Description
	}
	return text
}

// maxRetryAfter bounds the wait that a provider can ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the header of RFC 9110, section 10.2.3: seconds, or a date.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// classifier makes the errors of one response.
type classifier struct {
	status int
	header http.Header
	body   []byte
	now    time.Time
	sent   []secretbox.Secret

	dead                         []Test
	deadStatuses, clientStatuses []int
}

// any reports whether one of the tests holds. Nothing of a body over the limit is looked at.
func (c classifier) any(tests []Test) bool {
	return len(c.body) <= maxResponse &&
		slices.ContainsFunc(tests, func(t Test) bool { return t(c.status, c.header, c.body) })
}

// isOutage reports whether the status alone says that the provider cannot respond now. Its body is not looked at: what
// stands in front of a server that is down may write anything.
func isOutage(status int) bool {
	return status >= 500 || slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooEarly,
		http.StatusTooManyRequests}, status)
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

// unreadable is the error of a response that says nothing. Of a 4xx the status is still a refusal.
func (c classifier) unreadable(why string) *TokenError {
	kind := Temporary
	if c.status >= 400 {
		kind = c.kind(Refused)
	} else if c.any(c.dead) {
		kind = GrantDead
	}
	return &TokenError{Kind: kind, Description: why, Status: c.status, RetryAfter: retryAfter(c.header, c.now)}
}

// of is the error that a document describes.
func (c classifier) of(doc document) *TokenError {
	code, description := describe(doc)
	e := &TokenError{Kind: c.kind(kindOf(code)), Code: cleanCode(code, c.sent),
		Description: clean(description, maxDescription, c.sent), Status: c.status, RetryAfter: retryAfter(c.header, c.now)}
	return e
}

// kind is what the status and the definition make of the kind that the code has. Only a code without a meaning leaves
// it to the status.
func (c classifier) kind(ofCode Kind) Kind {
	switch {
	case isOutage(c.status), ofCode == Temporary && c.status >= 400:
		return Temporary
	case c.any(c.dead):
		return GrantDead
	case ofCode == Refused && slices.Contains(c.deadStatuses, c.status):
		return GrantDead
	case ofCode == Refused && slices.Contains(c.clientStatuses, c.status):
		return ClientRefused
	default:
		return ofCode
	}
}

// redirects describes a response that nothing is read of: what was sent is not sent on to where it points.
const redirects = "the endpoint redirects, which is not followed with credentials"

// hasError reports whether a document of a success has an error after all.
func hasError(doc document) bool {
	switch v := doc.at("error").(type) {
	case string:
		return v != ""
	case bool:
		return v
	case map[string]any:
		return len(v) > 0
	default:
		return false
	}
}

// describe returns the code and the description of an error, wherever providers write them (RFC 6749, section 5.2, or
// an object "error", as in the APIs of Google and Meta).
func describe(doc document) (code, description string) {
	for _, path := range []string{"error", "error.type", "error.status", "error.code", "error_code", "code",
		"oauth_problem"} {
		if code = doc.str(path); code != "" {
			break
		}
	}
	for _, path := range []string{"error_description", "error.message", "message", "error_message"} {
		if description = doc.str(path); description != "" {
			break
		}
	}
	return code, description
}

// kindOf returns what a code means. Beyond those of RFC 6749, sections 5.2 and 4.1.2.1, and RFC 7009 there are codes of
// GitHub and Slack that say the same in other words.
func kindOf(code string) Kind {
	switch code {
	case "invalid_grant":
		return GrantDead
	case "invalid_client", "unauthorized_client", "incorrect_client_credentials", "invalid_client_id", "bad_client_secret":
		return ClientRefused
	case "temporarily_unavailable", "server_error", "slow_down", "rate_limited", "ratelimited":
		return Temporary
	case "invalid_scope", "unsupported_grant_type", "unsupported_token_type", "redirect_uri_mismatch", "bad_redirect_uri":
		return Misconfigured
	default:
		return Refused
	}
}
