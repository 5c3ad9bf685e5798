package sso_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// Promise: an ID token is believed only as the provider's own, for this client, for this sign-in, now, and of somebody
// whose address is verified. Everything else is right in each of these sign-ins.
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
					_, _ = w.Write([]byte(`{"sub":"person-1","email":"ada@example.test","email":"grace@example.test","email_verified":true}`)) // the test fails
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
			"groups that are no list":        {claim("groups", map[string]any{"a": "b"}), "groups"},
			"too many groups":                {claim("groups", make([]string, 1001)), "groups"},
			"userinfo about somebody else": {func(b *testkit.Behaviour) {
				without("email")(b)
				b.Claims = func(c map[string]any) { c["sub"] = "person-2"; delete(c, "groups") }
			}, "somebody else"},
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

// Promise: an answer works once, in the browser that asked for it, at the provider that was asked, within ten minutes.
// A code that is not of the sign-in is worth nothing.
func TestStolenAnswers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p, other := f.provider(t), f.provider(t)
		start := func() sso.Begun {
			begun, err := f.Start(t.Context(), p.ID, "/docs")
			require.NoError(t, err)
			return begun
		}
		finish := func(provider string, browser secretbox.Secret, a sso.Answer) error {
			_, _, err := f.Finish(t.Context(), client(), provider, browser, a, "")
			return err
		}
		mine, victims := start(), start()
		answer := browse(t, mine)
		stale := func(err error) {
			t.Helper()
			require.True(t, apperr.Is(err, apperr.CodeSSOStateInvalid), "%v", err)
		}
		stale(finish(p.ID, victims.Browser, answer)) // login CSRF: an attacker's answer in the victim's browser
		stale(finish(p.ID, "", answer))
		stale(finish(p.ID, "x", answer))
		stale(finish(other.ID, mine.Browser, answer))
		stale(finish(p.ID, mine.Browser, sso.Answer{Code: answer.Code, Issuer: answer.Issuer}))
		require.NoError(t, finish(p.ID, mine.Browser, answer), "none of them has used it up")
		stale(finish(p.ID, mine.Browser, answer))

		// A code that was stolen from one sign-in is injected into another: PKCE ties it to the first.
		first, second := start(), start()
		stolen, own := browse(t, first), browse(t, second)
		own.Code = stolen.Code
		err := finish(p.ID, second.Browser, own)
		require.True(t, apperr.Is(err, apperr.CodeSSOFailed), "%v", err)
		require.ErrorContains(t, err, "does not accept the authorization code")

		late := start()
		answer = browse(t, late)
		f.clk.Advance(sso.SignInLifetime)
		stale(finish(p.ID, late.Browser, answer))

		for name, lie := range map[string]func(q url.Values){
			"another issuer": func(q url.Values) { q.Set("iss", "https://elsewhere.example.test") },
			"no issuer":      func(q url.Values) { q.Del("iss") },
			"no code":        func(q url.Values) { q.Del("code") },
		} {
			f.idp.Set(func(b *testkit.Behaviour) { b.Answer = lie })
			exchanged := f.idp.Asked("/token")
			_, err := f.signIn(t, p)
			require.True(t, apperr.Is(err, apperr.CodeSSOFailed), "%s: %v", name, err)
			require.Equal(t, exchanged, f.idp.Asked("/token"), "%s: no code leaves for anywhere", name)
		}
		f.idp.Set(func(b *testkit.Behaviour) {
			b.Answer = func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }
		})
		_, err = f.signIn(t, p)
		require.ErrorContains(t, err, "refuses the sign-in")
	})
}

// Promise: of many who bring one answer at the same time, on several nodes, one is signed in.
func TestAnswersWorkOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		begun, err := f.Start(t.Context(), p.ID, "/docs")
		require.NoError(t, err)
		answer := browse(t, begun)
		nodes := []*sso.Service{f.Service, f.node(egress.Policy{AllowLoopback: true, AllowHTTP: true})}
		errs := make(chan error, 6)
		var all sync.WaitGroup
		for n := range cap(errs) {
			all.Go(func() {
				_, _, err := nodes[n%2].Finish(t.Context(), client(), p.ID, begun.Browser, answer, "")
				errs <- err
			})
		}
		all.Wait()
		close(errs)
		right := 0
		for err := range errs {
			if err == nil {
				right++
				continue
			}
			require.True(t, apperr.Is(err, apperr.CodeSSOStateInvalid), "%v", err)
		}
		require.Equal(t, 1, right)
		require.Equal(t, 1, f.count(t, "sessions"))
	})
}

