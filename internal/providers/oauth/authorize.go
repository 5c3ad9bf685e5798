package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"sallyport/internal/platform/secretbox"
)

// Authorization is what a browser is sent to the provider with (RFC 6749, section 4.1.1).
type Authorization struct {
	// URL of the authorization endpoint. A query that it has is kept.
	URL         string
	ClientID    string
	RedirectURI string
	// State comes back from the provider. It is required.
	State secretbox.Secret
	// Scopes are joined by ScopeSeparator, which is a space if it is empty. Without scopes there is no such parameter.
	Scopes         []string
	ScopeSeparator string
	// Verifier is that of PKCE, of which the S256 challenge is sent; empty for providers without PKCE.
	Verifier secretbox.Secret
	// Params are further parameters, such as access_type. They replace none of the protocol but scope.
	Params map[string]string
	// Rename has the provider's names of parameters. One that is renamed to "" is left out.
	Rename map[string]string
}

// AuthorizeURL returns the URL to send a browser to.
func AuthorizeURL(a Authorization) (string, error) {
	u, err := parseURL(a.URL)
	if err != nil {
		return "", err
	}
	if a.ClientID == "" || a.RedirectURI == "" || a.State == "" {
		return "", unusable("the client, the redirect URI or the state is missing")
	}
	scope, err := joinScopes(a.Scopes, a.ScopeSeparator)
	if err != nil {
		return "", err
	}
	p := params{"response_type": "code", "client_id": a.ClientID, "redirect_uri": a.RedirectURI, "state": a.State.Reveal()}
	p.set("scope", scope)
	if a.Verifier != "" {
		p["code_challenge"], p["code_challenge_method"] = challenge(a.Verifier), "S256"
	}
	if p, err = p.renamed(a.Rename); err != nil {
		return "", err
	}
	if name, renamed := a.Rename["state"]; renamed && name == "" {
		return "", unusable("the parameter state cannot be left out")
	}
	if err := p.add(a.Params); err != nil {
		return "", err
	}
	for name := range u.Query() {
		if _, taken := p[name]; taken {
			return "", unusable("the URL has the parameter %q, which is one of the protocol", clean(name, maxCode, nil))
		}
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+p.form(), "&")
	return u.String(), nil
}

// joinScopes returns the parameter scope.
func joinScopes(scopes []string, separator string) (string, error) {
	if separator == "" {
		separator = " "
	}
	for _, scope := range scopes {
		if !isScope(scope) || strings.Contains(scope, separator) {
			return "", unusable("a scope is malformed")
		}
	}
	return strings.Join(scopes, separator), nil
}

// NewVerifier returns a verifier of PKCE with 256 random bits (RFC 7636, section 4.1).
func NewVerifier() secretbox.Secret {
	random := make([]byte, 32)
	// crypto/rand never fails: the process ends instead.
	_, _ = rand.Read(random)
	return secretbox.Secret(base64.RawURLEncoding.EncodeToString(random))
}

// challenge is the S256 challenge of a verifier (RFC 7636, section 4.2).
func challenge(verifier secretbox.Secret) string {
	sum := sha256.Sum256([]byte(verifier.Reveal()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// OAuth1AuthorizeURL returns the URL to send a browser to with a temporary token of OAuth 1.0a (RFC 5849, section 2.2).
func OAuth1AuthorizeURL(endpoint string, token secretbox.Secret, extra map[string]string) (string, error) {
	u, err := parseURL(endpoint)
	if err != nil {
		return "", err
	}
	p := params{"oauth_token": token.Reveal()}
	if token == "" {
		return "", unusable("the temporary token is missing")
	}
	if err := p.add(extra); err != nil {
		return "", err
	}
	if _, taken := u.Query()["oauth_token"]; taken {
		return "", unusable("the URL has the parameter oauth_token")
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+p.form(), "&")
	return u.String(), nil
}
