package oauth

import (
	"context"
	"net/http"
	"slices"
	"time"

	"sallyport/internal/platform/secretbox"
)

// Revoke makes the request that revokes a token at a revocation endpoint (RFC 7009, section 2.1). Hint is access_token,
// refresh_token or empty. Package outbound renders other ways to revoke.
func (e Endpoint) Revoke(ctx context.Context, c Client, token secretbox.Secret, hint string, now time.Time) (
	*http.Request, error,
) {
	if token == "" {
		return nil, unusable("the token is missing")
	}
	p := params{"token": token.Reveal()}
	p.set("token_type_hint", hint)
	return e.request(ctx, c, p, nil, now)
}

// RevocationSpec is how the response to a revocation is read.
type RevocationSpec struct {
	// SuccessWhen must hold for a response that counts as a success, beyond its status.
	SuccessWhen Test
	// GoneStatuses and GoneWhen say that there is nothing to revoke any more.
	GoneStatuses []int
	GoneWhen     []Test
	// Sent are the secrets of the request, as in TokenSpec.
	Sent []secretbox.Secret
}

// ParseRevocation returns nil if a token is revoked, now or before; otherwise a *TokenError.
func ParseRevocation(spec RevocationSpec, status int, header http.Header, body []byte, now time.Time) error {
	c := classifier{status: status, header: header, body: body, now: now, sent: spec.Sent}
	doc, err := parseDocument(body)
	code, _ := describe(doc)
	switch {
	case isOutage(status):
		return c.of(doc)
	case slices.Contains(spec.GoneStatuses, status), c.any(spec.GoneWhen):
		return nil
	case code == "invalid_token", code == "invalid_grant":
		// RFC 7009, section 2.2, has 200 for a token that is not valid. Not everyone follows it.
		return nil
	case spec.SuccessWhen != nil && err != nil && isSuccess(status):
		return c.unreadable(err.Error())
	case isSuccess(status) && spec.SuccessWhen != nil && c.any([]Test{spec.SuccessWhen}):
		return nil
	case isSuccess(status) && spec.SuccessWhen == nil && !hasError(doc):
		// RFC 7009 has no body here, and what is in one means nothing.
		return nil
	case status >= 300 && status < 400:
		return c.unreadable(redirects)
	default:
		return c.of(doc)
	}
}