// Promise: a provider that does not answer as it should makes no sign-in, takes no memory, and leads the service
// nowhere else; the test of the provider says what is wrong.
func TestBadProviders(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		internal := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the service was led to another target")
		}))
		await.Close(t, internal)
		discovery := "/.well-known/openid-configuration"
		answers := func(path string, h http.HandlerFunc) func(*testkit.Behaviour) {
			return func(b *testkit.Behaviour) { b.Handlers = map[string]http.HandlerFunc{path: h} }
		}
		publishes := func(name string, value any) func(*testkit.Behaviour) {
			return func(b *testkit.Behaviour) { b.Metadata = func(m map[string]any) { m[name] = value } }
		}
		huge := func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[` + strings.Repeat(`{"kty":"x"},`, 100_000))) // the client hangs up
		}
		redirect := func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, internal.URL+"/secret", http.StatusFound)
		}
		many := func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"keys":[%s{}]}`, strings.Repeat(`{},`, 100))
		}
		symmetric := func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"first"}]}`))
		}
		short, err := json.Marshal(jose.JSONWebKeySet{
			Keys: []jose.JSONWebKey{{Key: &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 1023), E: 65537}, KeyID: "short",
				Use: "sig"}}})
		require.NoError(t, err)
		weak := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(short) } // the test fails
		var original testkit.Behaviour
		f.idp.Set(func(b *testkit.Behaviour) { original = *b })
		for name, bad := range map[string]struct {
			lie  func(*testkit.Behaviour)
			want string
		}{
			"no discovery document": {answers(discovery, http.NotFound), "status 404"},
			"a broken server": {answers(discovery, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
			}), "status 500"},
			"a page in its place": {answers(discovery, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("<html>"))
			}), "not the JSON"},
			"a huge document":         {answers(discovery, huge), "larger than"},
			"a redirect":              {answers(discovery, redirect), "status 302"},
			"another issuer":          {publishes("issuer", "https://elsewhere.example.test"), "another issuer"},
			"an endpoint of a script": {publishes("authorization_endpoint", "javascript:alert(1)"), "authorization_endpoint"},
			"no token endpoint":       {publishes("token_endpoint", ""), "token_endpoint"},
			"keys from a file":        {publishes("jwks_uri", "file:///etc/passwd"), "jwks_uri"},
			"no code flow":            {publishes("response_types_supported", []string{"id_token"}), "code flow"},
			"PKCE without a hash":     {publishes("code_challenge_methods_supported", []string{"plain"}), "S256"},
			"signatures by HMAC alone": {publishes("id_token_signing_alg_values_supported", []string{"HS256", "none"}),
				"algorithm"},
			"a huge key set":            {answers("/keys", huge), "larger than"},
			"keys behind a redirect":    {answers("/keys", redirect), "status 302"},
			"a key set of many keys":    {answers("/keys", many), "more than 100"},
			"a key set without a key":   {answers("/keys", symmetric), "no public key"},
			"a key that is too short":   {answers("/keys", weak), "no public key"},
			"keys at a private address": {publishes("jwks_uri", "http://10.0.0.1/keys"), "jwks_uri"},
			"the cloud's metadata": {publishes("token_endpoint", "http://169.254.169.254/latest/meta-data/"),
				"token_endpoint"},
			"a member there twice": {answers(discovery, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"issuer":"https://elsewhere.example.test","issuer":"` + f.idp.URL + `"}`)) // the test fails
			}), "not the JSON"},
			"an endpoint with userinfo": {publishes("userinfo_endpoint", "https://a:b@example.test/"), "userinfo_endpoint"},
		} {
			f.idp.Set(func(b *testkit.Behaviour) {
				*b = original
				bad.lie(b)
			})
			fresh := f.node(egress.Policy{AllowLoopback: true, AllowHTTP: true}) // with nothing in its cache
			p := f.provider(t)
			_, err := fresh.Start(t.Context(), p.ID, "/docs")
			require.True(t, apperr.Is(err, apperr.CodeSSOFailed) || apperr.Is(err, apperr.CodeSSOUnavailable), "%s: %v", name,
				err)
			require.ErrorContains(t, err, bad.want, name)
			checks := fresh.Test(t.Context(), p)
			last := checks[len(checks)-1]
			require.False(t, last.OK, name)
			require.Contains(t, last.Message, bad.want, name)
			require.NoError(t, f.Delete(t.Context(), f.owner, p.ID))
		}
		require.Zero(t, f.count(t, "sso_sign_ins"))

		// The policy of every outgoing request holds for these too: without the operator's leave no provider is on a private
		// address.
		f.idp.Set(func(b *testkit.Behaviour) { *b = original })
		p := f.provider(t)
		asked := f.idp.Asked(discovery)
		strict := f.node(egress.Policy{AllowHTTP: true})
		_, err = strict.Start(t.Context(), p.ID, "/docs")
		require.True(t, apperr.Is(err, apperr.CodeSSOUnavailable) || apperr.Is(err, apperr.CodeSSOFailed), "%v", err)
		require.ErrorContains(t, err, "private, loopback")
		require.Equal(t, asked, f.idp.Asked(discovery))
		checks := f.Test(t.Context(), p)
		require.Equal(t, []sso.Check{{Name: sso.CheckDiscovery, OK: true}, {Name: sso.CheckKeys, OK: true}}, checks)
	})
}

