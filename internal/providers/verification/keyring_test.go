package verification_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/verification"
)

// provider responds requests for keys.
type provider struct {
	calls    atomic.Int64
	mu       sync.Mutex
	response func(r verification.KeyRequest) ([]byte, error)
}

func (p *provider) FetchKeys(ctx context.Context, r verification.KeyRequest) ([]byte, error) {
	p.calls.Add(1)
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("a fetch without a deadline")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.response(r)
}

func (p *provider) set(response func(r verification.KeyRequest) ([]byte, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.response = response
}

func jwks(t *testing.T, ids ...string) func(verification.KeyRequest) ([]byte, error) {
	t.Helper()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte(longKey), KeyID: "symmetric", Algorithm: "HS256"}}}
	for _, id := range ids {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: &rsaKey().PublicKey, KeyID: id, Use: "sig"})
	}
	body, err := json.Marshal(set)
	require.NoError(t, err)
	return func(verification.KeyRequest) ([]byte, error) { return body, nil }
}

func down(verification.KeyRequest) ([]byte, error) { return nil, errors.New("down") }

// pubsub verifies tokens with keys that are fetched.
func pubsub() verification.Proof {
	p := jwtPublic("RS256")
	p.JWT.Claims = nil
	p.Keys = &verification.Keys{JWKS: &verification.JWKS{URL: "https://keys.example/jwks", TTLS: "3600"}}
	return p
}

// accounted binds webhooks to an account that the connection names.
func accounted(p verification.Proof) (d verification.Declaration, account map[string]string) {
	d = declared(p)
	d.Params = []verification.Param{{Name: "account", Description: "The account.", Pattern: ".+", Required: true,
		Example: "e"}}
	if p.JWT == nil {
		d.Account = []verification.Predicate{{From: "json:/TopicArn", Equals: []string{"{param:account}"}}}
		return d, map[string]string{"account": "arn:x"}
	}
	d.JWT.Aud = []string{"{param:account}"}
	return d, map[string]string{"account": "https://me"}
}

func bound(t *testing.T, p verification.Proof, ring *verification.Keyring, values ...string) *verification.Verifier {
	t.Helper()
	d, account := accounted(p)
	engine, err := verification.Compile(d)
	require.NoError(t, err)
	v, err := engine.Bind(verification.Settings{Params: account, Keyring: ring, Secrets: secrets(values...)})
	require.NoError(t, err)
	return v
}

// bearer is a webhook with a token of a key that arrives some time after now.
func bearer(t *testing.T, kid string, after time.Duration) *verification.Request {
	t.Helper()
	claims := map[string]any{"aud": "https://me", "exp": now().Add(after).Unix(), "iat": now().Add(after).Unix()}
	r := request("{}", "Authorization", "Bearer "+sign(t, jose.RS256, rsaKey(), kid, claims))
	r.Now = now().Add(after)
	return r
}

// Keys are fetched when they are first needed and then kept; a key that is not known makes them be fetched
// again, at most once a minute for all callers.
func TestKeyringRefresh(t *testing.T) {
	t.Parallel()
	p := &provider{response: jwks(t, "k1")}
	v := bound(t, pubsub(), verification.NewKeyring(p))
	requireProved(t, v, bearer(t, "k1", 0), "jwt", "k1")
	requireProved(t, v, bearer(t, "k1", 0), "jwt", "k1")
	requireProved(t, v, bearer(t, "", 0), "jwt", "k1")
	require.Equal(t, int64(1), p.calls.Load())

	p.set(jwks(t, "k1", "k2"))
	requireRefused(t, v, bearer(t, "k2", 59*time.Second), verification.ReasonSignatureMismatch)
	require.Equal(t, int64(1), p.calls.Load())
	requireProved(t, v, bearer(t, "k2", time.Minute), "jwt", "k2")
	requireRefused(t, v, bearer(t, "k3", 61*time.Second), verification.ReasonSignatureMismatch)
	require.Equal(t, int64(2), p.calls.Load())
	requireRefused(t, v, bearer(t, "symmetric", 61*time.Second), verification.ReasonSignatureMismatch)
}

