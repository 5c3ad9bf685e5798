package oauth

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/requestsigning"
)

// ClientAuth is how a client proves itself to the token endpoint.
type ClientAuth string

// The ways of client authentication. The empty one is AuthBasic, which every server must support (RFC 6749, 2.3.1).
const (
	AuthBasic         ClientAuth = "basic"
	AuthBody          ClientAuth = "body"
	AuthPrivateKeyJWT ClientAuth = "private_key_jwt"
	AuthNone          ClientAuth = "none"
)

// Client is the OAuth client of a provider config, or of a connection that has its own.
type Client struct {
	ID     string
	Secret secretbox.Secret
	// Key is the private key of private_key_jwt in PEM, and KeyID its name; empty for none. Algorithm is that of the kind
	// of key if it is empty.
	Key       secretbox.Secret
	KeyID     string
	Algorithm string
}

// Endpoint is a token or revocation endpoint, and how requests to it are written.
type Endpoint struct {
	URL  string
	Auth ClientAuth
	// Audience is what private_key_jwt names as its audience, such as the issuer; the URL if it is empty.
	Audience string
	Format   BodyFormat
	// ScopeSeparator is a space if it is empty.
	ScopeSeparator string
	// Params are further parameters of every request. They replace none of the protocol but grant_type and scope.
	Params map[string]secretbox.Secret
	// Rename has the provider's names of parameters. One that is renamed to "" is left out.
	Rename map[string]string
	// Header has further headers, such as the version of an API.
	Header map[string]string
}

// assertionType is the client_assertion_type of RFC 7523, section 2.2.
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// request makes a request with parameters of the protocol, those of the endpoint, and extra ones.
func (e Endpoint) request(ctx context.Context, c Client, p params, extra map[string]secretbox.Secret, now time.Time) (
	*http.Request, error,
) {
	authorization, err := e.authenticate(c, p, now)
	if err != nil {
		return nil, err
	}
	if p, err = p.renamed(e.Rename); err != nil {
		return nil, err
	}
	further := map[string]secretbox.Secret{}
	maps.Copy(further, e.Params)
	maps.Copy(further, extra)
	if err := p.add(revealed(further)); err != nil {
		return nil, err
	}
	contentType, body, err := p.encode(e.Format)
	if err != nil {
		return nil, err
	}
	req, err := newRequest(ctx, http.MethodPost, e.URL, contentType, body)
	if err != nil {
		return nil, err
	}
	if err := setHeaders(req.Header, e.Header); err != nil {
		return nil, err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return req, nil
}

// authenticate adds what proves the client, and returns the header Authorization.
func (e Endpoint) authenticate(c Client, p params, now time.Time) (string, error) {
	if c.ID == "" && e.Auth != AuthNone {
		return "", unusable("the client id is missing")
	}
	switch e.Auth {
	case "", AuthBasic:
		if c.Secret == "" {
			return "", unusable("the client secret is missing")
		}
		return basic(url.QueryEscape(c.ID), url.QueryEscape(c.Secret.Reveal())), nil
	case AuthBody:
		if c.Secret == "" {
			return "", unusable("the client secret is missing")
		}
		p["client_id"], p["client_secret"] = c.ID, c.Secret.Reveal()
	case AuthPrivateKeyJWT:
		audience := e.Audience
		if audience == "" {
			audience = e.URL
		}
		algorithm := c.Algorithm
		if algorithm == "" {
			var err error
			if algorithm, err = requestsigning.AlgorithmOf(c.Key); err != nil {
				return "", fmt.Errorf("%w: %w", ErrSettings, err)
			}
		}
		token, err := Assertion{Algorithm: algorithm, Key: c.Key, KeyID: c.KeyID, Issuer: c.ID, Subject: c.ID,
			Audience: audience}.sign(now)
		if err != nil {
			return "", err
		}
		p["client_id"], p["client_assertion_type"], p["client_assertion"] = c.ID, assertionType, token.Reveal()
	case AuthNone:
		p.set("client_id", c.ID)
	default:
		return "", unusable("the client authentication is unknown")
	}
	return "", nil
}

// basic is the header of RFC 7617. OAuth clients encode both parts as a form first (RFC 6749, section 2.3.1), so that a
// colon in the id separates nothing.
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
