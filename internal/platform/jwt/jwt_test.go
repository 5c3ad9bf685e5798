package jwt_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/jwt"
)

const (
	skew     = 5 * time.Second
	grace    = time.Minute
	lifetime = time.Hour
)

func now() time.Time { return time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC) }

func policy() jwt.Policy {
	return jwt.Policy{Algorithms: []jose.SignatureAlgorithm{jose.ES256}, Types: jwt.OneOf("test+jwt"),
		MaxBytes: 2048, Issuers: jwt.OneOf("https://a.test", "https://b.test"), Audiences: jwt.OneOf("us"),
		RequireExpiry: true, RequireIssuedAt: true, Skew: skew, ExpirySkew: grace, MaxLifetime: lifetime}
}

func claims() map[string]any {
	return map[string]any{"iss": "https://b.test", "aud": []string{"us", "others"}, "sub": "ada",
		"iat": now().Unix(), "exp": now().Add(lifetime).Unix()}
}

// with returns the claims with one of them set, or removed if the value is nil.
func with(name string, value any) map[string]any {
	c := maps.Clone(claims())
	if c[name] = value; value == nil {
		delete(c, name)
	}
	return c
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, headers map[jose.HeaderKey]any, c any) string {
	t.Helper()
	o := &jose.SignerOptions{}
	for name, value := range headers {
		o = o.WithHeader(name, value)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	require.NoError(t, err)
	payload, err := json.Marshal(c)
	require.NoError(t, err)
	signed, err := s.Sign(payload)
	require.NoError(t, err)
	token, err := signed.CompactSerialize()
	require.NoError(t, err)
	return token
}

func typed(typ any) map[jose.HeaderKey]any { return map[jose.HeaderKey]any{"typ": typ} }

// only returns the key for every header.
func only(key any) jwt.Keys { return func(jose.Header) []any { return []any{key} } }

// Each rule of a policy rejects the tokens that break it, with an error of its own, and nothing else.
func TestPolicy(t *testing.T) {
	t.Parallel()
	key, other := newKey(t), newKey(t)
	p := policy()
	good := func(c map[string]any) string { return sign(t, jose.ES256, key, typed("test+jwt"), c) }
	at := func(d time.Duration) int64 { return now().Add(d).Unix() }
	secret := []byte(strings.Repeat("s", 32))
	twice := `{"iss":"https://a.test","iss":"https://b.test","aud":"us","iat":0,"exp":4000000000}`

	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"good":                    {good(claims()), nil},
		"typ in capitals":         {sign(t, jose.ES256, key, typed("TEST+JWT"), claims()), nil},
		"other issuer":            {good(with("iss", "https://c.test")), jwt.ErrIssuer},
		"no issuer":               {good(with("iss", nil)), jwt.ErrIssuer},
		"one audience":            {good(with("aud", "us")), nil},
		"other audience":          {good(with("aud", "others")), jwt.ErrAudience},
		"no audience":             {good(with("aud", nil)), jwt.ErrAudience},
		"expired within grace":    {good(with("exp", at(time.Second-grace))), nil},
		"expired":                 {good(with("exp", at(-grace))), jwt.ErrExpired},
		"no expiry":               {good(with("exp", nil)), jwt.ErrExpired},
		"issued within skew":      {good(with("iat", at(skew))), nil},
		"issued later":            {good(with("iat", at(skew+time.Second))), jwt.ErrIssuedLater},
		"no time of issue":        {good(with("iat", nil)), jwt.ErrIssuedLater},
		"valid within skew":       {good(with("nbf", at(skew))), nil},
		"valid later":             {good(with("nbf", at(skew+time.Second))), jwt.ErrNotYetValid},
		"lives too long":          {good(with("exp", at(lifetime+time.Second))), jwt.ErrLifetime},
		"other type":              {sign(t, jose.ES256, key, typed("at+jwt"), claims()), jwt.ErrType},
		"type that is not a text": {sign(t, jose.ES256, key, typed(1), claims()), jwt.ErrType},
		"empty type":              {sign(t, jose.ES256, key, typed(""), claims()), jwt.ErrType},
		"no type":                 {sign(t, jose.ES256, key, nil, claims()), jwt.ErrType},
		"other key":               {sign(t, jose.ES256, other, typed("test+jwt"), claims()), jwt.ErrSignature},
		"other algorithm":         {sign(t, jose.HS256, secret, typed("test+jwt"), claims()), jwt.ErrAlgorithm},
		"no algorithm":            {part(`{"alg":"none","typ":"test+jwt"}`) + "." + part(`{}`) + ".", jwt.ErrAlgorithm},
		"critical header":         {sign(t, jose.ES256, key, critical(), claims()), jwt.ErrCritical},
		"too large":               {good(with("sub", strings.Repeat("x", 2048))), jwt.ErrTooLarge},
		"no token":                {"", jwt.ErrMalformed},
		"two parts":               {"a.b", jwt.ErrMalformed},
		"padding":                 {good(claims()) + "=", jwt.ErrMalformed},
		"line break":              {good(claims()) + "\n", jwt.ErrMalformed},
		"claims that are a list":  {sign(t, jose.ES256, key, typed("test+jwt"), []int{1}), jwt.ErrClaims},
		"a claim twice":           {sign(t, jose.ES256, key, typed("test+jwt"), json.RawMessage(twice)), jwt.ErrClaims},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got struct {
				Subject string `json:"sub"`
			}
			err := p.Verify(now(), c.token, only(&key.PublicKey), &got)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "ada", got.Subject)
		})
	}
	require.ErrorIs(t, p.Verify(now(), good(claims()), func(jose.Header) []any { return nil }), jwt.ErrKey)
	several := func(jose.Header) []any { return []any{&other.PublicKey, &key.PublicKey} }
	require.NoError(t, p.Verify(now(), good(claims()), several))
	untyped := policy()
	untyped.Types = jwt.OneOf("", "JWT")
	require.NoError(t, untyped.Verify(now(), sign(t, jose.ES256, key, nil, claims()), several))
	require.NoError(t, untyped.Verify(now(), sign(t, jose.ES256, key, typed("jwt"), claims()), several))
	require.ErrorIs(t, untyped.Verify(now(), sign(t, jose.ES256, key, typed(""), claims()), several), jwt.ErrType)
	require.ErrorIs(t, untyped.Verify(now(), sign(t, jose.ES256, key, typed(1), claims()), several), jwt.ErrType)
	strict := policy()
	strict.OnlyAudience = true
	require.ErrorIs(t, strict.Verify(now(), good(claims()), several), jwt.ErrAudience)
	require.NoError(t, strict.Verify(now(), good(with("aud", "us")), several))
}

