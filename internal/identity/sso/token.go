package sso

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sallyport/internal/platform/jwt"
)

const (
	// clockSkew is how far the provider's clock may be off.
	clockSkew = time.Minute
	// maxTokenBytes bounds an ID token; one with many groups has some kilobytes.
	maxTokenBytes = 64 << 10
	// maxSubjectBytes is OpenID Connect's own limit (Core 1.0, section 2).
	maxSubjectBytes = 255
	maxGroups       = 1000
)

// idToken holds the claims that are read from an ID token, except those about the person.
type idToken struct {
	jwt.Claims
	Nonce           string `json:"nonce"`
	AuthorizedParty string `json:"azp"`
}

// expected holds the values that an ID token must have.
type expected struct {
	issuer, clientID, nonce string
	now                     time.Time
}

// The claims about the person's address (OpenID Connect Core 1.0, section 5.1).
const (
	claimEmail    = "email"
	claimVerified = "email_verified"
)

// claims are those about the person, as the ID token or the userinfo endpoint has them.
type claims map[string]json.RawMessage

// verify returns the subject and the claims of an ID token, if one of the keys verifies it and its claims are as
// expected (OpenID Connect Core 1.0, section 3.1.3.7). unknown is true if no key fits, so that a newer key set may
// help.
func (e expected) verify(raw string,
	keys []jose.JSONWebKey) (subject string, about claims, unknown bool, f *providerError) {
	policy := jwt.Policy{Algorithms: algorithms(), Types: jwt.OneOf("", "JWT"), MaxBytes: maxTokenBytes,
		Issuers: jwt.OneOf(e.issuer), Audiences: jwt.OneOf(e.clientID),
		RequireExpiry: true, RequireIssuedAt: true, Skew: clockSkew, ExpirySkew: clockSkew}
	var keyID string
	var t idToken
	err := policy.Verify(e.now, raw, func(h jose.Header) []any {
		keyID = h.KeyID
		var fitting []any
		for _, k := range keys {
			if (h.KeyID == "" || k.KeyID == h.KeyID) && (k.Algorithm == "" || k.Algorithm == h.Algorithm) {
				fitting = append(fitting, k.Key)
			}
		}
		return fitting
	}, &t, &about)
	if err != nil {
		unknown = errors.Is(err, jwt.ErrKey) || errors.Is(err, jwt.ErrSignature) && keyID == ""
		return "", nil, unknown, tokenError(err)
	}
	if f := e.check(t); f != nil {
		return "", nil, false, f
	}
	return t.Subject, about, false, nil
}

// tokenError returns the sentence for an error of package jwt.
func tokenError(err error) *providerError {
	const malformed = "The ID token is malformed or signed with an algorithm that is not accepted."
	for _, s := range []struct {
		err      error
		sentence string
	}{
		{jwt.ErrTooLarge, fmt.Sprintf("The ID token is larger than %d KiB.", maxTokenBytes>>10)},
		{jwt.ErrMalformed, malformed}, {jwt.ErrAlgorithm, malformed},
		{jwt.ErrType, "The ID token is a token of another kind."},
		{jwt.ErrKey, "The ID token is signed with a key that the identity provider does not publish."},
		{jwt.ErrIssuer, "The ID token is of another issuer."},
		{jwt.ErrAudience, "The ID token is for another client."},
		{jwt.ErrExpired, "The ID token has expired; are the clocks right?"},
		{jwt.ErrIssuedLater, "The ID token is of the future; are the clocks right?"},
		{jwt.ErrNotYetValid, "The ID token is not valid yet; are the clocks right?"},
	} {
		if errors.Is(err, s.err) {
			return newProviderError("%s", s.sentence)
		}
	}
	return newProviderError("The signature of the ID token does not verify.")
}

// check checks the claims that only ID tokens have.
func (e expected) check(t idToken) *providerError {
	switch {
	case len(t.Audience) > 1 && t.AuthorizedParty == "", t.AuthorizedParty != "" && t.AuthorizedParty != e.clientID:
		return newProviderError("The ID token was issued to another client.")
	case t.Nonce == "" || subtle.ConstantTimeCompare([]byte(t.Nonce), []byte(e.nonce)) != 1:
		return newProviderError("The ID token belongs to another sign-in.")
	case t.Subject == "" || len(t.Subject) > maxSubjectBytes || strings.ContainsFunc(t.Subject, func(r rune) bool {
		return r < ' ' || r > '~'
	}):
		return newProviderError("The ID token names no subject that can be used.")
	}
	return nil
}

// addUserinfo adds the wanted claims that are missing in the ID token from the userinfo endpoint: many providers put
// e-mail address and groups only there.
func (p peer) addUserinfo(ctx context.Context, m metadata, t tokens, subject string, about claims,
	wanted []string) (claims, *providerError) {
	lacks := slices.ContainsFunc(wanted, func(name string) bool { return about[name] == nil })
	if !lacks || m.UserinfoEndpoint == "" || t.AccessToken == "" || !strings.EqualFold(t.TokenType, "Bearer") {
		return about, nil
	}
	var more claims
	if f := p.getJSON(ctx, "userinfo endpoint", m.UserinfoEndpoint,
		http.Header{"Authorization": {"Bearer " + t.AccessToken}}, &more); f != nil {
		return nil, f
	}
	// Without this, an access token of another person would lend their claims (Core 1.0, section 5.3.2).
	if more.text("sub") != subject {
		return nil, newProviderError("The userinfo endpoint responded about another user.")
	}
	for _, name := range wanted {
		if about[name] == nil && name != claimEmail && name != claimVerified {
			about[name] = more[name]
		}
	}
	// An address and its verification come from one place, or the one would be lent to the other.
	if about[claimEmail] == nil || about[claimVerified] == nil {
		about[claimEmail], about[claimVerified] = more[claimEmail], more[claimVerified]
	}
	return about, nil
}

func (c claims) text(name string) string {
	var s string
	if json.Unmarshal(c[name], &s) != nil {
		return ""
	}
	return s
}

// verified reports whether the provider has verified the address. Some write the boolean as a text.
func (c claims) verified() bool {
	var yes bool
	return json.Unmarshal(c[claimVerified], &yes) == nil && yes || c.text(claimVerified) == "true"
}

// list is a claim that is a list of texts, or one text. Any other claim gives an empty list.
func (c claims) list(name string) ([]string, *providerError) {
	if c[name] == nil {
		return nil, nil
	}
	if one := c.text(name); one != "" {
		return []string{one}, nil
	}
	var list []string
	if json.Unmarshal(c[name], &list) != nil {
		return nil, newProviderError("The claim of groups is not a list of texts.")
	}
	if len(list) > maxGroups {
		return nil, newProviderError("The claim of groups has more than %d entries.", maxGroups)
	}
	return list, nil
}
