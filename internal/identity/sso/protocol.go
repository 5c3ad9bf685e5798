package sso

import (
	"context"
	"crypto/rsa"
	stdjson "encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	// Unlike encoding/json it refuses duplicate members, and distinguishes email from Email: no two readers of a
	// provider's document find different values in it.
	"github.com/go-jose/go-jose/v4/json"

	"sallyport/internal/platform/egress"
)

// Limits on an identity provider's responses.
const (
	maxAnswerBytes  = 256 << 10
	exchangeTimeout = 10 * time.Second
	maxSigningKeys  = 100
	minRSABits      = 2048
)

// wellKnown is where a provider publishes its metadata, below its issuer (OpenID Connect Discovery 1.0, section 4).
const wellKnown = "/.well-known/openid-configuration"

// methodS256 is the one transformation of PKCE that is used (RFC 7636, section 4.2).
const methodS256 = "S256"

// algorithms lists the signatures that an ID token may have. None of them can be made with what is public: neither
// "none" nor an HMAC, whose key an attacker would take from the published ones (RFC 8725, section 2.1).
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256,
		jose.ES384, jose.ES512, jose.EdDSA}
}

// metadata is a provider's published description of itself.
type metadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	UserinfoEndpoint      string   `json:"userinfo_endpoint"`
	JWKSURI               string   `json:"jwks_uri"`
	ResponseTypes         []string `json:"response_types_supported"`
	Algorithms            []string `json:"id_token_signing_alg_values_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	// IssuerInAnswer says that every response of the authorization endpoint names the issuer (RFC 9207).
	IssuerInAnswer bool `json:"authorization_response_iss_parameter_supported"`
}

// providerError says what an identity provider does wrong, in a sentence of ours that may be shown: it contains nothing
// that the provider sent.
type providerError struct {
	// Message is the sentence.
	Message string
	// Unreachable says that there was no usable response at all, so that a retry may succeed.
	Unreachable bool
}

// Error returns the message.
func (f *providerError) Error() string { return f.Message }

func newProviderError(format string, args ...any) *providerError {
	return &providerError{Message: fmt.Sprintf(format, args...)}
}

// peer asks identity providers, by the one way out.
type peer struct {
	client  *egress.Client
	timeout time.Duration
}

// exchange makes one exchange and returns the body of a response with status 200; what names the thing asked for.
func (p peer) exchange(ctx context.Context, what, target string, r egress.Request) ([]byte, *providerError) {
	u, refused := p.client.ParseTarget(target)
	if refused != nil {
		return nil, newProviderError("The URL of the %s cannot be asked: %s", what, refused.Message)
	}
	r.URL, r.Timeout, r.MaxResponseBytes = u, p.timeout, maxAnswerBytes
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Accept", "application/json")
	answer, failed := p.client.Do(ctx, r)
	switch {
	case failed != nil:
		f := newProviderError("The %s did not respond: %s", what, failed.Message)
		f.Unreachable = true
		return nil, f
	case answer.Status >= http.StatusInternalServerError:
		f := newProviderError("The %s responded with status %d.", what, answer.Status)
		f.Unreachable = true
		return nil, f
	case answer.Status != http.StatusOK:
		return answer.Body, newProviderError("The %s responded with status %d.", what, answer.Status)
	case answer.Truncated:
		return nil, newProviderError("The response of the %s is larger than %d KiB.", what, maxAnswerBytes>>10)
	}
	return answer.Body, nil
}

func (p peer) getJSON(ctx context.Context, what, target string, header http.Header, into any) *providerError {
	body, f := p.exchange(ctx, what, target, egress.Request{Method: http.MethodGet, Header: header})
	if f != nil {
		return f
	}
	if err := json.Unmarshal(body, into); err != nil {
		return newProviderError("The response of the %s is not the JSON expected.", what)
	}
	return nil
}

// fetchMetadata fetches the metadata of an issuer and checks that it is the issuer's and can be worked with.
func (p peer) fetchMetadata(ctx context.Context, issuer string) (metadata, *providerError) {
	var m metadata
	if f := p.getJSON(ctx, "discovery document", strings.TrimSuffix(issuer, "/")+wellKnown, nil, &m); f != nil {
		return metadata{}, f
	}
	if m.Issuer != issuer {
		return metadata{}, newProviderError("The discovery document is of another issuer; the issuer is to be written " +
			"exactly as the " +
			"document has it.")
	}
	endpoints := []struct {
		name, url string
		optional  bool
	}{
		{"authorization_endpoint", m.AuthorizationEndpoint, false}, {"token_endpoint", m.TokenEndpoint, false},
		{"jwks_uri", m.JWKSURI, false}, {"userinfo_endpoint", m.UserinfoEndpoint, true},
	}
	for _, e := range endpoints {
		if e.url == "" && e.optional {
			continue
		}
		if refused := p.client.CheckURL(e.url); refused != nil {
			return metadata{}, newProviderError("The discovery document's %s cannot be used: %s", e.name, refused.Message)
		}
	}
	switch {
	case len(m.ResponseTypes) > 0 && !slices.Contains(m.ResponseTypes, "code"):
		return metadata{}, newProviderError("The identity provider does not offer the authorization code flow.")
	case len(m.ChallengeMethods) > 0 && !slices.Contains(m.ChallengeMethods, methodS256):
		return metadata{}, newProviderError("The identity provider does not offer PKCE with S256.")
	case len(m.Algorithms) > 0 && !slices.ContainsFunc(algorithms(), func(a jose.SignatureAlgorithm) bool {
		return slices.Contains(m.Algorithms, string(a))
	}):
		return metadata{}, newProviderError("The identity provider signs ID tokens with no algorithm that is accepted here.")
	}
	return m, nil
}

// fetchKeys fetches the provider's public keys. It leaves out keys that are not for signatures.
func (p peer) fetchKeys(ctx context.Context, uri string) ([]jose.JSONWebKey, *providerError) {
	var set struct {
		Keys []stdjson.RawMessage `json:"keys"`
	}
	if f := p.getJSON(ctx, "key set", uri, nil, &set); f != nil {
		return nil, f
	}
	if len(set.Keys) > maxSigningKeys {
		return nil, newProviderError("The key set has more than %d keys.", maxSigningKeys)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		// A kind of key that is not known is none that signs with an accepted algorithm.
		if err := k.UnmarshalJSON(raw); err != nil || !k.IsPublic() || !k.Valid() || k.Use != "" && k.Use != "sig" ||
			weak(k) {
			continue
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, newProviderError("The key set has no public key for signatures.")
	}
	return keys, nil
}

// weak reports whether the key is one of RSA that is shorter than its algorithms allow (RFC 7518, section 3.3).
func weak(k jose.JSONWebKey) bool {
	key, ok := k.Key.(*rsa.PublicKey)
	return ok && key.N.BitLen() < minRSABits
}

// redemption holds the values that redeem an authorization code.
type redemption struct {
	clientID, clientSecret      string
	code, verifier, redirectURI string
}

// tokens is the response of a token endpoint (OpenID Connect Core 1.0, section 3.1.3.3).
type tokens struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	IDToken     string `json:"id_token"`
}

// redeemCode exchanges a code.
func (p peer) redeemCode(ctx context.Context, m metadata, r redemption) (tokens, *providerError) {
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {r.code}, "redirect_uri": {r.redirectURI},
		"code_verifier": {r.verifier},
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	switch {
	case r.clientSecret == "":
		form.Set("client_id", r.clientID)
	case len(m.AuthMethods) == 0 || slices.Contains(m.AuthMethods, "client_secret_basic"):
		// Both parts are form-encoded first (RFC 6749, section 2.3.1).
		basic := http.Request{Header: header}
		basic.SetBasicAuth(url.QueryEscape(r.clientID), url.QueryEscape(r.clientSecret))
	default:
		form.Set("client_id", r.clientID)
		form.Set("client_secret", r.clientSecret)
	}
	body, f := p.exchange(ctx, "token endpoint", m.TokenEndpoint, egress.Request{Method: http.MethodPost, Header: header,
		Body: []byte(form.Encode())})
	if f != nil {
		return tokens{}, refusedCode(body, f)
	}
	var t tokens
	if err := json.Unmarshal(body, &t); err != nil || t.IDToken == "" {
		return tokens{}, newProviderError("The token endpoint's response has no ID token.")
	}
	return t, nil
}

// refusedCode words the errors of RFC 6749, section 5.2, that show an operator what to fix.
func refusedCode(body []byte, f *providerError) *providerError {
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil {
		return f
	}
	switch e.Error {
	case "invalid_client":
		return newProviderError("The identity provider does not accept the client id and secret.")
	case "invalid_grant":
		return newProviderError("The identity provider does not accept the authorization code.")
	default:
		return f
	}
}
