package e2e_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/requestsigning"
)

// verified is what the peer found in a token.
type verified struct {
	Error  string         `json:"error"`
	Header map[string]any `json:"header"`
	Claims map[string]any `json:"claims"`
}

// keyPair is a private key in PEM and what verifies it.
func keyPair(t *testing.T, key crypto.Signer) (secretbox.Secret, string) {
	t.Helper()
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	return secretbox.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
}

// Assertions and signatures are those that independent libraries expect: the npm package jose verifies the assertions
// of JWT bearer, of clients and of service accounts and the token of a GitHub App, under every algorithm, and rejects
// them for others and later; oauth-1.0a makes the same signatures.
func TestOAuthPeers(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	peer := startPeer(t, nodePeer(t, "oauth"), "peer.mjs")
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	verify := func(token, algorithm, key string, at time.Time, options object) (v verified) {
		peer.say(object{"jwt": object{"token": token, "algorithm": algorithm, "key": key, "at": at.Unix(),
			"options": options}})
		peer.hear(&v)
		return v
	}
	form := func(req *http.Request, err error) url.Values {
		require.NoError(t, err)
		body, err := io.ReadAll(req.Body)
		require.NoError(t, err)
		values, err := url.ParseQuery(string(body))
		require.NoError(t, err)
		return values
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	private, public := keyPair(t, rsaKey)
	ecPrivate, ecPublic := keyPair(t, ecKey)
	edPrivate, edPublic := keyPair(t, edKey)
	const shared = "a secret of 32 and more characters: +%&"
	e := oauth.Endpoint{URL: "https://example.test/token", Auth: oauth.AuthPrivateKeyJWT}

	for algorithm, keys := range map[string][2]string{"RS256": {private.Reveal(), public}, "RS384": {private.Reveal(),
		public},
		"RS512": {private.Reveal(), public}, "PS256": {private.Reveal(), public}, "ES256": {ecPrivate.Reveal(), ecPublic},
		"EdDSA": {edPrivate.Reveal(), edPublic}, "HS256": {shared, shared}} {
		key := secretbox.Secret(keys[0])
		sent := form(e.JWTBearer(t.Context(), oauth.Client{ID: "client", Key: key, Algorithm: algorithm, KeyID: "c"},
			oauth.Assertion{Algorithm: algorithm, Key: key, KeyID: "a", Issuer: "me", Subject: "user"}, nil, now))
		expected := object{"issuer": "me", "subject": "user", "audience": e.URL, "typ": "JWT", "maxTokenAge": "5 minutes",
			"requiredClaims": []string{"exp", "iat", "jti"}}
		v := verify(sent.Get("assertion"), algorithm, keys[1], now, expected)
		require.Empty(t, v.Error, algorithm)
		require.Equal(t, map[string]any{"alg": algorithm, "kid": "a", "typ": "JWT"}, v.Header)
		v = verify(sent.Get("client_assertion"), algorithm, keys[1], now,
			object{"issuer": "client", "subject": "client", "audience": e.URL})
		require.Empty(t, v.Error, algorithm)
		require.Equal(t, "c", v.Header["kid"])
		for _, bad := range []object{{"issuer": "other"}, {"audience": "https://other.test/token"}} {
			require.Equal(t, "ERR_JWT_CLAIM_VALIDATION_FAILED", verify(sent.Get("assertion"), algorithm, keys[1], now,
				bad).Error)
		}
		require.Equal(t, "ERR_JWT_EXPIRED", verify(sent.Get("assertion"), algorithm, keys[1], now.Add(3*time.Minute),
			expected).Error)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, otherPublic := keyPair(t, other)

	file, err := json.Marshal(object{"type": "service_account", "client_email": "me@project.iam.gserviceaccount.com",
		"private_key_id": "k1", "private_key": private.Reveal()})
	require.NoError(t, err)
	account, err := oauth.ParseServiceAccount(secretbox.Secret(file))
	require.NoError(t, err)
	google := oauth.Endpoint{URL: "https://oauth2.googleapis.com/token", Auth: oauth.AuthNone}
	assertion := form(google.JWTBearer(t.Context(), oauth.Client{}, account.Assertion("", []string{"a", "b"}), nil,
		now)).Get("assertion")
	v := verify(assertion, "RS256", public, now, object{"issuer": account.ClientEmail, "audience": google.URL})
	require.Empty(t, v.Error)
	require.Equal(t, "a b", v.Claims["scope"])
	require.Equal(t, "ERR_JWS_SIGNATURE_VERIFICATION_FAILED", verify(assertion, "RS256", otherPublic, now, object{}).Error)

	req, err := oauth.InstallationToken(t.Context(), oauth.GitHubApp{BaseURL: "https://api.github.com", AppID: "Iv1.1",
		Key: private, InstallationID: "42"}, now)
	require.NoError(t, err)
	token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	// GitHub's clock may be a minute behind, and the token lives less than ten minutes from now.
	for _, at := range []time.Time{now.Add(-time.Minute), now} {
		require.Empty(t, verify(token, "RS256", public, at, object{"issuer": "Iv1.1", "maxTokenAge": "10 minutes"}).Error)
	}
	require.Equal(t, "ERR_JWT_EXPIRED", verify(token, "RS256", public, now.Add(9*time.Minute), object{}).Error)

	for _, c := range []struct {
		method, url string
		form        url.Values
		of          requestsigning.OAuth1
	}{
		{"GET", "https://api.trello.test/1/members/me?fields=all&filter=a%20b", nil, requestsigning.OAuth1{Token: "t"}},
		{"post", "https://example.test:8443/a%2Fb/%C3%BC",
			url.Values{"status": {"Hello Ladies + Gentlemen, a signed request!"}},
			requestsigning.OAuth1{Token: "t/1", TokenSecret: "s & ü"}},
		{"POST", "https://example.test/request_token", nil, requestsigning.OAuth1{Callback: "https://gateway.test/cb?a=1"}},
		{"POST", "https://example.test/access_token", nil, requestsigning.OAuth1{Token: "t", TokenSecret: "s",
			Verifier: "v=1"}},
	} {
		for algorithm, method := range map[string]string{"sha1": "HMAC-SHA1", "sha256": "HMAC-SHA256"} {
			o := c.of
			o.ConsumerKey, o.ConsumerSecret, o.Method, o.Nonce, o.Now = "key", "secret*'()!", method, "n0nce", now
			req, err := http.NewRequestWithContext(t.Context(), c.method, c.url, strings.NewReader(c.form.Encode()))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			require.NoError(t, requestsigning.SignOAuth1(req, o))
			data := object{}
			for name := range c.form {
				data[name] = c.form.Get(name)
			}
			for name, value := range map[string]string{"oauth_callback": o.Callback, "oauth_verifier": o.Verifier.Reveal()} {
				if value != "" {
					data[name] = value
				}
			}
			say := object{"request": object{"method": c.method, "url": c.url, "data": data},
				"consumer":  object{"key": o.ConsumerKey, "secret": o.ConsumerSecret.Reveal()},
				"algorithm": algorithm, "nonce": o.Nonce, "timestamp": now.Unix()}
			if o.Token != "" {
				say["token"] = object{"key": o.Token, "secret": o.TokenSecret.Reveal()}
			}
			peer.say(object{"oauth1": say})
			var signature string
			peer.hear(&signature)
			require.Contains(t, req.Header.Get("Authorization"), `oauth_signature="`+url.QueryEscape(signature)+`"`, c.url)
		}
	}
}
