package e2e_test

import (
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

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit"
)

// A person who has an access token and all that the service publishes cannot make another token from it. No token that
// another party signed is accepted, nor is a refresh token (RFC 8725, sections 2 and 3). All of them get one response.
func TestForgedAccessTokens(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.base+"/.well-known/jwks.json", http.NoBody)
		require.NoError(w.t, err)
		resp, err := w.http.Do(r)
		require.NoError(w.t, err)
		var published jose.JSONWebKeySet
		require.NoError(w.t, json.NewDecoder(resp.Body).Decode(&published))
		require.NoError(w.t, resp.Body.Close())
		require.Len(w.t, published.Keys, 1)
		theirs := published.Keys[0]
		jwk, err := theirs.MarshalJSON()
		require.NoError(w.t, err)
		der, err := x509.MarshalPKIXPublicKey(theirs.Key)
		require.NoError(w.t, err)
		public, ok := theirs.Key.(*ecdsa.PublicKey)
		require.True(w.t, ok)
		point, err := public.Bytes()
		require.NoError(w.t, err)
		mine, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(w.t, err)
		idp := testkit.NewIdP(w.t, w.clk.Now) // the attacker's, which publishes a key of theirs

		genuine := w.token()
		parts := strings.Split(genuine, ".")
		require.Len(w.t, parts, 3)
		b64 := base64.RawURLEncoding
		claims, err := b64.DecodeString(parts[1])
		require.NoError(w.t, err)
		headed := func(header object) string {
			text, err := json.Marshal(header)
			require.NoError(w.t, err)
			return b64.EncodeToString(text) + "." + parts[1]
		}
		signed := func(alg jose.SignatureAlgorithm, key any, header map[jose.HeaderKey]any) string {
			o := (&jose.SignerOptions{}).WithType("admin+jwt").WithHeader("kid", theirs.KeyID)
			for name, value := range header {
				o.WithHeader(name, value)
			}
			s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
			require.NoError(w.t, err)
			token, err := s.Sign(claims)
			require.NoError(w.t, err)
			text, err := token.CompactSerialize()
			require.NoError(w.t, err)
			return text
		}
		type headers = map[jose.HeaderKey]any
		forged := map[string]string{
			"HMAC with the key in PEM": signed(jose.HS256, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
				nil),
			"HMAC with the key in DER":    signed(jose.HS256, der, nil),
			"HMAC with the published key": signed(jose.HS256, jwk, nil),
			"HMAC with the point":         signed(jose.HS256, point, nil),
			"my key under your name":      signed(jose.ES256, mine, nil),
			"my key in the header": signed(jose.ES256, mine,
				headers{"jwk": jose.JSONWebKey{Key: &mine.PublicKey, KeyID: theirs.KeyID}}),
			"my keys at a URL":       signed(jose.ES256, idp.Key, headers{"jku": idp.URL + "/keys", "kid": idp.KeyID}),
			"a name that is a URL":   signed(jose.ES256, idp.Key, headers{"kid": idp.URL + "/keys"}),
			"a name that is a path":  signed(jose.HS256, make([]byte, 32), headers{"kid": "../../../../dev/zero"}),
			"a name that is a query": signed(jose.ES256, mine, headers{"kid": "' OR 1=1 --"}),
			"the token of a provider": idp.Signed(map[string]any{"iss": idp.URL, "aud": idp.ClientID, "sub": "person-1",
				"email": w.email, "email_verified": true}),
			"the key's own JSON": b64.EncodeToString(jwk) + "." + parts[1] + "." + parts[2],
			"claims changed": parts[0] + "." +
				b64.EncodeToString([]byte(strings.Replace(string(claims), `"amr":["pwd"]`, `"amr":["pwd","otp"]`, 1))) + "." +
				parts[2], "a signature in another coding": parts[0] + "." + parts[1] + "." +
				base64.StdEncoding.EncodeToString(make([]byte, 64)),
			// CVE-2022-21449
			"a signature of zeros": parts[0] + "." + parts[1] + "." + b64.EncodeToString(make([]byte, 64)),
			"encrypted to nobody":  headed(object{"alg": "dir", "enc": "A256GCM"}) + "...",
		}
		require.NotEqual(w.t, genuine, forged["claims changed"])
		for _, none := range []string{"none", "None", "NONE", "nOnE", ""} {
			forged["algorithm "+none] = headed(object{"alg": none, "typ": "admin+jwt", "kid": theirs.KeyID}) + "."
			forged["signed by algorithm "+none] = headed(object{"alg": none, "typ": "admin+jwt", "kid": theirs.KeyID}) + "." +
				parts[2]
		}
		cookie := w.signIn(w.email, w.password).cookie(w)
		_, forged["a refresh token"], _ = strings.Cut(cookie, "=")
		name, _, _ := strings.Cut(cookie, "=")

		texts := refusals{}
		w.unchanged(func() {
			for what, token := range forged {
				for _, path := range []string{"/team/me", "/webhook-events", "/api-keys", "/team/sso"} {
					a := w.call(byToken(token, w.env), http.MethodGet, path, nil)
					require.Equal(w.t, http.StatusUnauthorized, a.status, "%s at %s", what, path)
					texts[a.refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized).Error.Message] = true
				}
			}
			w.call(byCookie(name+"="+genuine), http.MethodPost, "/team/token/refresh", nil).refused(w, http.StatusUnauthorized,
				apperr.CodeUnauthorized)
		})
		require.Len(w.t, texts, 1, "one text for every reason")
		require.Zero(w.t, idp.Asked("/keys"), "no token says where its key is")
		w.call(byToken(genuine, ""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK)
	})
}