// While the provider cannot be reached the known keys stay good, and a webhook that needs an unknown one is
// refused as temporary and not as forged.
func TestKeyringOutage(t *testing.T) {
	t.Parallel()
	p := &provider{response: down}
	v := bound(t, pubsub(), verification.NewKeyring(p))
	requireRefused(t, v, bearer(t, "k1", 0), verification.ReasonKeysUnavailable)
	requireRefused(t, v, bearer(t, "k1", 9*time.Second), verification.ReasonKeysUnavailable)
	require.Equal(t, int64(1), p.calls.Load(), "a provider that is down is not asked for each delivery")
	p.set(jwks(t, "k1"))
	requireProved(t, v, bearer(t, "k1", 10*time.Second), "jwt", "k1")
	p.set(down)
	requireProved(t, v, bearer(t, "k1", 3*time.Hour), "jwt", "k1")
	await.Condition(t, "old keys to be fetched again", func() bool { return p.calls.Load() == 3 })
	requireProved(t, v, bearer(t, "k1", 6*time.Hour), "jwt", "k1")
	requireRefused(t, bound(t, pubsub(), nil), bearer(t, "k1", 0), verification.ReasonKeysUnavailable)
}

// Keys that a provider withdrew are gone once they are older than the declaration allows.
func TestKeyringWithdrawal(t *testing.T) {
	t.Parallel()
	p := &provider{response: jwks(t, "k1")}
	v := bound(t, pubsub(), verification.NewKeyring(p))
	requireProved(t, v, bearer(t, "k1", 0), "jwt", "k1")
	p.set(jwks(t, "k2"))
	requireProved(t, v, bearer(t, "k1", 59*time.Minute), "jwt", "k1")
	// The first webhook after that starts the fetch and does not wait for it.
	await.Condition(t, "the withdrawn key to be refused", func() bool {
		_, refusal := v.Verify(t.Context(), bearer(t, "k1", time.Hour))
		return refusal != nil && refusal.Reason == verification.ReasonSignatureMismatch
	})
}

// Webhooks that need the same keys at the same time share one fetch, and one that goes away does not end it
// for the others.
func TestKeyringSingleFlight(t *testing.T) {
	t.Parallel()
	release, started := make(chan struct{}), make(chan struct{}, 1)
	keys := jwks(t, "k1")
	p := &provider{response: func(r verification.KeyRequest) ([]byte, error) {
		started <- struct{}{}
		<-release
		return keys(r)
	}}
	v := bound(t, pubsub(), verification.NewKeyring(p))
	r := bearer(t, "k1", 0)
	gone, leave := context.WithCancel(t.Context())
	left := make(chan *verification.Refusal)
	go func() { _, refusal := v.Verify(gone, r); left <- refusal }()
	<-started
	results := make(chan *verification.Refusal, 8)
	for range cap(results) {
		go func() { _, refusal := v.Verify(t.Context(), r); results <- refusal }()
	}
	leave()
	require.Equal(t, verification.ReasonKeysUnavailable, (<-left).Reason)
	close(release)
	for range cap(results) {
		require.Nil(t, <-results)
	}
	require.Equal(t, int64(1), p.calls.Load())
}

// An response with keys is bounded and read strictly: too large, too many, or without a usable key, it counts
// as none.
func TestKeyringResponses(t *testing.T) {
	t.Parallel()
	good := jwks(t, "k1")
	body, err := good(verification.KeyRequest{})
	require.NoError(t, err)
	many := `{"keys":[` + strings.Repeat(`{},`, 64) + `{}]}`
	for _, response := range []string{"", "null", "[]", `{"keys":{}}`, `{"keys":[]}`, many, string(body) +
		strings.Repeat(" ", 64<<10), "<html>"} {
		p := &provider{response: func(verification.KeyRequest) ([]byte, error) { return []byte(response), nil }}
		requireRefused(t, bound(t, pubsub(), verification.NewKeyring(p)), bearer(t, "k1", 0),
			verification.ReasonKeysUnavailable)
	}
	mixed := &provider{response: func(verification.KeyRequest) ([]byte, error) {
		return []byte(strings.Replace(string(body), `{"keys":[`, `{"keys":[{"kty":"new"},7,`, 1)), nil
	}}
	requireProved(t, bound(t, pubsub(), verification.NewKeyring(mixed)), bearer(t, "k1", 0), "jwt", "k1")
}

// byKid asks an API for keys, as Plaid's tokens need.
func byKid() verification.Proof {
	p := pubsub()
	p.Keys = &verification.Keys{ByKid: &verification.ByKid{
		URL: "https://api.example/key/get", Body: `{"secret":"${secret}","key_id":"${kid}"}`, Key: "/key", TTLS: "3600",
	}}
	return p
}

