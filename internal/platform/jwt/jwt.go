// Package jwt verifies signed JSON Web Tokens (RFC 7519) by the rules of RFC 8725. A Policy states what a verifier
// accepts; the checks that every verifier needs are made here once, and those of its own claims by its package.
package jwt

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"
)

// Claims are the registered claims of RFC 7519, section 4.1.
type Claims = josejwt.Claims

// NumericDate is a time in whole seconds (RFC 7519, section 2).
type NumericDate = josejwt.NumericDate

// The reasons for which a token is rejected. The errors of this package are always one of these.
var (
	// ErrTooLarge: the token is longer than Policy.MaxBytes.
	ErrTooLarge = errors.New("the token is too large")
	// ErrMalformed: the text is not three parts of base64url, each written in the one way that its bytes have.
	ErrMalformed = errors.New("the token is malformed")
	// ErrAlgorithm: the header cannot be read, or names an algorithm that is not in the policy.
	ErrAlgorithm = errors.New("the token has no header with an accepted algorithm")
	// ErrCritical: the header names extensions that must be understood (RFC 7515, section 4.1.11). None is.
	ErrCritical = errors.New("the token has a critical header")
	// ErrType: the header typ is not in the policy.
	ErrType = errors.New("the token has another type")
	// ErrKey: no key fits the token's header.
	ErrKey = errors.New("no key fits the token")
	// ErrSignature: none of the keys verifies the signature.
	ErrSignature = errors.New("the signature of the token does not verify")
	// ErrClaims: the signed claims are not JSON of the expected form.
	ErrClaims = errors.New("the claims of the token cannot be read")
	// ErrIssuer: iss is not in the policy.
	ErrIssuer = errors.New("the token has another issuer")
	// ErrAudience: aud does not meet the policy.
	ErrAudience = errors.New("the token has another audience")
	// ErrExpired: exp has passed, or is missing although the policy requires it.
	ErrExpired = errors.New("the token has expired or has no expiry")
	// ErrIssuedLater: iat is in the future, or is missing although the policy requires it.
	ErrIssuedLater = errors.New("the token was issued in the future or has no time of issue")
	// ErrNotYetValid: nbf is in the future.
	ErrNotYetValid = errors.New("the token is not valid yet")
	// ErrLifetime: the time from iat to exp is longer than the policy allows.
	ErrLifetime = errors.New("the token lives too long")
)

// Values are the accepted values of a header or claim. The zero Values accepts none.
type Values struct {
	any  bool
	list []string
}

// OneOf accepts the values of the list.
func OneOf(list ...string) Values { return Values{list: slices.Clone(list)} }

// Any accepts every value, and tokens that have none.
func Any() Values { return Values{any: true} }

// Policy states which tokens a verifier accepts. Algorithms, Types, MaxBytes, Issuers and Audiences are required:
// without one of them no token is accepted. It is safe for concurrent use.
type Policy struct {
	// Algorithms are those that the header alg may name. They must be all symmetric or all asymmetric, so that a public
	// key is never used as a secret (RFC 8725, section 2.1).
	Algorithms []jose.SignatureAlgorithm
	// Types are the values that the header typ may have, in any case (RFC 7515, section 4.1.9). An empty one accepts
	// tokens without typ. Any accepts every token, also one of another kind that the same key signs.
	Types Values
	// MaxBytes bounds the length of a token, before anything of it is decoded.
	MaxBytes int

	// Issuers are the values that iss may have.
	Issuers Values
	// Audiences are values of which aud must contain one.
	Audiences Values
	// OnlyAudience rejects tokens that are for others as well.
	OnlyAudience bool

	// RequireExpiry and RequireIssuedAt reject tokens without exp and iat.
	RequireExpiry, RequireIssuedAt bool
	// Skew is how far the issuer's clock may be ahead, for iat and nbf.
	Skew time.Duration
	// ExpirySkew is how far the issuer's clock may be behind. A token is valid until exp and ExpirySkew, exclusively.
	ExpirySkew time.Duration
	// MaxLifetime bounds the time from iat to exp, if a token has both; 0 is no bound.
	MaxLifetime time.Duration
}

// Keys returns the keys that may have signed a token with this header; see Token.Verify.
type Keys func(header jose.Header) []any

// Verify checks a token in full and decodes its claims into each of into, which are pointers. It checks form, type and
// signature before it reads any claim. The registered claims are checked last, so into is set also if they are not
// accepted.
func (p *Policy) Verify(now time.Time, token string, keys Keys, into ...any) error {
	t, err := p.Parse(token)
	if err != nil {
		return err
	}
	candidates := keys(t.Header)
	if len(candidates) == 0 {
		return ErrKey
	}
	payload, err := t.Verify(candidates...)
	if err != nil {
		return err
	}
	var c Claims
	for _, dest := range append(slices.Clip(into), &c) {
		if err := Decode(payload, dest); err != nil {
			return err
		}
	}
	return p.Check(now, c)
}

// Check checks the registered claims of a token whose signature is right.
func (p *Policy) Check(now time.Time, c Claims) error {
	if err := p.CheckParties(c); err != nil {
		return err
	}
	return p.CheckTimes(now, c)
}

// CheckParties checks who issued a token, and for whom.
func (p *Policy) CheckParties(c Claims) error {
	if !p.Issuers.any && !slices.Contains(p.Issuers.list, c.Issuer) {
		return ErrIssuer
	}
	if !p.Audiences.any && !slices.ContainsFunc(p.Audiences.list, c.Audience.Contains) ||
		p.OnlyAudience && len(c.Audience) != 1 {
		return ErrAudience
	}
	return nil
}

// CheckTimes checks when a token is valid.
func (p *Policy) CheckTimes(now time.Time, c Claims) error {
	latest := now.Add(p.Skew)
	switch {
	case c.Expiry == nil && p.RequireExpiry, c.Expiry != nil && !now.Before(c.Expiry.Time().Add(p.ExpirySkew)):
		return ErrExpired
	case c.IssuedAt == nil && p.RequireIssuedAt, c.IssuedAt != nil && latest.Before(c.IssuedAt.Time()):
		return ErrIssuedLater
	case c.NotBefore != nil && latest.Before(c.NotBefore.Time()):
		return ErrNotYetValid
	case p.MaxLifetime > 0 && c.Expiry != nil && c.IssuedAt != nil &&
		c.Expiry.Time().Sub(c.IssuedAt.Time()) > p.MaxLifetime:
		return ErrLifetime
	}
	return nil
}

// acceptsType reports whether the policy accepts a token with this header.
func (p *Policy) acceptsType(h jose.Header) bool {
	if p.Types.any {
		return true
	}
	value, present := h.ExtraHeaders[jose.HeaderType]
	if !present {
		return slices.Contains(p.Types.list, "")
	}
	typ, _ := value.(string)
	return typ != "" && slices.ContainsFunc(p.Types.list, func(t string) bool { return strings.EqualFold(t, typ) })
}
