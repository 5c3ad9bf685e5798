package verification_test

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // HMAC-SHA1 is what some providers sign with.
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/verification"
)

// Every missing, duplicate or unreadable part is refused, for a reason that names it.
func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	ts, id, body := stamp(0), "msg_1", `{"type":"a.b"}`
	good := "v1," + b64MAC(testKey, id+"."+ts+"."+body)
	tests := map[string]struct {
		pairs  []string
		body   string
		reason verification.Reason
	}{
		"no signature": {[]string{"webhook-id", id, "webhook-timestamp", ts}, body,
			verification.ReasonSignatureMissing},
		"empty signature": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", ""}, body,
			verification.ReasonSignatureMissing},
		"two signature headers": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", good,
			"webhook-signature", good}, body, verification.ReasonSignatureMalformed},
		"other version only": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", "v1a" + good[2:]},
			body, verification.ReasonSignatureMalformed},
		"no version": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", good[3:]}, body,
			verification.ReasonSignatureMalformed},
		"truncated signature": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", good[:20]}, body,
			verification.ReasonSignatureMalformed},
		"empty list element": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", "v1,"}, body,
			verification.ReasonSignatureMalformed},
		"not UTF-8": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", "v1,\xff\xfe"},
			body, verification.ReasonSignatureMalformed},
		"line ends in base64": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", good[:10] + "\n" +
			good[11:]}, body, verification.ReasonSignatureMalformed},
		"too many signatures": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature",
			strings.Repeat("v2,x ", 32) + good}, body, verification.ReasonSignatureMalformed},
		"huge signature header": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", good +
			strings.Repeat(" ", 8<<10)}, body, verification.ReasonSignatureMalformed},
		"wrong signature": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", "v1," +
			b64MAC("other", id+"."+ts+"."+body)}, body, verification.ReasonSignatureMismatch},
		"other body": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", good}, body + " ",
			verification.ReasonSignatureMismatch},
		"empty body": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-signature", good}, "",
			verification.ReasonSignatureMismatch},
		"no timestamp": {[]string{"webhook-id", id, "webhook-signature", good}, body, verification.ReasonTimestampMissing},
		"two timestamps": {[]string{"webhook-id", id, "webhook-timestamp", ts, "webhook-timestamp", ts, "webhook-signature",
			good}, body, verification.ReasonTimestampMalformed},
		"other timestamp": {[]string{"webhook-id", id, "webhook-timestamp", stamp(1e9), "webhook-signature", good}, body,
			verification.ReasonSignatureMismatch},
		"no id": {[]string{"webhook-timestamp", ts, "webhook-signature", good}, body, verification.ReasonHeaderMissing},
		"empty id": {[]string{"webhook-id", "", "webhook-timestamp", ts, "webhook-signature", good}, body,
			verification.ReasonHeaderMissing},
		"two ids": {[]string{"webhook-id", id, "webhook-id", "x", "webhook-timestamp", ts, "webhook-signature", good}, body,
			verification.ReasonHeaderMalformed},
		"other id": {[]string{"webhook-id", "msg_2", "webhook-timestamp", ts, "webhook-signature", good}, body,
			verification.ReasonSignatureMismatch},
	}
	v := verifier(t, listed(), testKey)
	requireVerified(t, v, signedList(id, ts, body), "whs_0")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireRefused(t, v, request(tt.body, tt.pairs...), tt.reason)
		})
	}
}

