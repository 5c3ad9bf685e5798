package accesstokens

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

const (
	testIssuer   = "https://gateway.example.test"
	testAudience = testIssuer + "/api/v1"
)

// forge holds a key pair that the verifier knows and makes tokens with it, good and bad.
type forge struct {
	t      *testing.T
	key    signingKey
	tokens *Keys
	now    time.Time
}

func newForge(t *testing.T) forge {
	t.Helper()
	now := time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)
	k, err := newSigningKey(now)
	require.NoError(t, err)
	return forge{t: t, key: k, tokens: newKeys(testIssuer, keyring{k}), now: now}
}

// anyone is a subject for the signer.
func (f forge) anybody() Subject {
	return Subject{User: id.New(id.PrefixUser), Team: id.Team(id.New(id.PrefixTeam)), Session: id.New(id.PrefixSession),
		AuthMillis: clock.Millis(f.now)}
}

// claims are those of a good token.
func (f forge) claims() map[string]any {
	return map[string]any{
		"iss": testIssuer, "aud": testAudience, "sub": id.New(id.PrefixUser), "team": id.New(id.PrefixTeam),
		"sid": id.New(id.PrefixSession), "iat": f.now.Unix(), "exp": f.now.Add(Lifetime).Unix(),
		"auth_time": f.now.Unix(), "amr": []string{"pwd"},
	}
}

func (f forge) with(name string, value any) map[string]any {
	c := f.claims()
	if value == nil {
		delete(c, name)
	} else {
		c[name] = value
	}
	return c
}

// sign signs with any algorithm, key, type and key id.
func (f forge) sign(alg jose.SignatureAlgorithm, key any, typ jose.ContentType, kid string, c map[string]any) string {
	f.t.Helper()
	o := (&jose.SignerOptions{}).WithHeader("kid", kid)
	if typ != "" {
		o = o.WithType(typ)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	require.NoError(f.t, err)
	token, err := jwt.Signed(s).Claims(c).Serialize()
	require.NoError(f.t, err)
	return token
}

func (f forge) good(c map[string]any) string {
	return f.sign(jose.ES256, f.key.private, tokenType, f.key.id, c)
}

// extra signs a token with one more header.
func (f forge) extra(t *testing.T, name jose.HeaderKey, value any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: f.key.private},
		(&jose.SignerOptions{}).WithHeader("kid", f.key.id).WithHeader(name, value).WithType(tokenType))
	require.NoError(t, err)
	token, err := jwt.Signed(s).Claims(f.claims()).Serialize()
	require.NoError(t, err)
	return token
}

func part(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString(b)
}

// The forge itself makes tokens that pass, so that a refusal below is due to the one thing that differs.
func TestTokenAccepted(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	c := f.claims()
	got, err := f.tokens.Verify(f.now, f.good(c))
	require.NoError(t, err)
	require.Equal(t, c["sub"], got.Subject)
	require.Equal(t, c["team"], string(got.Team))

	ours, err := f.tokens.Sign(f.now, f.anybody())
	require.NoError(t, err)
	_, err = f.tokens.Verify(f.now.Add(Lifetime-time.Second), ours)
	require.NoError(t, err)
	var header, body map[string]any
	for i, dest := range []*map[string]any{&header, &body} {
		b, err := base64.RawURLEncoding.DecodeString(strings.Split(ours, ".")[i])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, dest))
	}
	require.Equal(t, map[string]any{"alg": "ES256", "typ": "admin+jwt", "kid": f.key.id}, header)
	require.ElementsMatch(t, []string{"iss", "aud", "sub", "team", "sid", "auth_time", "amr", "iat", "exp"},
		slices.Collect(maps.Keys(body)))
	require.NotContains(t, ours, "owner")
}

