package sso_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit"
)

// An ID token is accepted only as the provider's own, for this client, for this sign-in, now, and for a person with a
// verified address. In each of these sign-ins everything else is right.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		now := f.clk.Now()
		claim := func(name string, value any) func(*testkit.Behaviour) {
			return func(b *testkit.Behaviour) { b.Claims = func(c map[string]any) { c[name] = value } }
		}
		without := func(name string) func(*testkit.Behaviour) {
			return func(b *testkit.Behaviour) {
				b.Claims = func(c map[string]any) { delete(c, name) }
				person := map[string]any{}
				for k, v := range b.Person {
					if k != name {
						person[k] = v
					}
				}
				b.Person = person
			}
		}
		sign := func(token func(c map[string]any) string) func(*testkit.Behaviour) {
			return func(b *testkit.Behaviour) { b.Sign = token }
		}
		right := f.idp.Signed
		stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		public, err := x509.MarshalPKIXPublicKey(&f.idp.Key.PublicKey)
		require.NoError(t, err)
		asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
		var original testkit.Behaviour
		f.idp.Set(func(b *testkit.Behaviour) { original = *b })
		for name, attack := range map[string]struct {
			lie  func(*testkit.Behaviour)
			want string
		}{
			"no signature": {sign(func(c map[string]any) string {
				body, _ := json.Marshal(c)
				b64 := base64.RawURLEncoding
				return b64.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + b64.EncodeToString(body) + "."
			}), "algorithm"},
			"HMAC with the public key": {sign(func(c map[string]any) string {
				return f.idp.SignedBy(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: asPEM, KeyID: f.idp.KeyID}},
					"JWT", c)
			}), "algorithm"},
			"HMAC with the client's secret": {sign(func(c map[string]any) string {
				return f.idp.SignedBy(jose.SigningKey{Algorithm: jose.HS256, Key: bytes.Repeat([]byte(f.idp.ClientSecret), 2)},
					"JWT", c)
			}), "algorithm"},
			"a stranger's key": {sign(func(c map[string]any) string {
				return f.idp.SignedBy(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: stranger,
					KeyID: f.idp.KeyID}}, "JWT", c)
			}), "signature"},
			"a stranger's key under another name": {sign(func(c map[string]any) string {
				return f.idp.SignedBy(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: stranger, KeyID: "another"}},
					"JWT", c)
			}), "does not publish"},
			"a token of another kind": {sign(func(c map[string]any) string {
				return f.idp.SignedBy(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: f.idp.Key,
					KeyID: f.idp.KeyID}}, "at+jwt", c)
			}), "another kind"},
			"claims changed after signing": {sign(func(c map[string]any) string {
				parts := strings.Split(right(c), ".")
				c["email"] = "ada@example.test"
				body, _ := json.Marshal(c)
				return parts[0] + "." + base64.RawURLEncoding.EncodeToString(body) + "." + parts[2]
			}), "signature"},
			"a key in its own header": {sign(func(c map[string]any) string {
				return raw(t, jose.SigningKey{Algorithm: jose.ES256, Key: stranger}, &jose.SignerOptions{EmbedJWK: true}, c)
			}), "signature"},
			"a key in its own header under the right name": {sign(func(c map[string]any) string {
				key := jose.JSONWebKey{Key: stranger, KeyID: f.idp.KeyID}
				return raw(t, jose.SigningKey{Algorithm: jose.ES256, Key: key}, &jose.SignerOptions{EmbedJWK: true}, c)
			}), "signature"},
			"keys that the token says where to find": {sign(func(c map[string]any) string {
				o := (&jose.SignerOptions{}).WithHeader("jku", f.idp.URL+"/mine")
				return raw(t, jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: stranger, KeyID: "mine"}}, o, c)
			}), "does not publish"},
			"an extension that must be understood": {sign(func(c map[string]any) string {
				o := (&jose.SignerOptions{}).WithHeader("crit", []string{"exp"})
				return raw(t, jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: f.idp.Key, KeyID: f.idp.KeyID}}, o,
					c)
			}), "signature"},
			"a claim that is there twice": {sign(func(c map[string]any) string {
				return raw(t, jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: f.idp.Key, KeyID: f.idp.KeyID}}, nil,
					twice{"sub", "person-2", c})
			}), "signature"},
			"claims in capitals": {func(b *testkit.Behaviour) {
				without("email")(b)
				b.Claims = func(c map[string]any) {
					delete(c, "email")
					c["Email"], c["EMAIL"] = "ada@example.test", "ada@example.test"
				}
			}, "no e-mail address"},
			"userinfo with an address that is there twice": {func(b *testkit.Behaviour) {
				without("email")(b)
				b.Handlers = map[string]http.HandlerFunc{"/userinfo": func(w http.ResponseWriter, _ *http.Request) {
					_, _ = w.Write([]byte(`{"sub":"person-1","email":"ada@example.test","email":"grace@example.test",` +
						`"email_verified":true}`)) // the test fails
				}}
			}, "not the JSON"},
			"userinfo behind a redirect": {func(b *testkit.Behaviour) {
				without("email")(b)
				b.Handlers = map[string]http.HandlerFunc{"/userinfo": func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, "/stolen", http.StatusTemporaryRedirect)
				}}
			}, "status 307"},
			"tokens behind a redirect": {func(b *testkit.Behaviour) {
				b.Handlers = map[string]http.HandlerFunc{"/token": func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, "/stolen", http.StatusTemporaryRedirect)
				}}
			}, "status 307"},
			"a huge token":                   {claim("padding", strings.Repeat("a", 70<<10)), "larger than"},
			"another issuer":                 {claim("iss", "https://elsewhere.example.test"), "another issuer"},
			"the issuer with a slash":        {claim("iss", f.idp.URL+"/"), "another issuer"},
			"no issuer":                      {without("iss"), "another issuer"},
			"another audience":               {claim("aud", "another-client"), "another client"},
			"no audience":                    {without("aud"), "another client"},
			"two audiences and no azp":       {claim("aud", []string{f.idp.ClientID, "another-client"}), "another client"},
			"another authorized party":       {claim("azp", "another-client"), "another client"},
			"expired":                        {claim("exp", now.Add(-61*time.Second).Unix()), "expired"},
			"no expiry":                      {without("exp"), "expired"},
			"issued in the future":           {claim("iat", now.Add(61*time.Second).Unix()), "future"},
			"no time of issue":               {without("iat"), "future"},
			"not valid yet":                  {claim("nbf", now.Add(61*time.Second).Unix()), "not valid yet"},
			"another nonce":                  {claim("nonce", "of another sign-in"), "another sign-in"},
			"no nonce":                       {without("nonce"), "another sign-in"},
			"no subject":                     {without("sub"), "no subject"},
			"a long subject":                 {claim("sub", strings.Repeat("s", 256)), "no subject"},
			"a subject with control":         {claim("sub", "a\x00b"), "no subject"},
			"an address that is unverified":  {claim("email_verified", false), "not verified"},
			"verified in other words":        {claim("email_verified", "yes"), "not verified"},
			"no word about the verification": {without("email_verified"), "not verified"},
			"no address":                     {without("email"), "no e-mail address"},
			"an address of another domain":   {claim("email", "grace@elsewhere.test"), "no domain"},
			"a domain that ends alike":       {claim("email", "grace@notexample.test"), "no domain"},
			"a subdomain":                    {claim("email", "grace@sub.example.test"), "no domain"},
			"groups that are not a list":     {claim("groups", map[string]any{"a": "b"}), "groups"},
			"too many groups":                {claim("groups", make([]string, 1001)), "groups"},
			"userinfo about another person": {func(b *testkit.Behaviour) {
				without("email")(b)
				b.Claims = func(c map[string]any) { c["sub"] = "person-2"; delete(c, "groups") }
			}, "another user"},
		} {
			t.Run(name, func(t *testing.T) {
				f.idp.Set(func(b *testkit.Behaviour) {
					*b = original
					attack.lie(b)
				})
				_, err := f.signIn(t, p)
				require.True(t, apperr.Is(err, apperr.CodeSSOFailed), "%v", err)
				require.ErrorContains(t, err, attack.want)
			})
		}
		require.Zero(t, f.count(t, "sessions"))
		require.Zero(t, f.count(t, "user_identities"))
		for _, path := range []string{"/stolen", "/mine"} {
			require.Zero(t, f.idp.Asked(path), "nothing leaves for where an answer or a token leads")
		}
		f.idp.Set(func(b *testkit.Behaviour) { *b = original })
		_, err = f.signIn(t, p)
		require.NoError(t, err, "it was the lie each time")
	})
}

// raw signs claims of any form.
func raw(t *testing.T, key jose.SigningKey, o *jose.SignerOptions, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, o)
	require.NoError(t, err)
	payload, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := signer.Sign(payload)
	require.NoError(t, err)
	token, err := signed.CompactSerialize()
	require.NoError(t, err)
	return token
}

// twice is claims of which one is there a second time.
type twice struct {
	name   string
	value  any
	claims map[string]any
}

func (v twice) MarshalJSON() ([]byte, error) {
	rest, err := json.Marshal(v.claims)
	if err != nil {
		return nil, err
	}
	first, err := json.Marshal(map[string]any{v.name: v.value})
	return append(append(first[:len(first)-1], ','), rest[1:]...), err
}