// A policy that accepts any type, issuer and audience says so, and rules that it leaves out are not checked. Form,
// algorithm and signature are always checked.
func TestOpenPolicy(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	p := jwt.Policy{Algorithms: []jose.SignatureAlgorithm{jose.ES256}, MaxBytes: 2048, Types: jwt.Any(),
		Issuers: jwt.Any(), Audiences: jwt.Any()}
	bare := sign(t, jose.ES256, key, nil, map[string]any{})
	require.NoError(t, p.Verify(now(), bare, only(&key.PublicKey)))
	require.ErrorIs(t, p.Verify(now(), bare, only(&newKey(t).PublicKey)), jwt.ErrSignature)
	require.NoError(t, p.Check(now(), jwt.Claims{Audience: josejwt.Audience{"a", "b"}, Issuer: "anyone"}))
}

// A policy in which a required rule was forgotten verifies nothing: neither a token that meets the others, nor one
// without any claim.
func TestPolicyWithoutRules(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	good := sign(t, jose.ES256, key, typed("test+jwt"), claims())
	bare := sign(t, jose.ES256, key, nil, map[string]any{})
	whole := policy()
	require.NoError(t, whole.Verify(now(), good, only(&key.PublicKey)))
	for name, c := range map[string]struct {
		forget func(p *jwt.Policy)
		want   error
	}{
		"everything":   {func(p *jwt.Policy) { *p = jwt.Policy{} }, jwt.ErrTooLarge},
		"all but size": {func(p *jwt.Policy) { *p = jwt.Policy{MaxBytes: 2048} }, jwt.ErrAlgorithm},
		"size":         {func(p *jwt.Policy) { p.MaxBytes = 0 }, jwt.ErrTooLarge},
		"algorithms":   {func(p *jwt.Policy) { p.Algorithms = nil }, jwt.ErrAlgorithm},
		"types":        {func(p *jwt.Policy) { p.Types = jwt.Values{} }, jwt.ErrType},
		"issuers":      {func(p *jwt.Policy) { p.Issuers = jwt.Values{} }, jwt.ErrIssuer},
		"audiences":    {func(p *jwt.Policy) { p.Audiences = jwt.Values{} }, jwt.ErrAudience},
		"empty types":  {func(p *jwt.Policy) { p.Types = jwt.OneOf() }, jwt.ErrType},
		"no issuer":    {func(p *jwt.Policy) { p.Issuers = jwt.OneOf() }, jwt.ErrIssuer},
		"no audience":  {func(p *jwt.Policy) { p.Audiences = jwt.OneOf() }, jwt.ErrAudience},
	} {
		p := policy()
		c.forget(&p)
		require.ErrorIs(t, p.Verify(now(), good, only(&key.PublicKey)), c.want, name)
		require.Error(t, p.Verify(now(), bare, only(&key.PublicKey)), name)
	}
	zero := new(jwt.Policy)
	_, err := zero.Parse(good)
	require.Error(t, err)
	require.Error(t, zero.CheckParties(jwt.Claims{}))
	require.Error(t, zero.Check(now(), jwt.Claims{}))
}

// A token is one text: with any one character replaced, added or left out it is rejected.
func TestTokenIsOneText(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	p := policy()
	token := sign(t, jose.ES256, key, typed("test+jwt"), claims())
	rapid.Check(t, func(rt *rapid.T) {
		i := rapid.IntRange(0, len(token)-1).Draw(rt, "at")
		c := rapid.SampledFrom([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/\n\r ")).Draw(rt,
			"character")
		changed := []string{token[:i] + string(c) + token[i:], token[:i] + token[i+1:]}
		if c != token[i] {
			changed = append(changed, token[:i]+string(c)+token[i+1:])
		}
		for _, text := range changed {
			require.Error(rt, p.Verify(now(), text, only(&key.PublicKey)))
		}
	})
}

func part(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func critical() map[jose.HeaderKey]any {
	return map[jose.HeaderKey]any{"typ": "test+jwt", "crit": []string{"b64"}, "b64": true}
}