// A timestamp is read in its one form, and what is out of it is refused even when it is signed.
func TestVerifyTimestampForms(t *testing.T) {
	t.Parallel()
	v := verifier(t, listed(), testKey)
	for _, ts := range []string{
		"-1772600767", "+1772600767", "1772600767.0", "1e9", "NaN", "Inf", "0x69A7C0BF", " 1772600767", "01772600767",
		"0000000000", "99999999999999999999", "177260076", "17726007670", "1772600767000", "１７７２", "2026-03-04T05:06:07Z",
		"٣٣٣٣٣",
	} {
		requireRefused(t, v, signedList("msg_1", ts, "{}"), verification.ReasonTimestampMalformed)
	}
	requireRefused(t, v, signedList("msg_1", "9999999999", "{}"), verification.ReasonTimestampOutOfRange)

	d := listed()
	d.Timestamp.Format = "unix_ms"
	millis := verifier(t, d, testKey)
	requireVerified(t, millis, signedList("msg_1", stamp(0)+"123", "{}"), "whs_0")
	requireRefused(t, millis, signedList("msg_1", stamp(0), "{}"), verification.ReasonTimestampMalformed)

	d = listed()
	d.Timestamp.Format = "rfc3339"
	text := verifier(t, d, testKey)
	requireVerified(t, text, signedList("msg_1", "2026-03-04T05:06:07.25Z", "{}"), "whs_0")
	requireVerified(t, text, signedList("msg_1", "2026-03-04T06:06:07+01:00", "{}"), "whs_0")
	for _, ts := range []string{"2026-03-04 05:06:07Z", "2026-03-04T05:06:07", "2026-03-04T5:06:07Z",
		"2026-03-04T05:06:07,5Z", "2026-02-30T05:06:07Z"} {
		requireRefused(t, text, signedList("msg_1", ts, "{}"), verification.ReasonTimestampMalformed)
	}
}

// Age and skew are limits of their own, inclusive, and only checked after the signature.
func TestVerifyTimestampWindow(t *testing.T) {
	t.Parallel()
	d := listed()
	d.Timestamp.MaxAgeS, d.Timestamp.MaxSkewS = "300", "60"
	v := verifier(t, d, testKey)
	requireVerified(t, v, signedList("msg_1", stamp(-300*time.Second), "{}"), "whs_0")
	requireRefused(t, v, signedList("msg_1", stamp(-301*time.Second), "{}"), verification.ReasonTimestampOutOfRange)
	requireVerified(t, v, signedList("msg_1", stamp(60*time.Second), "{}"), "whs_0")
	requireRefused(t, v, signedList("msg_1", stamp(61*time.Second), "{}"), verification.ReasonTimestampOutOfRange)

	forged := signedList("msg_1", stamp(-time.Hour), "{}")
	forged.Body = []byte("{ }")
	requireRefused(t, v, forged, verification.ReasonSignatureMismatch)
}

// While secrets rotate each of them is good, the one that matched is named, and a removed one is not good.
func TestVerifyRotation(t *testing.T) {
	t.Parallel()
	r := signedList("msg_1", stamp(0), "{}")
	requireVerified(t, verifier(t, listed(), testKey, "new secret"), r, "whs_0")
	requireVerified(t, verifier(t, listed(), "new secret", testKey), r, "whs_1")
	requireRefused(t, verifier(t, listed(), "new secret", "newer secret"), r, verification.ReasonSignatureMismatch)
	requireRefused(t, verifier(t, listed()), r, verification.ReasonSecretMissing)
	require.Equal(t, verification.ReasonSecretMissing, verifier(t, listed()).Precheck(r.Header).Reason)
}

// A right signature counts in any place of the list, next to any others.
func TestVerifyGarbageAmongSignatures(t *testing.T) {
	t.Parallel()
	v := verifier(t, listed(), testKey)
	r := signedList("msg_1", stamp(0), "{}")
	good := r.Header.Get("webhook-signature")
	wrong := "v1," + b64MAC("other", "")
	for _, header := range []string{
		"v1a,AAAA " + good, good + " v1a,AAAA", wrong + " " + good, "v1, v1,!!!! v1,\xff  " + good + "  ",
		strings.Repeat(wrong+" ", 31) + good,
	} {
		r.Header.Set("webhook-signature", header)
		requireVerified(t, v, r, "whs_0")
	}
}

