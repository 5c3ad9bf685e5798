package accesstokens

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jwt"
)

const (
	// tokenType keeps a token of another kind, made with the same key, from being taken for an access token (RFC 8725,
	// section 3.11).
	tokenType = "admin+jwt"
	// Lifetime is how long an access token works.
	Lifetime = 15 * time.Minute
	// clockSkew is how far the clocks of two nodes may be apart before a fresh token is refused. It lengthens no token.
	clockSkew = 5 * time.Second
	// maxTokenBytes bounds what is decoded; our tokens have about 600.
	maxTokenBytes = 4096
)

// Claims are those of an access token (RFC 7519, RFC 8176, OpenID Connect). They hold no rights: these are read from
// the database for every request.
type Claims struct {
	jwt.Claims
	Team     id.Team          `json:"team"`
	Session  string           `json:"sid"`
	AuthTime *jwt.NumericDate `json:"auth_time"`
	Methods  []string         `json:"amr"`
}

// Keys signs and verifies access tokens with the signing keys as they were read. Neither takes a query.
type Keys struct {
	issuer   string
	audience string
	ring     keyring
	policy   jwt.Policy
}

func newKeys(issuer string, ring keyring) *Keys {
	audience := issuer + "/api/v1"
	return &Keys{issuer: issuer, audience: audience, ring: ring, policy: jwt.Policy{
		Algorithms: []jose.SignatureAlgorithm{jose.ES256}, Types: jwt.OneOf(tokenType), MaxBytes: maxTokenBytes,
		Issuers: jwt.OneOf(issuer), Audiences: jwt.OneOf(audience), OnlyAudience: true,
		RequireExpiry: true, RequireIssuedAt: true, Skew: clockSkew, MaxLifetime: Lifetime}}
}

// Subject is the user for whom a token is signed, and their session.
type Subject struct {
	User    string
	Team    id.Team
	Session string
	// AuthMillis is when the user last proved who they are, in Unix milliseconds, and Methods how (RFC 8176).
	AuthMillis int64
	Methods    []string
}

// Sign returns an access token, signed with the current key.
func (k *Keys) Sign(now time.Time, s Subject) (string, error) {
	key := k.ring.signer(now)
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key.private, KeyID: key.id}},
		(&jose.SignerOptions{}).WithType(tokenType))
	if err != nil {
		return "", fmt.Errorf("prepare to sign a token: %w", err)
	}
	at := josejwt.NewNumericDate(now)
	token, err := josejwt.Signed(signer).Claims(Claims{
		Claims: jwt.Claims{
			Issuer: k.issuer, Audience: josejwt.Audience{k.audience}, Subject: s.User,
			IssuedAt: at, Expiry: josejwt.NewNumericDate(at.Time().Add(Lifetime)),
		},
		Team: s.Team, Session: s.Session, AuthTime: josejwt.NewNumericDate(clock.FromMillis(s.AuthMillis)),
		Methods: s.Methods,
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

// errToken is wrapped with the reason, for the log. The client gets the same response for every reason.
var errToken = errors.New("access token rejected")

// Verify returns the claims of a token that this service issued and that is valid now.
func (k *Keys) Verify(now time.Time, token string) (Claims, error) {
	var c Claims
	err := k.policy.Verify(now, token, func(h jose.Header) []any {
		if key := k.ring.verifier(now, h.KeyID); key != nil {
			return []any{key}
		}
		return nil
	}, &c)
	switch {
	case err != nil:
		return Claims{}, fmt.Errorf("%w: %w", errToken, err)
	case c.AuthTime == nil || !id.Is(id.PrefixSession, c.Session):
		return Claims{}, fmt.Errorf("%w: auth_time or sid", errToken)
	case !id.Is(id.PrefixUser, c.Subject) || !id.Is(id.PrefixTeam, string(c.Team)):
		return Claims{}, fmt.Errorf("%w: sub or team", errToken)
	}
	return c, nil
}
