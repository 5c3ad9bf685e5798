package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// IdP is an OpenID provider that signs every visitor in as Person, and misbehaves where a test wants it to. It checks
// what a correct provider checks: client and secret, redirect URI, PKCE, and that each code is used once.
type IdP struct {
	URL string
	// ClientID and ClientSecret are those of the one client.
	ClientID, ClientSecret string
	// Key signs ID tokens and is published under KeyID.
	Key   *ecdsa.PrivateKey
	KeyID string

	mu    sync.Mutex
	set   Behaviour
	codes map[string]url.Values
	asked map[string]int
}

// Behaviour holds a test's choices.
type Behaviour struct {
	// Now is the provider's clock.
	Now func() time.Time
	// Person holds the claims about the user who signs in.
	Person map[string]any
	// Metadata, Claims and Callback change what a correct provider would publish, sign, and add to the redirect URI.
	Metadata func(m map[string]any)
	Claims   func(c map[string]any)
	Callback func(q url.Values)
	// Sign replaces the signature.
	Sign func(claims map[string]any) string
	// Handlers replace endpoints, by path.
	Handlers map[string]http.HandlerFunc
}

// NewIdP starts a provider. It ends with the test.
func NewIdP(t testing.TB, now func() time.Time) *IdP {
	t.Helper()
	i, server, err := StartIdP(now)
	require.NoError(t, err)
	await.Close(t, server)
	return i
}

// StartIdP starts a provider that outlives the test.
func StartIdP(now func() time.Time) (*IdP, *httptest.Server, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate the provider's key: %w", err)
	}
	i := &IdP{ClientID: "sallyport", ClientSecret: "a secret of the client", Key: key, KeyID: "first",
		codes: map[string]url.Values{}, asked: map[string]int{}}
	i.set = Behaviour{Now: now, Person: map[string]any{"sub": "person-1", "email": "grace@example.test",
		"email_verified": true, "groups": []string{"engineering"}}}
	server := httptest.NewServer(i)
	i.URL = server.URL
	return i, server, nil
}

// Set changes the behaviour.
func (i *IdP) Set(change func(b *Behaviour)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(&i.set)
}

func (i *IdP) behaviour() Behaviour {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.set
}

// Asked returns how often a path was asked for.
func (i *IdP) Asked(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

// Rotate signs with another key from now on, and publishes it in the place of the one before.
func (i *IdP) Rotate(key *ecdsa.PrivateKey, keyID string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Key, i.KeyID = key, keyID
}

// ServeHTTP serves the endpoints.
func (i *IdP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b := i.behaviour()
	i.mu.Lock()
	i.asked[r.URL.Path]++
	i.mu.Unlock()
	if h := b.Handlers[r.URL.Path]; h != nil {
		h(w, r)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		m := map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize?tenant=one", "token_endpoint": i.URL + "/token",
			"jwks_uri": i.URL + "/keys", "userinfo_endpoint": i.URL + "/userinfo", "response_types_supported": []string{"code"},
			"code_challenge_methods_supported": []string{"S256"}, "id_token_signing_alg_values_supported": []string{"ES256"},
			"authorization_response_iss_parameter_supported": true,
		}
		if b.Metadata != nil {
			b.Metadata(m)
		}
		reply(w, http.StatusOK, m)
	case "/keys":
		i.mu.Lock()
		defer i.mu.Unlock()
		reply(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &i.Key.PublicKey, KeyID: i.KeyID,
			Algorithm: "ES256", Use: "sig"}}})
	case "/authorize":
		i.authorize(w, r, b)
	case "/token":
		i.token(w, r, b)
	case "/userinfo":
		if r.Header.Get("Authorization") != "Bearer an access token" {
			reply(w, http.StatusUnauthorized, nil)
			return
		}
		reply(w, http.StatusOK, b.Person)
	default:
		http.NotFound(w, r)
	}
}

func (i *IdP) authorize(w http.ResponseWriter, r *http.Request, b Behaviour) {
	q := r.URL.Query()
	if q.Get("client_id") != i.ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		q.Get("tenant") != "one" {
		http.Error(w, "the request is not right", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = q
	i.mu.Unlock()
	callback := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.URL},
		"session_state": {"of the provider's own"}}
	if b.Callback != nil {
		b.Callback(callback)
	}
	w.Header().Set("Location", q.Get("redirect_uri")+"?"+callback.Encode())
	w.WriteHeader(http.StatusFound)
}

func (i *IdP) token(w http.ResponseWriter, r *http.Request, b Behaviour) {
	refuse := func(code string) { reply(w, http.StatusBadRequest, map[string]string{"error": code}) }
	id, secret, _ := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	if id != i.ClientID || secret != i.ClientSecret {
		refuse("invalid_client")
		return
	}
	code := r.FormValue("code")
	i.mu.Lock()
	q, ok := i.codes[code]
	delete(i.codes, code)
	i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !ok || r.FormValue("redirect_uri") != q.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") {
		refuse("invalid_grant")
		return
	}
	now := b.Now()
	claims := map[string]any{"iss": i.URL, "aud": i.ClientID, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"nonce": q.Get("nonce")}
	for name, value := range b.Person {
		claims[name] = value
	}
	if b.Claims != nil {
		b.Claims(claims)
	}
	sign := i.Signed
	if b.Sign != nil {
		sign = b.Sign
	}
	reply(w, http.StatusOK, map[string]any{"access_token": "an access token", "token_type": "Bearer", "expires_in": 300,
		"id_token": sign(claims)})
}

// Signed returns a token with the claims, as a correct provider signs it.
func (i *IdP) Signed(claims map[string]any) string {
	i.mu.Lock()
	key := jose.JSONWebKey{Key: i.Key, KeyID: i.KeyID}
	i.mu.Unlock()
	return i.SignedBy(jose.SigningKey{Algorithm: jose.ES256, Key: key}, "JWT", claims)
}

// SignedBy returns a token of a type with the claims, signed with a key.
func (i *IdP) SignedBy(key jose.SigningKey, typ jose.ContentType, claims map[string]any) string {
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType(typ))
	if err != nil {
		panic(err) // a key of the test's own always signs
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err) // likewise
	}
	return token
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