// Key-value headers are read by key; other keys prove nothing; the timestamp stands there once.
func TestVerifyKeyValueHeader(t *testing.T) {
	t.Parallel()
	v := verifier(t, paired(), testKey)
	ts, body := stamp(0), `{"type":"x"}`
	sig := hexMAC(testKey, ts+"."+body)
	for _, header := range []string{
		"t=" + ts + ",v1=" + sig, "v1=" + sig + ",t=" + ts, "t=" + ts + ", v0=00, v1=" + hexMAC("old", "") + ", v1=" + sig,
		"t=" + ts + ",v1=" + strings.ToUpper(sig),
	} {
		requireVerified(t, v, request(body, "X-Signature", header), "whs_0")
	}
	refused := map[string]verification.Reason{
		"t=" + ts + ",v0=" + sig:                              verification.ReasonSignatureMalformed,
		"t=" + ts + ",v1" + sig:                               verification.ReasonSignatureMalformed,
		"v1=" + sig:                                           verification.ReasonTimestampMissing,
		"t=,v1=" + sig:                                        verification.ReasonTimestampMissing,
		"t=" + ts + ",t=" + ts + ",v1=" + sig:                 verification.ReasonTimestampMalformed,
		"t=" + ts + "0,v1=" + sig:                             verification.ReasonTimestampMalformed,
		"t=" + stamp(1e9) + ",v1=" + sig:                      verification.ReasonSignatureMismatch,
		strings.Repeat("a=b,", 31) + "t=" + ts + ",v1=" + sig: verification.ReasonSignatureMalformed,
	}
	for header, reason := range refused {
		requireRefused(t, v, request(body, "X-Signature", header), reason)
	}
}

// A list can begin with the timestamp, which is signed. It is at that place and at no other; signatures follow it.
func TestVerifyListAfterTimestamp(t *testing.T) {
	t.Parallel()
	v := verifier(t, led(), testKey)
	ts, body := stamp(0), `{"type":"x"}`
	sig := hexMAC(testKey, ts+"."+body)
	for _, header := range []string{
		ts + "," + sig, ts + "," + hexMAC("old", "") + "," + sig, ts + ", " + sig + ",", ts + ",," + sig,
		ts + strings.Repeat(",x", 30) + "," + sig,
	} {
		requireVerified(t, v, request(body, "X-Signature", header), "whs_0")
	}
	for header, reason := range map[string]verification.Reason{
		ts:                                    verification.ReasonSignatureMalformed,
		ts + ",":                              verification.ReasonSignatureMalformed,
		ts + "," + sig[1:]:                    verification.ReasonSignatureMalformed,
		"," + ts + "," + sig:                  verification.ReasonTimestampMissing,
		" ," + sig:                            verification.ReasonTimestampMalformed,
		sig + "," + ts:                        verification.ReasonSignatureMalformed,
		sig + "," + sig:                       verification.ReasonTimestampMalformed,
		ts + "0," + sig:                       verification.ReasonTimestampMalformed,
		ts + " ," + sig:                       verification.ReasonTimestampMalformed,
		stamp(1e9) + "," + sig:                verification.ReasonSignatureMismatch,
		ts + "," + hexMAC(testKey, body):      verification.ReasonSignatureMismatch,
		ts + "," + hexMAC("old", ts+"."+body): verification.ReasonSignatureMismatch,
		ts + strings.Repeat(",x", 31) + "," + sig: verification.ReasonSignatureMalformed,
	} {
		requireRefused(t, v, request(body, "X-Signature", header), reason)
	}
	requireRefused(t, v, request(body, "X-Signature", ts+","+sig, "X-Signature", ts+","+sig),
		verification.ReasonSignatureMalformed)
	requireRefused(t, v, request(body+" ", "X-Signature", ts+","+sig), verification.ReasonSignatureMismatch)
	late := request(body, "X-Signature", ts+","+sig)
	late.Now = late.Now.Add(301 * time.Second)
	requireRefused(t, v, late, verification.ReasonTimestampOutOfRange)
}