// A key that an API gives by its id is asked for once with the connection's newest secret, and a flood of
// invented ids does not become a flood of calls.
func TestKeyringByKid(t *testing.T) {
	t.Parallel()
	p := &provider{response: func(r verification.KeyRequest) ([]byte, error) {
		var asked struct {
			Secret string `json:"secret"`
			KeyID  string `json:"key_id"`
		}
		if err := json.Unmarshal(r.Body, &asked); err != nil || asked.Secret != `new "secret"` || asked.KeyID != "k1" ||
			r.URL != "https://api.example/key/get" {
			return nil, errors.New("unknown")
		}
		jwk, err := json.Marshal(jose.JSONWebKey{Key: &rsaKey().PublicKey, KeyID: "k1", Algorithm: "RS256"})
		return []byte(`{"key":` + string(jwk) + `}`), err
	}}
	v := bound(t, byKid(), verification.NewKeyring(p), "old secret", `new "secret"`)
	requireProved(t, v, bearer(t, "k1", 0), "jwt", "k1")
	requireProved(t, v, bearer(t, "k1", 0), "jwt", "k1")
	require.Equal(t, int64(1), p.calls.Load())
	requireRefused(t, v, bearer(t, "", 0), verification.ReasonSignatureMalformed)
	for range 30 {
		requireRefused(t, v, bearer(t, rand.Text(), 0), verification.ReasonKeysUnavailable)
	}
	require.Equal(t, int64(10), p.calls.Load())
	requireProved(t, v, bearer(t, "k1", 0), "jwt", "k1")
	requireRefused(t, bound(t, byKid(), nil), bearer(t, "k1", 0), verification.ReasonSecretMissing)

	wrong := byKid()
	wrong.Keys.ByKid.URL += "?s=${secret}"
	require.Equal(t, []string{"keys.by_kid.url format"}, violationsOfProof(t, wrong))
	wrong = byKid()
	wrong.Keys.ByKid.Body = ""
	require.Equal(t, []string{"keys.by_kid required"}, violationsOfProof(t, wrong))
}

// Where a stranger has used up the calls by asking for other keys, also for ones that there are, a webhook
// whose key could not be asked for is no forgery: it is to be sent again.
func TestKeyringByKidUsedUp(t *testing.T) {
	t.Parallel()
	p := &provider{response: func(r verification.KeyRequest) ([]byte, error) {
		jwk, err := json.Marshal(jose.JSONWebKey{Key: &rsaKey().PublicKey, Algorithm: "RS256"})
		return []byte(`{"key":` + string(jwk) + `}`), err
	}}
	v := bound(t, byKid(), verification.NewKeyring(p), "a secret")
	for i := range 10 {
		requireProved(t, v, bearer(t, "k"+strconv.Itoa(i), 0), "jwt", "k"+strconv.Itoa(i))
	}
	requireRefused(t, v, bearer(t, "k10", 0), verification.ReasonKeysUnavailable)
	later := bearer(t, "k10", time.Minute)
	requireProved(t, v, later, "jwt", "k10")
}

// A key that an API calls expired is accepted until that time and not after, and an expiry that cannot be read is no
// expiry that can be ignored.
func TestKeyringByKidExpired(t *testing.T) {
	t.Parallel()
	for expired, accepted := range map[string]map[time.Duration]bool{
		`null`:       {0: true, time.Minute: true},
		`1772600767`: {0: true, time.Second: false, time.Minute: false},
		`1772600766`: {0: false},
		`1772604367`: {0: true, time.Minute: true},
	} {
		p := &provider{response: func(verification.KeyRequest) ([]byte, error) {
			jwk, err := json.Marshal(jose.JSONWebKey{Key: &rsaKey().PublicKey, KeyID: "k1", Algorithm: "RS256"})
			return []byte(`{"key":` + strings.TrimSuffix(string(jwk), "}") + `,"expired_at":` + expired + `}}`), err
		}}
		proof := byKid()
		proof.Keys.ByKid.Expired = "/key/expired_at"
		for after, ok := range accepted {
			v := bound(t, proof, verification.NewKeyring(p), "a secret")
			if ok {
				requireProved(t, v, bearer(t, "k1", after), "jwt", "k1")
			} else {
				requireRefused(t, v, bearer(t, "k1", after), verification.ReasonSignatureMismatch)
			}
		}
	}
	for _, expired := range []string{`"soon"`, `true`, `{}`, `0`, `-1`, `1.5e9`, `"1772604367"`} {
		p := &provider{response: func(verification.KeyRequest) ([]byte, error) {
			jwk, err := json.Marshal(jose.JSONWebKey{Key: &rsaKey().PublicKey, KeyID: "k1", Algorithm: "RS256"})
			return []byte(`{"key":` + string(jwk) + `,"end":` + expired + `}`), err
		}}
		proof := byKid()
		proof.Keys.ByKid.Expired = "/end"
		requireRefused(t, bound(t, proof, verification.NewKeyring(p), "a secret"), bearer(t, "k1", 0),
			verification.ReasonKeysUnavailable)
	}
}

