package sso_test

import (
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// A provider with a wrong response signs no one in, takes no memory, and leads the service nowhere else. The test of
// the provider says what is wrong.
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

// A provider that never responds holds a sign-in for the timeout of one exchange and no longer, at each of its
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
				// A machine that is busy may be too slow for an endpoint that responds, too.
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