// Any one of several signature headers is enough, and each may stand once only.
func TestVerifySeveralSignatureHeaders(t *testing.T) {
	t.Parallel()
	d := bodyOnly()
	second := d.Signature[0]
	second.From = "header:X-Signature-2"
	d.Signature = append(d.Signature, second)
	v := verifier(t, d, testKey)
	good := "sha256=" + hexMAC(testKey, "{}")
	requireVerified(t, v, request("{}", "X-Signature-2", good), "whs_0")
	requireVerified(t, v, request("{}", "X-Signature", "garbage", "X-Signature-2", good), "whs_0")
	requireRefused(t, v, request("{}", "X-Signature", good, "X-Signature-2", good, "X-Signature-2", good),
		verification.ReasonSignatureMalformed)
	require.Equal(t, []string{"x-signature", "x-signature-2"}, v.RedactHeaders())
}

// Algorithms, encodings and secret forms are those that the declaration names.
func TestVerifyFormats(t *testing.T) {
	t.Parallel()
	key := []byte{0xfb, 0xff, 0x00, 0x10, 0xfb, 0xff, 0x00, 0x10, 0xfb}
	h1, h512 := hmac.New(sha1.New, key), hmac.New(sha512.New, key)
	h1.Write([]byte("body"))
	h512.Write([]byte("body"))
	tests := []struct{ algorithm, encoding, decode, secret, signature string }{
		{"sha1", "hex", "hex", "fbff0010fbff0010fb", hex.EncodeToString(h1.Sum(nil))},
		{"sha1", "base64", "base64", "+/8AEPv/ABD7", base64.StdEncoding.EncodeToString(h1.Sum(nil))},
		{"sha512", "base64", "whsec", "whsec_+/8AEPv/ABD7", base64.StdEncoding.EncodeToString(h512.Sum(nil))},
		{"sha512", "base64url", "whsec", "+/8AEPv/ABD7", base64.URLEncoding.EncodeToString(h512.Sum(nil))},
		{"sha512", "base64url", "utf8", string(key), base64.RawURLEncoding.EncodeToString(h512.Sum(nil))},
		{"sha512", "hex", "utf8", string(key), strings.ToUpper(hex.EncodeToString(h512.Sum(nil)))},
	}
	for _, tt := range tests {
		d := bodyOnly()
		d.Algorithm, d.Secret.Decode = tt.algorithm, tt.decode
		d.Signature[0].Encoding, d.Signature[0].Parse.Prefix = tt.encoding, ""
		v := verifier(t, d, tt.secret)
		requireVerified(t, v, request("body", "X-Signature", tt.signature), "whs_0")
		requireRefused(t, v, request("Body", "X-Signature", tt.signature), verification.ReasonSignatureMismatch)
	}
}

// A signature has one text in base64: bits that decoding drops cannot be set.
func TestVerifyStrictBase64(t *testing.T) {
	t.Parallel()
	d := bodyOnly()
	d.Signature[0].Encoding, d.Signature[0].Parse.Prefix = "base64", ""
	v := verifier(t, d, testKey)
	// The sum of a SHA-256 HMAC leaves two bits of the last digit unused.
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	good := b64MAC(testKey, "{}")
	last := strings.IndexByte(digits, good[42])
	requireVerified(t, v, request("{}", "X-Signature", good), "whs_0")
	requireRefused(t, v, request("{}", "X-Signature", good[:42]+digits[last+1:last+2]+"="),
		verification.ReasonSignatureMalformed)
	requireRefused(t, v, request("{}", "X-Signature", good[:43]), verification.ReasonSignatureMalformed)
}

// A timestamp in the body is covered with it, and is checked after the signature.
func TestVerifyTimestampInBody(t *testing.T) {
	t.Parallel()
	d := bodyOnly()
	d.Timestamp = &verification.TimestampRule{From: "json:/at", Format: "unix_ms", MaxAgeS: "60", MaxSkewS: "60",
		Signed: true}
	v := verifier(t, d, testKey)
	signed := func(body string) *verification.Request {
		return request(body, "X-Signature", "sha256="+hexMAC(testKey, body))
	}
	requireVerified(t, v, signed(`{"at":`+stamp(0)+`000}`), "whs_0")
	requireRefused(t, v, signed(`{"at":`+stamp(-time.Hour)+`000}`), verification.ReasonTimestampOutOfRange)
	requireRefused(t, v, signed(`{}`), verification.ReasonTimestampMissing)
	requireRefused(t, v, signed(`{"at":null}`), verification.ReasonTimestampMissing)
	requireRefused(t, v, signed(`not json`), verification.ReasonTimestampMissing)
	requireRefused(t, v, signed(`{"at":1.7e12}`), verification.ReasonTimestampMalformed)
	requireRefused(t, v, request(`{"at":1}`, "X-Signature", "sha256="+hexMAC(testKey, "")),
		verification.ReasonSignatureMismatch)
}

