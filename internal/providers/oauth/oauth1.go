package oauth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/requestsigning"
)

// OAuth1 are the requests by which a connection gets its token under OAuth 1.0a (RFC 5849, section 2).
type OAuth1 struct {
	ConsumerKey    string
	ConsumerSecret secretbox.Secret
	// Method is HMAC-SHA1 or HMAC-SHA256.
	Method string
	Realm  string
}

// OAuth1Token is a token and its secret, temporary or not.
type OAuth1Token struct {
	Token, Secret secretbox.Secret
	// Metadata has values of the response, as in Token.
	Metadata map[string]string
}

// TemporaryToken makes the request for a temporary token (section 2.1), with which a browser is sent to the provider
// and comes back to the callback.
func (o OAuth1) TemporaryToken(ctx context.Context, endpoint, callback string, now time.Time) (*http.Request, error) {
	if callback == "" {
		return nil, unusable("the callback is missing")
	}
	signature := o.signature(now)
	signature.Callback = callback
	return signed(ctx, endpoint, signature)
}

// AccessToken makes the request that exchanges a temporary token and the verifier for the token of the account (section
// 2.3).
func (o OAuth1) AccessToken(ctx context.Context, endpoint string, temporary OAuth1Token, verifier secretbox.Secret,
	now time.Time,
) (*http.Request, error) {
	if temporary.Token == "" || verifier == "" {
		return nil, unusable("the temporary token or the verifier is missing")
	}
	signature := o.signature(now)
	signature.Token, signature.TokenSecret = temporary.Token.Reveal(), temporary.Secret
	signature.Verifier = verifier
	return signed(ctx, endpoint, signature)
}

func (o OAuth1) signature(now time.Time) requestsigning.OAuth1 {
	return requestsigning.OAuth1{ConsumerKey: o.ConsumerKey, ConsumerSecret: o.ConsumerSecret, Method: o.Method,
		Realm: o.Realm, Now: now}
}

func signed(ctx context.Context, endpoint string, signature requestsigning.OAuth1) (*http.Request, error) {
	req, err := newRequest(ctx, http.MethodPost, endpoint, "", nil)
	if err != nil {
		return nil, err
	}
	// The responses are forms, also for those who ask for JSON.
	req.Header.Del("Accept")
	if err := requestsigning.SignOAuth1(req, signature); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return req, nil
}

// OAuth1Spec is how a response with a token of OAuth 1.0a is read.
type OAuth1Spec struct {
	// Temporary requires the provider to confirm the callback, which is what revision A added (section 2.1).
	Temporary bool
	// Metadata and Sent are as in TokenSpec.
	Metadata map[string]string
	Sent     []secretbox.Secret
}

// ParseOAuth1Token reads a token. Its errors are all *TokenError. A 401 says that the signature or the temporary token
// was refused; OAuth 1.0 has no codes that would say which.
func ParseOAuth1Token(spec OAuth1Spec, status int, header http.Header, body []byte, now time.Time) (OAuth1Token,
	error) {
	c := classifier{status: status, header: header, body: body, now: now, sent: spec.Sent}
	if !isSuccess(status) && status < 400 {
		return OAuth1Token{}, c.unreadable(redirects)
	}
	doc, err := parseDocument(body)
	switch {
	case err != nil:
		return OAuth1Token{}, c.unreadable(err.Error())
	case !isSuccess(status):
		return OAuth1Token{}, c.of(doc)
	}
	token, secret := doc.str("oauth_token"), doc.str("oauth_token_secret")
	switch {
	case !isVisible(token, maxToken) || !isVisible(secret, maxToken):
		return OAuth1Token{}, c.unreadable("the response has no usable token")
	case spec.Temporary && doc.str("oauth_callback_confirmed") != "true":
		return OAuth1Token{}, c.unreadable("the provider does not confirm the callback")
	}
	return OAuth1Token{Token: secretbox.Secret(token), Secret: secretbox.Secret(secret),
		Metadata: metadata(doc, spec.Metadata)}, nil
}

// ParseOAuth1Callback reads the query of a request to the callback (section 2.2). A provider that was declined sends
// "denied" instead of a verifier, which is an *AuthorizationError.
func ParseOAuth1Callback(query url.Values) (token, verifier secretbox.Secret, err error) {
	for _, name := range []string{"oauth_token", "oauth_verifier", "denied"} {
		if len(query[name]) > 1 {
			return "", "", ErrCallback
		}
	}
	if query.Has("denied") || query.Get("oauth_problem") == "user_refused" {
		return "", "", &AuthorizationError{Code: "access_denied"}
	}
	token, verifier = secretbox.Secret(query.Get("oauth_token")), secretbox.Secret(query.Get("oauth_verifier"))
	if !isVisible(token.Reveal(), maxToken) || !isVisible(verifier.Reveal(), maxToken) {
		return "", "", ErrCallback
	}
	return token, verifier, nil
}
