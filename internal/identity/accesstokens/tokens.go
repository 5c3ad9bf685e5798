package accesstokens

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
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
	keys     keyring
}

func newKeys(issuer string, keys keyring) *Keys {
	return &Keys{issuer: issuer, audience: issuer + "/api/v1", keys: keys}
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

// Sign returns an access token, made with the key whose turn it is.
func (t *Keys) Sign(now time.Time, s Subject) (string, error) {
	key := t.keys.signer(now)
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key.private, KeyID: key.id}},
		(&jose.SignerOptions{}).WithType(tokenType))
	if err != nil {
		return "", fmt.Errorf("prepare to sign a token: %w", err)
	}
	at := jwt.NewNumericDate(now)
	token, err := jwt.Signed(signer).Claims(Claims{
		Claims: jwt.Claims{
			Issuer: t.issuer, Audience: jwt.Audience{t.audience}, Subject: s.User,
			IssuedAt: at, Expiry: jwt.NewNumericDate(at.Time().Add(Lifetime)),
		},
		Team: s.Team, Session: s.Session, AuthTime: jwt.NewNumericDate(clock.FromMillis(s.AuthMillis)),
		Methods: s.Methods,
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

// errToken says why a token was refused, for the log; the client gets one text for every reason.
var errToken = errors.New("access token refused")

// Verify returns the claims of a token of ours that is valid now.
func (t *Keys) Verify(now time.Time, token string) (Claims, error) {
	refuse := func(why string) (Claims, error) { return Claims{}, fmt.Errorf("%w: %s", errToken, why) }
	if len(token) > maxTokenBytes || !canonical(token) {
		return refuse("length or encoding")
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(parsed.Headers) != 1 {
		return refuse("form or algorithm")
	}
	header := parsed.Headers[0]
	if typ, ok := header.ExtraHeaders[jose.HeaderType].(string); !ok || typ != tokenType {
		return refuse("typ")
	}
	key := t.keys.verifier(now, header.KeyID)
	if key == nil {
		return refuse("kid")
	}
	var c Claims
	if err := parsed.Claims(key, &c); err != nil {
		return refuse("signature")
	}
	switch {
	case c.Issuer != t.issuer:
		return refuse("iss")
	case len(c.Audience) != 1 || c.Audience[0] != t.audience:
		return refuse("aud")
	case c.Expiry == nil || !now.Before(c.Expiry.Time()):
		return refuse("exp")
	case c.IssuedAt == nil || now.Add(clockSkew).Before(c.IssuedAt.Time()):
		return refuse("iat")
	case c.NotBefore != nil && now.Add(clockSkew).Before(c.NotBefore.Time()):
		return refuse("nbf")
	case c.Expiry.Time().Sub(c.IssuedAt.Time()) > Lifetime:
		return refuse("lifetime")
	case c.AuthTime == nil || !id.Is(id.PrefixSession, c.Session):
		return refuse("auth_time or sid")
	case !id.Is(id.PrefixUser, c.Subject) || !id.Is(id.PrefixTeam, string(c.Team)):
		return refuse("sub or team")
	}
	return c, nil
}

// canonical reports whether every part of a compact token is written in the one way that its bytes have. The decoder
// ignores the spare bits of a part's last character, so that otherwise several texts would be the same token.
func canonical(token string) bool {
	parts := 0
	for part := range strings.SplitSeq(token, ".") {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return false
		}
		parts++
	}
	return parts == 3
}