// Promise: a provider that never answers holds a sign-in for the time-out of one exchange and no longer, at each of its
// endpoints.
func TestHangingProviders(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		hang := func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client has gone
			<-r.Context().Done()
		}
		begin := func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[`)) // a client that has gone is what the test wants
			_ = http.NewResponseController(w).Flush()
			hang(w, r)
		}
		for path, want := range map[string]string{
			"/.well-known/openid-configuration": "discovery document", "/keys": "key set", "/token": "token endpoint",
		} {
			for _, h := range []http.HandlerFunc{hang, begin} {
				f.idp.Set(func(b *testkit.Behaviour) { b.Handlers = map[string]http.HandlerFunc{path: h} })
				var err error
				// A machine that is busy may be too slow for an endpoint that answers, too.
				for err == nil || !strings.Contains(err.Error(), want) {
					f.Service = f.hasty(egress.Policy{AllowLoopback: true, AllowHTTP: true}, 200*time.Millisecond)
					var begun sso.Begun
					if begun, err = f.Start(t.Context(), p.ID, "/docs"); err == nil {
						_, _, err = f.Finish(t.Context(), client(), p.ID, begun.Browser, browse(t, begun), "")
					}
					require.True(t, apperr.Is(err, apperr.CodeSSOUnavailable), "%s: %v", path, err)
				}
			}
		}
	})
}

// Promise: answers of providers that somebody makes up are refused while the database has a writer: they wait for none,
// and so keep none waiting.
func TestMadeUpAnswersTakeNoWriter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		made := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
		var finished error
		require.NoError(t, f.store.DB.Tx(t.Context(), func(*sql.Tx) error {
			_, _, finished = f.Finish(t.Context(), client(), p.ID, secretbox.Secret(made), sso.Answer{State: made, Code: "x"},
				"")
			return nil
		}))
		require.True(t, apperr.Is(finished, apperr.CodeSSOStateInvalid), "%v", finished)
	})
}

// Promise: strangers who begin sign-ins take turns with those who try passwords, so that however many they are, they do
// not make the database write faster. Who has no turn leaves nothing behind.
func TestSignInsTakeTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		_, err := f.Start(t.Context(), p.ID, "/docs")
		require.NoError(t, err)
		var release []func()
		for range f.identity.SignIn.Turns() {
			r, err := f.identity.SignIn.Turn(t.Context())
			require.NoError(t, err)
			release = append(release, r)
		}
		begun := make(chan error)
		ctx, leave := context.WithCancel(t.Context())
		const waiting = 40 // more than may wait
		for range waiting {
			go func() {
				_, err := f.Start(ctx, p.ID, "/docs")
				begun <- err
			}()
		}
		require.True(t, apperr.Is(<-begun, apperr.CodeUnavailable), "nobody is sent away")
		require.Equal(t, 1, f.count(t, "sso_sign_ins"))
		leave()
		for range waiting - 1 {
			require.Error(t, <-begun)
		}
		require.Equal(t, 1, f.count(t, "sso_sign_ins"))
		for _, r := range release {
			r()
		}
		_, err = f.Start(t.Context(), p.ID, "/docs")
		require.NoError(t, err)
	})
}
