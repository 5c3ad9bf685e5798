package oauth

import (
	"context"
	"net/http"
	"time"

	"sallyport/internal/platform/secretbox"
)

// Code is what the provider returned to the redirect URI, and what the authorization was asked with.
type Code struct {
	Code        secretbox.Secret
	RedirectURI string
	// Verifier is that of PKCE, or empty.
	Verifier secretbox.Secret
	// Param is the provider's name of the parameter code, which is "code" if it is empty.
	Param string
}

// Exchange makes the request that exchanges a code for tokens (RFC 6749, section 4.1.3).
func (e Endpoint) Exchange(ctx context.Context, c Client, of Code, now time.Time) (*http.Request, error) {
	if of.Code == "" || of.RedirectURI == "" {
		return nil, unusable("the code or the redirect URI is missing")
	}
	name := of.Param
	if name == "" {
		name = "code"
	}
	p := params{"grant_type": "authorization_code", name: of.Code.Reveal(), "redirect_uri": of.RedirectURI}
	if len(p) != 3 {
		return nil, unusable("the code has the name of another parameter")
	}
	p.set("code_verifier", of.Verifier.Reveal())
	return e.request(ctx, c, p, nil, now)
}

// Refresh is a grant that is used again (RFC 6749, section 6).
type Refresh struct {
	Token secretbox.Secret
	// Scopes are asked for again, for the providers that require it. Most connections have none here, and keep theirs.
	Scopes []string
	// Params are further parameters of refreshes only.
	Params map[string]secretbox.Secret
}

// Refresh makes the request for new tokens.
func (e Endpoint) Refresh(ctx context.Context, c Client, r Refresh, now time.Time) (*http.Request, error) {
	if r.Token == "" {
		return nil, unusable("the refresh token is missing")
	}
	scope, err := joinScopes(r.Scopes, e.ScopeSeparator)
	if err != nil {
		return nil, err
	}
	p := params{"grant_type": "refresh_token", "refresh_token": r.Token.Reveal()}
	p.set("scope", scope)
	return e.request(ctx, c, p, r.Params, now)
}

// ClientCredentials makes the request for a token of the client itself (RFC 6749, section 4.4).
func (e Endpoint) ClientCredentials(ctx context.Context, c Client, scopes []string, now time.Time) (*http.Request,
	error) {
	scope, err := joinScopes(scopes, e.ScopeSeparator)
	if err != nil {
		return nil, err
	}
	p := params{"grant_type": "client_credentials"}
	p.set("scope", scope)
	return e.request(ctx, c, p, nil, now)
}

// JWTBearer makes the request that exchanges an assertion for a token (RFC 7523, section 2.1). The assertion proves
// enough for most providers, whose endpoints have AuthNone.
func (e Endpoint) JWTBearer(ctx context.Context, c Client, a Assertion, scopes []string, now time.Time) (
	*http.Request, error,
) {
	scope, err := joinScopes(scopes, e.ScopeSeparator)
	if err != nil {
		return nil, err
	}
	if a.Audience == "" {
		a.Audience = e.URL
	}
	token, err := a.sign(now)
	if err != nil {
		return nil, err
	}
	p := params{"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": token.Reveal()}
	p.set("scope", scope)
	return e.request(ctx, c, p, nil, now)
}