// Each way to pass off something else as an access token is refused (RFC 8725, sections 2 and 3).
func TestTokenConfusion(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	der, err := x509.MarshalPKIXPublicKey(&f.key.private.PublicKey)
	require.NoError(t, err)
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	jwk, err := jose.JSONWebKey{Key: &f.key.private.PublicKey, KeyID: f.key.id}.MarshalJSON()
	require.NoError(t, err)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	good := f.good(f.claims())
	parts := strings.Split(good, ".")
	none := part(t, map[string]string{"alg": "none", "typ": tokenType, "kid": f.key.id})
	embedded, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: stranger},
		(&jose.SignerOptions{EmbedJWK: true}).WithType(tokenType))
	require.NoError(t, err)
	withOwnKey, err := jwt.Signed(embedded).Claims(f.claims()).Serialize()
	require.NoError(t, err)
	at := func(d time.Duration) int64 { return f.now.Add(d).Unix() }

	for name, token := range map[string]string{
		"empty":                          "",
		"not a token":                    "a.b.c",
		"alg none without signature":     none + "." + parts[1] + ".",
		"alg none with signature":        none + "." + parts[1] + "." + parts[2],
		"HS256 with the public DER":      f.sign(jose.HS256, der, tokenType, f.key.id, f.claims()),
		"HS256 with the public PEM":      f.sign(jose.HS256, pemKey, tokenType, f.key.id, f.claims()),
		"HS256 with the public JWK":      f.sign(jose.HS256, jwk, tokenType, f.key.id, f.claims()),
		"ES384":                          f.sign(jose.ES384, p384, tokenType, f.key.id, f.claims()),
		"a stranger's key, our kid":      f.sign(jose.ES256, stranger, tokenType, f.key.id, f.claims()),
		"a stranger's key in the header": withOwnKey,
		"unknown kid": f.sign(jose.ES256, f.key.private, tokenType, id.New(id.PrefixSigningKey),
			f.claims()),
		"kid that is a path": f.sign(jose.ES256, f.key.private, tokenType, "../../"+f.key.id, f.claims()),
		"kid that is a file": f.sign(jose.HS256, []byte(strings.Repeat("\x00", 32)), tokenType, "/dev/null",
			f.claims()),
		"kid that is a URL": f.sign(jose.ES256, stranger, tokenType, "https://attacker.example.test/jwks.json",
			f.claims()),
		"kid that is SQL":       f.sign(jose.ES256, f.key.private, tokenType, f.key.id+"' OR '1'='1", f.claims()),
		"kid with a line break": f.sign(jose.ES256, f.key.private, tokenType, f.key.id+"\n", f.claims()),
		"kid in capitals":       f.sign(jose.ES256, f.key.private, tokenType, strings.ToUpper(f.key.id), f.claims()),
		"a critical header":     f.extra(t, "crit", []string{"exp"}),
		"empty kid":             f.sign(jose.ES256, f.key.private, tokenType, "", f.claims()),
		"no typ":                f.sign(jose.ES256, f.key.private, "", f.key.id, f.claims()),
		"typ JWT":               f.sign(jose.ES256, f.key.private, "JWT", f.key.id, f.claims()),
		"typ at+jwt":            f.sign(jose.ES256, f.key.private, "at+jwt", f.key.id, f.claims()),
		"signature cut off":     parts[0] + "." + parts[1] + ".",
		"two tokens mixed":      parts[0] + "." + strings.Split(f.good(f.claims()), ".")[1] + "." + parts[2],
		"JSON serialization": `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] +
			`"}`, "too long": f.good(f.with("sid", strings.Repeat("x", maxTokenBytes))),
		"other iss":                 f.good(f.with("iss", testIssuer+"/")),
		"no iss":                    f.good(f.with("iss", nil)),
		"other aud":                 f.good(f.with("aud", testIssuer)),
		"no aud":                    f.good(f.with("aud", nil)),
		"our aud among others":      f.good(f.with("aud", []string{testAudience, "https://other.example.test"})),
		"expired":                   f.good(f.with("exp", at(0))),
		"no exp":                    f.good(f.with("exp", nil)),
		"no iat":                    f.good(f.with("iat", nil)),
		"iat in the future":         f.good(f.with("iat", at(clockSkew+time.Second))),
		"nbf in the future":         f.good(f.with("nbf", at(clockSkew+time.Second))),
		"longer than a token lives": f.good(f.with("exp", at(Lifetime+time.Second))),
		"no auth_time":              f.good(f.with("auth_time", nil)),
		"no sid":                    f.good(f.with("sid", nil)),
		"sid that is no session":    f.good(f.with("sid", id.NewRandom(""))),
		"sid that no engine stores": f.good(f.with("sid", id.PrefixSession+"\x00")),
		"sub that is no user":       f.good(f.with("sub", id.New(id.PrefixAPIKey))),
		"no sub":                    f.good(f.with("sub", nil)),
		"team that is none":         f.good(f.with("team", id.New(id.PrefixEnvironment))),
		"no team":                   f.good(f.with("team", nil)),
	} {
		_, err := f.tokens.Verify(f.now, token)
		require.ErrorIs(t, err, errToken, name)
	}
}

// A token of this key that another deployment issued is refused here.
func TestTokenOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	token, err := newKeys("https://other.example.test", keyring{f.key}).Sign(f.now, f.anybody())
	require.NoError(t, err)
	_, err = f.tokens.Verify(f.now, token)
	require.ErrorIs(t, err, errToken)
}

// A token is refused from the very moment that exp names (RFC 7519, section 4.1.4): skew lengthens nothing.
func TestTokenEndsOnTime(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	token := f.good(f.claims())
	_, err := f.tokens.Verify(f.now.Add(Lifetime-time.Nanosecond), token)
	require.NoError(t, err)
	_, err = f.tokens.Verify(f.now.Add(Lifetime), token)
	require.ErrorIs(t, err, errToken)
}

// A token is one text: with any one character replaced, added or left out it is refused.
func TestTokenTampering(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	token := f.good(f.claims())
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(token)-1).Draw(t, "at")
		c := rapid.SampledFrom([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/\n\r ")).Draw(t,
			"character")
		if c != token[i] {
			_, err := f.tokens.Verify(f.now, token[:i]+string(c)+token[i+1:])
			require.ErrorIs(t, err, errToken, "replaced")
		}
		_, err := f.tokens.Verify(f.now, token[:i]+string(c)+token[i:])
		require.ErrorIs(t, err, errToken, "added")
		_, err = f.tokens.Verify(f.now, token[:i]+token[i+1:])
		require.ErrorIs(t, err, errToken, "left out")
	})
	// The spare bits of each part's last character, which a lenient decoder ignores.
	for end := range len(token) {
		if end+1 < len(token) && token[end+1] != '.' {
			continue
		}
		for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
			if byte(c) == token[end] {
				continue
			}
			_, err := f.tokens.Verify(f.now, token[:end]+string(c)+token[end+1:])
			require.ErrorIs(t, err, errToken, "at %d", end)
		}
	}
}