// Bytes cannot be moved across the border between signed parts, although the signed bytes stay the same.
func TestVerifyBordersOfSignedParts(t *testing.T) {
	t.Parallel()
	v := verifier(t, listed(), testKey)
	ts := stamp(0)
	// The sender signed id "msg", an old timestamp and a body that begins like a timestamp.
	content := "msg." + stamp(-time.Hour) + "." + ts + ".{}"
	forged := request("{}", "webhook-id", "msg."+stamp(-time.Hour), "webhook-timestamp", ts,
		"webhook-signature", "v1,"+b64MAC(testKey, content))
	requireRefused(t, v, forged, verification.ReasonHeaderMalformed)

	d := listed()
	d.Signed = "{id}{ts}{body}"
	v = verifier(t, d, testKey)
	signed := func(id, ts, body string) *verification.Request {
		return request(body, "webhook-id", id, "webhook-timestamp", ts, "webhook-signature", "v1,"+
			b64MAC(testKey, "id1"+stamp(0)+"7{}"))
	}
	requireVerified(t, v, signed("id1", ts, "7{}"), "whs_0")
	requireRefused(t, v, signed("id", "1"+ts[:9], ts[9:]+"7{}"), verification.ReasonTimestampOutOfRange)
	requireRefused(t, v, signed("id1"+ts[:1], ts[1:]+"7", "{}"), verification.ReasonTimestampOutOfRange)

	d = listed()
	d.Signed = "{body}-{id}.{ts}"
	v = verifier(t, d, testKey)
	after := func(id, body string) *verification.Request {
		return request(body, "webhook-id", id, "webhook-timestamp", ts, "webhook-signature", "v1,"+
			b64MAC(testKey, "{}-a-b."+ts))
	}
	requireVerified(t, v, after("b", "{}-a"), "whs_0")
	requireRefused(t, v, after("a-b", "{}"), verification.ReasonHeaderMalformed)
}

// An id that cannot be kept refuses a webhook whose signature covers it, rather than losing it.
func TestVerifyUnfitSignedID(t *testing.T) {
	t.Parallel()
	v := verifier(t, listed(), testKey)
	requireVerified(t, v, signedList(strings.Repeat("i", 512), stamp(0), "{}"), "whs_0")
	for _, id := range []string{strings.Repeat("i", 513), "a\xff", "a\x00b"} {
		requireRefused(t, v, signedList(id, stamp(0), "{}"), verification.ReasonHeaderMalformed)
	}
}

// An unsigned id does not decide over the webhook, except that there may not be two.
func TestVerifyUnsignedID(t *testing.T) {
	t.Parallel()
	v := verifier(t, bodyOnly(), testKey)
	sig := "sha256=" + hexMAC(testKey, "{}")
	requireVerified(t, v, request("{}", "X-Signature", sig), "whs_0")
	requireVerified(t, v, request("{}", "X-Signature", sig, "X-Delivery", "a\xff"), "whs_0")
	requireRefused(t, v, request("{}", "X-Signature", sig, "X-Delivery", "a", "X-Delivery", "a"),
		verification.ReasonHeaderMalformed)
}

// A key pasted as a header name in another case is not seen, so there is one place where a header can be.
func TestVerifyIgnoresNonCanonicalKeys(t *testing.T) {
	t.Parallel()
	v := verifier(t, bodyOnly(), testKey)
	r := request("{}")
	r.Header = http.Header{"x-signature": {"sha256=" + hexMAC(testKey, "{}")}}
	requireRefused(t, v, r, verification.ReasonSignatureMissing)
}