// Certificates that lie in one folder are fetched from there only; their files can have any name.
func TestKeyringCertificateFolder(t *testing.T) {
	t.Parallel()
	cert := certificate(t, now().Add(-time.Hour), now().Add(time.Hour))
	p := &provider{response: func(verification.KeyRequest) ([]byte, error) { return cert, nil }}
	proof := certified("none")
	proof.Keys.CertURL.PathPrefix, proof.Keys.CertURL.PathSuffix = "/v1/certs/", ""
	v := bound(t, proof, verification.NewKeyring(p))
	const good = "https://sns.eu-west-1.amazonaws.com/v1/certs/CERT-1"
	requireProved(t, v, notification(t, "hello", good), "asymmetric", good)
	for _, evil := range []string{
		"https://sns.eu-west-1.amazonaws.com/v1/certs", "https://sns.eu-west-1.amazonaws.com/v1/certs/",
		"https://sns.eu-west-1.amazonaws.com/v1/other/CERT-1", "https://sns.eu-west-1.amazonaws.com/CERT-1",
		"https://sns.eu-west-1.amazonaws.com/v1/certs/../other/CERT-1", "https://evil.example/v1/certs/CERT-1",
		"https://sns.eu-west-1.amazonaws.com//v1/certs/CERT-1", "https://sns.eu-west-1.amazonaws.com/V1/certs/CERT-1",
		"https://sns.eu-west-1.amazonaws.com/v1/certs/CERT-1?x", "https://sns.eu-west-1.amazonaws.com/v1/certs/%2e%2e/CERT-1",
	} {
		requireRefused(t, v, notification(t, "hello", evil), verification.ReasonSignatureMalformed)
	}
	require.Equal(t, int64(1), p.calls.Load(), "nothing else was fetched")
}

// certified signs fixed members of the body, with a certificate that the body names, as Amazon SNS does.
func certified(roots string) verification.Proof {
	return verification.Proof{
		Scheme: "asymmetric", Algorithm: "rsa_sha1", BodyUnsigned: true,
		Signature: []verification.SignatureSource{{From: "json:/Signature", Encoding: "base64"}},
		Signed:    "{kv_lines:Message,MessageId,Subject,Timestamp,TopicArn,Type}",
		Keys: &verification.Keys{CertURL: &verification.CertURL{
			From: "json:/SigningCertURL", HostRegex: `sns\.[a-z0-9-]{3,}\.amazonaws\.com(\.cn)?`, PathSuffix: ".pem",
			Roots: roots,
		}},
	}
}

func certificate(t *testing.T, from, to time.Time) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sns"}, NotBefore: from,
		NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &rsaKey().PublicKey, rsaKey())
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func notification(t *testing.T, message, certURL string) *verification.Request {
	t.Helper()
	sig := newSigner(t, "rsa_sha1").sign([]byte("Message\n" + message +
		"\nMessageId\n1\nTopicArn\narn:x\nType\nNotification\n"))
	body, err := json.Marshal(map[string]string{
		"Message": message, "MessageId": "1", "TopicArn": "arn:x", "Type": "Notification", "SigningCertURL": certURL,
		"Signature": base64.StdEncoding.EncodeToString(sig), "SignatureVersion": "1",
	})
	require.NoError(t, err)
	return request(string(body))
}

