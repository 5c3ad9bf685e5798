package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sallyport/internal/platform/id"
)

const (
	// tokenType keeps a token of another kind, made with the same key, from being taken for an access token (RFC 8725,
	// section 3.11).
	tokenType = "admin+jwt"
	// TokenLifetime is how long an access token works.
	TokenLifetime = 15 * time.Minute
	// clockSkew is how far the clocks of two nodes may be apart before a fresh token is refused. It lengthens no token.
	clockSkew = 5 * time.Second
	// maxTokenBytes bounds what is decoded; our tokens have about 600.
	maxTokenBytes = 4096
)

// claims are those of an access token (RFC 7519, RFC 8176, OpenID Connect). Rights are not among them: they are read from
// the database for every request.
type claims struct {
	jwt.Claims
	Team     id.Team          `json:"team"`
	Session  string           `json:"sid"`
	AuthTime *jwt.NumericDate `json:"auth_time"`
	Methods  []string         `json:"amr"`
}

// signingKey is a row of signing_keys, opened.
type signingKey struct {
	id      string
	private *ecdsa.PrivateKey
}

func newSigningKey() (signingKey, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return signingKey{}, fmt.Errorf("make a signing key: %w", err)
	}
	return signingKey{id: id.New(id.PrefixSigningKey), private: k}, nil
}

// encode returns the key in PKCS #8.
func (k signingKey) encode() ([]byte, error) {
	b, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("encode a signing key: %w", err)
	}
	return b, nil
}

var errSigningKey = errors.New("the signing key is no P-256 key")

func decodeSigningKey(keyID string, der []byte) (signingKey, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return signingKey{}, fmt.Errorf("decode signing key %s: %w", keyID, err)
	}
	k, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || k.Curve != elliptic.P256() {
		return signingKey{}, fmt.Errorf("decode signing key %s: %w", keyID, errSigningKey)
	}
	return signingKey{id: keyID, private: k}, nil
}

// tokens signs with the newest key and verifies with every key.
type tokens struct {
	issuer   string
	audience string
	signer   jose.Signer
	public   map[string]*ecdsa.PublicKey
}

// newTokens takes the keys oldest first; there is at least one.
func newTokens(issuer string, keys []signingKey) (*tokens, error) {
	t := &tokens{issuer: issuer, audience: issuer + "/api/v1", public: map[string]*ecdsa.PublicKey{}}
	for _, k := range keys {
		t.public[k.id] = &k.private.PublicKey
	}
	newest := keys[len(keys)-1]
	var err error
	t.signer, err = jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: newest.private, KeyID: newest.id}},
		(&jose.SignerOptions{}).WithType(tokenType))
	if err != nil {
		return nil, fmt.Errorf("prepare to sign tokens: %w", err)
	}
	return t, nil
}

// sign returns an access token for a user who has just given their password.
func (t *tokens) sign(now time.Time, user string, team id.Team) (string, error) {
	at := jwt.NewNumericDate(now)
	token, err := jwt.Signed(t.signer).Claims(claims{
		Claims: jwt.Claims{
			Issuer: t.issuer, Audience: jwt.Audience{t.audience}, Subject: user,
			IssuedAt: at, Expiry: jwt.NewNumericDate(at.Time().Add(TokenLifetime)),
		},
		Team: team, Session: id.NewRandom(""), AuthTime: at, Methods: []string{"pwd"},
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

// errToken says why a token was refused, for the log; the client gets one text for every reason.
var errToken = errors.New("access token refused")

// verify returns the claims of a token of ours that is valid now.
func (t *tokens) verify(now time.Time, token string) (claims, error) {
	refuse := func(why string) (claims, error) { return claims{}, fmt.Errorf("%w: %s", errToken, why) }
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
	key := t.public[header.KeyID]
	if key == nil {
		return refuse("kid")
	}
	var c claims
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
	case c.Expiry.Time().Sub(c.IssuedAt.Time()) > TokenLifetime:
		return refuse("lifetime")
	case c.AuthTime == nil || c.Session == "":
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
