package verification_test

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

func requireCause(t *testing.T, v *verification.Verifier, r *verification.Request, want verification.Cause) {
	t.Helper()
	_, refusal := v.Verify(t.Context(), r)
	require.NotNil(t, refusal, "what is diagnosed was refused")
	d := v.Diagnose(t.Context(), r, refusal)
	require.Equal(t, want, d.Cause, d.Message)
	require.Equal(t, want == "", d.Message == "")
	for _, secret := range []string{testKey, hexMAC(testKey, string(r.Body)), b64MAC(testKey, string(r.Body)), "leak"} {
		require.NotContains(t, d.Message, secret)
	}
}

// A body that was rewritten on its way is distinguished from a wrong secret.
func TestDiagnoseBody(t *testing.T) {
	t.Parallel()
	v := verifier(t, bodyOnly(), testKey)
	const compact = `{"b":"é/<","a":[1,2.50]}`
	for signed, received := range map[string]string{
		compact + "\n":                       compact,
		"a\nb":                               "a\r\nb",
		"a\r\nb":                             "a\nb",
		`{"a":1}`:                            "{\"a\": 1}",
		`{"a": 1, "b": [1, 2]}`:              `{"a":1,"b":[1,2]}`,
		"{\n  \"a\": 1\n}":                   `{"a":1}`,
		`{"b":"\u00e9\ud83d\ude00","a":1}`:   `{"b":"é😀","a":1}`,
		`{"b": "\u00e9 \" , :", "a": 1}`:     `{"b":"é \" , :","a":1}`,
		`{"u":"https:\/\/a"}`:                `{"u":"https://a"}`,
		`{"a":12345678901234567890,"b":"x"}`: `{"b":"x","a":12345678901234567890}`,
		`{"a":"\u003c"}`:                     `{"a":"<"}`,
		`{}`:                                 "\xef\xbb\xbf{}",
		// The body after a proxy in Python, in Go or in PHP, and the other way round.
		compact: `{"b": "\u00e9/<", "a": [1, 2.50]}`,
		`{"b":"é<&` + "\u2028" + `","a":"\n\u0000\"\\\ud83d"}`: `{"b":"\u00e9\u003c\u0026\u2028","a":"\n\u0000\"\\\ud83d"}`,
		`{"b":"é\u003c\u2029","a":1}`:                          "{\"b\":\"é<\u2029\",\"a\":1}",
		`{"b":"\u00e9\/","a":1}`:                               `{"b":"é/","a":1}`,
		`{"b":"é/😀","a":1}`:                                    `{"b":"\u00E9\/\uD83D\uDE00","a":1}`,
		"{\n    \"b\": \"\\u00e9\",\n    \"a\": 1\n}":          `{"b":"é","a":1}`,
		"text=a+b&c=1":                                         "text=a%20b&c=1",
		"text=a%20b&c=2":                                       "text=a+b&c=2",
	} {
		requireCause(t, v, request(received, "X-Signature", "sha256="+hexMAC(testKey, signed)),
			verification.CauseBodyRewritten)
		requireCause(t, v, request(received, "X-Signature", "sha256="+hexMAC("another", signed)),
			verification.CauseSecretWrong)
	}
	requireCause(t, v, request(compact+"\r\n", "X-Signature", "sha256="+hexMAC(testKey, compact)),
		verification.CauseBodyRewritten)
	huge := request(compact+strings.Repeat(" ", 64<<10), "X-Signature", "sha256="+hexMAC(testKey, compact))
	requireCause(t, v, huge, "")
}

// The diagnosis finds a secret that was decoded in the wrong way, or pasted with other characters around it.
func TestDiagnoseSecret(t *testing.T) {
	t.Parallel()
	raw := "sixteen raw byte"
	for _, tt := range []struct{ decode, stored, key string }{
		{"utf8", hex.EncodeToString([]byte(raw)), raw},
		{"utf8", base64.StdEncoding.EncodeToString([]byte(raw)), raw},
		{"utf8", "whsec_" + base64.StdEncoding.EncodeToString([]byte(raw)), raw},
		{"utf8", raw + "\n", raw},
		{"base64", base64.StdEncoding.EncodeToString([]byte(raw)), base64.StdEncoding.EncodeToString([]byte(raw))},
		{"utf8", "whsec_" + raw, raw}, {"utf8", raw, raw + "\n"},
	} {
		d := bodyOnly()
		d.Secret.Decode = tt.decode
		requireCause(t, verifier(t, d, tt.stored), request("{}", "X-Signature", "sha256="+hexMAC(tt.key, "{}")),
			verification.CauseSecretForm)
	}
	requireCause(t, verifier(t, token("header:X-Token"), testKey+"\n"), request("", "X-Token", testKey),
		verification.CauseSecretForm)
}