// Precheck refuses a webhook without a signature before any body is read.
func TestPrecheck(t *testing.T) {
	t.Parallel()
	v := verifier(t, bodyOnly(), testKey)
	require.Equal(t, verification.ReasonSignatureMissing, v.Precheck(http.Header{}).Reason)
	require.Equal(t, verification.ReasonSignatureMalformed, v.Precheck(http.Header{"X-Signature": {"a", "b"}}).Reason)
	require.Nil(t, v.Precheck(http.Header{"X-Signature": {"sha256=00"}}))
}

// No refusal quotes a secret, a right signature or anything that the sender wrote.
func TestRefusalsRevealNothing(t *testing.T) {
	t.Parallel()
	v := verifier(t, listed(), testKey)
	ts := stamp(0)
	for _, r := range []*verification.Request{
		request("{}", "webhook-id", "leak.leak", "webhook-timestamp", ts, "webhook-signature", "v1,"+b64MAC("x", "")),
		request("{}", "webhook-id", "leak", "webhook-timestamp", "leak", "webhook-signature", "v1,"+b64MAC("x", "")),
		request("{}", "webhook-id", "leak", "webhook-timestamp", ts, "webhook-signature", "v1,"+b64MAC("x", "leak")),
		request("{}", "webhook-id", "leak", "webhook-timestamp", ts, "webhook-signature", "v1,leak"),
	} {
		_, refusal := v.Verify(t.Context(), r)
		require.NotNil(t, refusal)
		require.NotContains(t, refusal.Error(), "leak")
		require.NotContains(t, refusal.Error(), testKey)
		require.NotContains(t, refusal.Error(), b64MAC(testKey, "leak."+ts+".{}"))
		require.NotContains(t, refusal.Error(), b64MAC("x", "leak"))
	}
}

// Changing any bit of anything that is signed, or of the signature, refuses the webhook.
func TestVerifyRefusesEveryFlippedBit(t *testing.T) {
	t.Parallel()
	v := verifier(t, listed(), "another secret", testKey)
	rapid.Check(t, func(rt *rapid.T) {
		id := rapid.StringMatching(`[A-Za-z0-9_]{1,40}`).Draw(rt, "id")
		ts := stamp(time.Duration(rapid.IntRange(-300, 300).Draw(rt, "offset")) * time.Second)
		body := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(rt, "body")
		sum := mac(testKey, id+"."+ts+"."+string(body))
		parts := map[string][]byte{"id": []byte(id), "ts": []byte(ts), "body": body, "mac": sum}
		send := func() *verification.Refusal {
			r := request(string(parts["body"]), "webhook-id", string(parts["id"]), "webhook-timestamp", string(parts["ts"]),
				"webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(parts["mac"]))
			_, refusal := v.Verify(t.Context(), r)
			return refusal
		}
		if refusal := send(); refusal != nil {
			rt.Fatalf("a good webhook was refused: %v", refusal)
		}
		name := rapid.SampledFrom([]string{"id", "ts", "body", "mac"}).Draw(rt, "part")
		part := parts[name]
		at := rapid.IntRange(0, len(part)-1).Draw(rt, "byte")
		part[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		if send() == nil {
			rt.Fatalf("accepted with a flipped bit in %s", name)
		}
	})
}

// One Verifier serves many webhooks at the same time, with every right one accepted and every wrong one
// refused.
func TestVerifyConcurrently(t *testing.T) {
	t.Parallel()
	v := verifier(t, listed(), "old secret", testKey)
	done := make(chan bool)
	for worker := range 8 {
		go func() {
			ok := true
			for i := range 200 {
				r := signedList("msg_1", stamp(0), strings.Repeat("x", worker*31+i))
				_, refusal := v.Verify(t.Context(), r)
				ok = ok && refusal == nil
				r.Body = append(r.Body, '.')
				_, refusal = v.Verify(t.Context(), r)
				ok = ok && refusal != nil
			}
			done <- ok
		}()
	}
	for range 8 {
		require.True(t, <-done)
	}
}