// A certificate is fetched from the provider's own hosts only, once, and counts only while it is valid and,
// where the declaration asks, when it chains to a public root.
func TestKeyringCertificate(t *testing.T) {
	t.Parallel()
	const good = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-x.pem"
	cert := certificate(t, now().Add(-time.Hour), now().Add(time.Hour))
	p := &provider{response: func(r verification.KeyRequest) ([]byte, error) {
		if r.URL != good || r.Body != nil {
			return nil, errors.New("not found")
		}
		return cert, nil
	}}
	v := bound(t, certified("none"), verification.NewKeyring(p))
	requireProved(t, v, notification(t, "hello\nworld", good), "asymmetric", good)
	requireProved(t, v, notification(t, "hello", good), "asymmetric", good)
	require.Equal(t, int64(1), p.calls.Load())
	r := notification(t, "hello", good)
	r.Body = []byte(strings.Replace(string(r.Body), "arn:x", "arn:y", 1))
	requireRefused(t, v, r, verification.ReasonSignatureMismatch)
	for _, evil := range []string{
		"http://sns.eu-west-1.amazonaws.com/a.pem", "https://sns.eu-west-1.amazonaws.com.evil.example/a.pem",
		"https://evil.example/a.pem", "https://sns.eu-west-1.amazonaws.com@evil.example/a.pem",
		"https://sns.eu-west-1.amazonaws.com:444/a.pem", "https://sns.eu-west-1.amazonaws.com/a.pem?x",
		"https://sns.eu-west-1.amazonaws.com/a.pem#x", "https://sns.eu-west-1.amazonaws.com/../a.pem",
		"https://sns.eu-west-1.amazonaws.com/a.txt", "", "https://evil.example\\.sns.eu-west-1.amazonaws.com/a.pem",
		"https://sns.eu-west-1.amazonaws.com/%2e%2e/a.pem", "https:sns.eu-west-1.amazonaws.com/a.pem",
		"HTTPS://sns.eu-west-1.amazonaws.com/a.pem", "https://evil.example/sns.eu-west-1.amazonaws.com/a.pem",
	} {
		requireRefused(t, v, notification(t, "hello", evil), verification.ReasonSignatureMalformed)
	}
	require.Equal(t, int64(1), p.calls.Load(), "no other host was asked")
	late := notification(t, "hello", good)
	late.Now = now().Add(2 * time.Hour)
	requireRefused(t, v, late, verification.ReasonSignatureMismatch)
	requireRefused(t, bound(t, certified("system"), verification.NewKeyring(p)), notification(t, "hello", good),
		verification.ReasonKeysUnavailable)
}

// Where keys come from is said once and completely, and fits the scheme.
func TestCompileRefusesKeys(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		p      verification.Proof
		change func(k *verification.Keys)
		want   []string
	}{
		"none": {pubsub(), func(k *verification.Keys) { k.JWKS = nil }, []string{"keys coherent"}},
		"two":  {pubsub(), func(k *verification.Keys) { k.Static = []string{} }, []string{"keys coherent"}},
		"http": {pubsub(), func(k *verification.Keys) {
			k.JWKS.URL = "http://a/b"
		}, []string{"keys.jwks.url format"}},
		"no ttl": {pubsub(), func(k *verification.Keys) { k.JWKS.TTLS = "0" }, []string{"keys.jwks.ttl_s format"}},
		"jwks for a body": {certified("none"), func(k *verification.Keys) {
			k.CertURL, k.JWKS = nil, &verification.JWKS{URL: "https://a"}
		}, []string{"keys coherent"}},
		"cert for jwt": {pubsub(), func(k *verification.Keys) {
			k.JWKS, k.CertURL = nil, certified("none").Keys.CertURL
		}, []string{"keys coherent"}},
		"every host": {certified("none"), func(k *verification.Keys) {
			k.CertURL.HostRegex = ".*"
		}, []string{"keys.cert_url.host_regex format"}},
		"no host": {certified("none"), func(k *verification.Keys) {
			k.CertURL.HostRegex = ""
		}, []string{"keys.cert_url.host_regex format"}},
		"no ending": {certified("none"), func(k *verification.Keys) {
			k.CertURL.PathSuffix = ""
		}, []string{"keys.cert_url.path_suffix format"}},
		"no folder": {certified("none"), func(k *verification.Keys) {
			k.CertURL.PathPrefix = "certs/"
		}, []string{"keys.cert_url.path_prefix format"}},
		"root folder": {certified("none"), func(k *verification.Keys) {
			k.CertURL.PathPrefix = "/"
		}, []string{"keys.cert_url.path_prefix format"}},
		"no ending of a file": {certified("none"), func(k *verification.Keys) {
			k.CertURL.PathPrefix, k.CertURL.PathSuffix = "/certs/", "pem"
		}, []string{"keys.cert_url.path_suffix format"}},
		"no pointer to the end": {byKid(), func(k *verification.Keys) {
			k.ByKid.Expired = "expired_at"
		}, []string{"keys.by_kid.expired format"}},
		"no roots": {certified(""), func(*verification.Keys) {}, []string{"keys.cert_url.roots enum"}},
		"unknown name": {certified("none"), func(k *verification.Keys) {
			k.CertURL.DNSName = "a"
		}, []string{"keys.cert_url.dns_name coherent"}},
		"no key in it": {byKid(), func(k *verification.Keys) { k.ByKid.Key = "" }, []string{"keys.by_kid.key format"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.change(tt.p.Keys)
			d, _ := accounted(tt.p)
			_, err := verification.Compile(d)
			require.Equal(t, tt.want, violationsOf(t, err))
		})
	}
}