// The diagnosis finds a right signature in another place, encoding or hash than expected.
func TestDiagnoseSignature(t *testing.T) {
	t.Parallel()
	v := verifier(t, bodyOnly(), testKey)
	requireCause(t, v, request("{}", "X-Signature", hexMAC(testKey, "{}")), verification.CauseSignatureForm)
	requireCause(t, v, request("{}", "X-Signature", b64MAC(testKey, "{}")), verification.CauseSignatureForm)
	requireCause(t, v, request("{}", "X-Signature", "sha256="+b64MAC(testKey, "{}")), verification.CauseSignatureForm)
	h := hmac.New(sha512.New, []byte(testKey))
	_, _ = h.Write([]byte("{}"))
	requireCause(t, v, request("{}", "X-Signature", "sha256="+hex.EncodeToString(h.Sum(nil))),
		verification.CauseContentOther)
	requireCause(t, v, request("{}", "X-Signature", "nonsense"), "")
	p := paired()
	requireCause(t, verifier(t, p, testKey), request("{}", "X-Signature", "t="+stamp(0)+",v1="+hexMAC(testKey, "{}")),
		verification.CauseContentOther)
}

// The diagnosis says what is wrong with the URL.
func TestDiagnoseURL(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(sha256Proof("header:X-S", "{url}{body}")), testKey)
	for _, signedURL := range []string{"https://a:443/h%2F?q=%3A", "https://a/h%2F", "https://a/h%2F/?q=%3A",
		"http://a/h%2F?q=%3A", "https://a/h/?q=:"} {
		r := atURL(request("{}", "X-S", hexMAC(testKey, signedURL+"{}")), "https://a", "/h%2F", "q=%3A")
		requireCause(t, v, r, verification.CauseURLRewritten)
	}
	requireCause(t, v, atURL(request("{}", "X-S", hexMAC(testKey, "https://b/h{}")), "https://a", "/h", ""),
		verification.CauseSecretWrong)
	requireCause(t, v, atURL(request("{}", "X-S", hexMAC(testKey, "https://b/h{}")), "", "/h", ""), "")
}

// Where a signed URL has the host that the request names, the operator learns that the gateway knows another,
// and not that the secret is wrong; without such a sign both are named.
func TestDiagnoseHost(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(sha256Proof("header:X-S", "{url}{body}")), testKey)
	for _, public := range []string{"http://127.0.0.1:8080", ""} {
		for _, signedURL := range []string{"https://b/h", "http://b/h", "https://b:443/h", "http://b:80/h"} {
			r := atURL(request("{}", "X-S", hexMAC(testKey, signedURL+"{}")), public, "/h", "")
			r.Host = "b"
			requireCause(t, v, r, verification.CauseURLRewritten)
			r.Host = "inside:8080"
			r.Header.Set("X-Forwarded-Host", "b, proxy")
			requireCause(t, v, r, verification.CauseURLRewritten)
		}
	}
	r := atURL(request("{}", "X-S", hexMAC(testKey, "https://b/h{}")), "https://a", "/h", "")
	for _, host := range []string{"c", "b/h{", "user@b"} {
		r.Host = host
		requireCause(t, v, r, verification.CauseSecretWrong)
	}
	_, refusal := v.Verify(t.Context(), r)
	require.Contains(t, v.Diagnose(t.Context(), r, refusal).Message, "url_base")
}

// Clocks and headers that are the matter are named, and what needs no diagnosis gets none.
func TestDiagnoseOthers(t *testing.T) {
	t.Parallel()
	v := verifier(t, listed(), testKey)
	requireCause(t, v, signedList("a", stamp(-time.Hour), "{}"), verification.CauseClock)
	requireCause(t, v, request("{}", "X-Hub-Signature-256", "leak", "X-Gitlab-Token", "leak"),
		verification.CauseHeaderOther)
	requireCause(t, v, request("{}", "X-Other", "leak"), "")
	older := bodyOnly()
	older.RedactHeaders = []string{"x-older-signature"}
	requireCause(t, verifier(t, older, testKey), request("{}", "X-Older-Signature", "leak"), verification.CauseHeaderOther)
	requireCause(t, verifier(t, older, testKey), request("{}", "X-Signature", ""), "")
	plain := verifier(t, token("header:X-Token"), testKey)
	requireCause(t, plain, request("", "X-Token", "another"), verification.CauseSecretWrong)
	requireCause(t, v, signedList("", stamp(0), "{}"), "")
	requireCause(t, verifier(t, listed()), signedList("a", stamp(0), "{}"), "")
	require.Zero(t, v.Diagnose(t.Context(), request(""), nil))
	p := &provider{response: jwks(t, "k1")}
	fetched := bound(t, pubsub(), verification.NewKeyring(p))
	requireCause(t, fetched, bearer(t, "k2", 0), "")
	require.Equal(t, int64(1), p.calls.Load(), "a diagnosis fetches nothing")
}
