// Package bench_test measures what verification costs: go test -bench Verification ./bench
package bench_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/definitions"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// sample is a delivery of one provider: the signed content, and how the signature is sent.
type sample struct {
	slug, secret string
	header       http.Header
}

const (
	secret    = "0123456789abcdef0123456789abcdef"
	publicURL = "https://hooks.example.com"
	path      = "/api/v1/webhook/whk_0123456789abcdefghjkmnpqrs"
)

func headers(pairs ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	for pair := range slices.Chunk(pairs, 2) {
		h.Set(pair[0], pair[1])
	}
	return h
}

func sum(content string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(content))
	return h.Sum(nil)
}

// samples signs a body as ten providers do.
func samples(tb testing.TB, body string, now time.Time) []sample {
	tb.Helper()
	ts, ms := strconv.FormatInt(now.Unix(), 10), strconv.FormatInt(now.UnixMilli(), 10)
	inHex := func(content string) string { return hex.EncodeToString(sum(content)) }
	inBase64 := func(content string) string { return base64.StdEncoding.EncodeToString(sum(content)) }

	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	spki, err := x509.MarshalPKIXPublicKey(ecKey.Public())
	require.NoError(tb, err)
	digest := sha256.Sum256([]byte(ts + body))
	ecSignature, err := ecdsa.SignASN1(rand.Reader, ecKey, digest[:])
	require.NoError(tb, err)
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(tb, err)

	return []sample{
		{"github", secret, headers("X-Hub-Signature-256", "sha256="+inHex(body), "X-Github-Event", "issues",
			"X-Github-Delivery", "d")},
		{"shopify", secret, headers("X-Shopify-Hmac-Sha256", inBase64(body), "X-Shopify-Topic", "orders/create",
			"X-Shopify-Webhook-Id", "d")},
		{"stripe", secret, headers("Stripe-Signature", "t="+ts+",v1="+inHex(ts+"."+body))},
		{"slack", secret, headers("X-Slack-Signature", "v0="+inHex("v0:"+ts+":"+body), "X-Slack-Request-Timestamp", ts)},
		{"standard-webhooks", "whsec_" + base64.StdEncoding.EncodeToString([]byte(secret)), headers("Webhook-Id", "msg_1",
			"Webhook-Timestamp", ts, "Webhook-Signature", "v1,"+inBase64("msg_1."+ts+"."+body))},
		{"square", secret, headers("X-Square-Hmacsha256-Signature", inBase64(publicURL+path+body))},
		{"hubspot", secret, headers("X-Hubspot-Signature-V3", inBase64("POST"+publicURL+path+body+ms),
			"X-Hubspot-Request-Timestamp", ms)},
		{"gitlab", secret, headers("X-Gitlab-Token", secret, "X-Gitlab-Event", "Push Hook", "Idempotency-Key", "d")},
		{"sendgrid", base64.StdEncoding.EncodeToString(spki), headers("X-Twilio-Email-Event-Webhook-Timestamp", ts,
			"X-Twilio-Email-Event-Webhook-Signature", base64.StdEncoding.EncodeToString(ecSignature))},
		{"discord", hex.EncodeToString(edPublic), headers("X-Signature-Timestamp", ts,
			"X-Signature-Ed25519", hex.EncodeToString(ed25519.Sign(edKey, []byte(ts+body))))},
	}
}

// bodies are the sizes that are measured.
func bodies() map[string]string {
	of := func(size int) string {
		const head, tail = `{"type":"issue.created","id":"evt_1","data":"`, `"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	return map[string]string{"1KiB": of(1 << 10), "1MiB": of(1 << 20)}
}

// BenchmarkVerification measures one delivery as the ten providers sign it, with the definitions that ship. "bare" is
// the cost of the hash alone on this machine. The difference is the engine's.
func BenchmarkVerification(b *testing.B) {
	loaded, err := registry.Load(definitions.FS())
	require.NoError(b, err)
	now := time.Now()
	for _, size := range []string{"1KiB", "1MiB"} {
		body := bodies()[size]
		raw := []byte(body)
		b.Run("bare-hmac-sha256/"+size, func(b *testing.B) {
			h := hmac.New(sha256.New, []byte(secret))
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				h.Reset()
				h.Write(raw)
				out = h.Sum(out[:0])
			}
		})
		for _, s := range samples(b, body, now) {
			b.Run(s.slug+"/"+size, func(b *testing.B) {
				p, ok := loaded.Get(s.slug)
				require.True(b, ok)
				v, err := p.Webhooks.Prepare(nil, []verification.Secret{{ID: "whs_1", Value: secretbox.Secret(s.secret)}})
				require.NoError(b, err)
				r := &verification.Request{Method: http.MethodPost, PublicURL: publicURL, Path: path, Header: s.header, Body: raw,
					Now: now}
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					if _, refusal := v.Verify(b.Context(), r); refusal != nil {
						b.Fatal(refusal)
					}
				}
			})
		}
	}
}

// Each sample that is measured verifies, and is refused with another body: what is timed is a real verification.
func TestSamplesVerify(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Load(definitions.FS())
	require.NoError(t, err)
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	body := bodies()["1KiB"]
	for _, s := range samples(t, body, now) {
		p, ok := loaded.Get(s.slug)
		require.True(t, ok, s.slug)
		v, err := p.Webhooks.Prepare(nil, []verification.Secret{{ID: "whs_1", Value: secretbox.Secret(s.secret)}})
		require.NoError(t, err, s.slug)
		r := &verification.Request{Method: http.MethodPost, PublicURL: publicURL, Path: path, Header: s.header,
			Body: []byte(body), Now: now}
		_, refusal := v.Verify(t.Context(), r)
		require.Nil(t, refusal, s.slug)
		r.Body = []byte(body + " ")
		_, refusal = v.Verify(t.Context(), r)
		require.Equal(t, s.slug == "gitlab", refusal == nil, "%s: a token proves nothing about the body", s.slug)
	}
}
