package verification_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/verification"
)

const testKey = "a key that the sender shares"

// now is when every webhook of these tests arrives.
func now() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

func stamp(offset time.Duration) string { return strconv.FormatInt(now().Add(offset).Unix(), 10) }

// bodyOnly signs the body, as GitHub does.
func bodyOnly() verification.Declaration {
	return verification.Declaration{Proof: verification.Proof{
		Scheme: "hmac", Algorithm: "sha256",
		Secret: verification.SecretFormat{Decode: "utf8"},
		Signature: []verification.SignatureSource{{
			From: "header:X-Signature", Encoding: "hex", Parse: verification.SignatureParse{Prefix: "sha256="},
		}},
		Signed: "{body}",
	}, Event: verification.EventRules{
		Type: []string{"{header:X-Event}.{json:/action}", "{header:X-Event}"},
		ID:   []string{"header:X-Delivery"},
	}}
}

// listed signs id, timestamp and body, as Standard Webhooks does.
func listed() verification.Declaration {
	return verification.Declaration{Proof: verification.Proof{
		Scheme: "hmac", Algorithm: "sha256",
		Secret: verification.SecretFormat{Decode: "utf8"},
		Signature: []verification.SignatureSource{{
			From: "header:webhook-signature", Encoding: "base64",
			Parse: verification.SignatureParse{List: &verification.ListParse{Sep: " ", Prefix: "v1,"}},
		}},
		Signed: "{id}.{ts}.{body}",
		Timestamp: &verification.TimestampRule{
			From: "header:webhook-timestamp", Format: "unix_s", MaxAgeS: "300", MaxSkewS: "300", Signed: true,
		},
	}, Event: verification.EventRules{Type: []string{"{json:/type}"}, ID: []string{"header:webhook-id"}}}
}

// paired has timestamp and signatures in one header, as Stripe does.
func paired() verification.Declaration {
	return verification.Declaration{Proof: verification.Proof{
		Scheme: "hmac", Algorithm: "sha256",
		Secret: verification.SecretFormat{Decode: "utf8"},
		Signature: []verification.SignatureSource{{
			From: "header:X-Signature", Encoding: "hex",
			Parse: verification.SignatureParse{KV: &verification.KVParse{PairSep: ",", KVSep: "=", Keys: []string{"v1"}}},
		}},
		Signed: "{ts}.{body}",
		Timestamp: &verification.TimestampRule{
			From: "sig:t", Format: "unix_s", MaxAgeS: "300", MaxSkewS: "300", Signed: true,
		},
	}, Event: verification.EventRules{Type: []string{"{json:/type}"}, ID: []string{"json:/id"}}}
}

// led has the timestamp and then the signatures in one list, as Recurly does.
func led() verification.Declaration {
	d := paired()
	d.Signature[0].Parse = verification.SignatureParse{List: &verification.ListParse{Sep: ","}}
	d.Timestamp.From = "sig:first"
	return d
}

func mac(key, content string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(content))
	return h.Sum(nil)
}

func hexMAC(key, content string) string { return hex.EncodeToString(mac(key, content)) }

func b64MAC(key, content string) string { return base64.StdEncoding.EncodeToString(mac(key, content)) }

func secrets(values ...string) []verification.Secret {
	out := make([]verification.Secret, len(values))
	for i, v := range values {
		out[i] = verification.Secret{ID: "whs_" + strconv.Itoa(i), Value: secretbox.Secret(v)}
	}
	return out
}

func verifier(tb testing.TB, d verification.Declaration, values ...string) *verification.Verifier {
	tb.Helper()
	engine, err := verification.Compile(d)
	require.NoError(tb, err)
	v, err := engine.Prepare(nil, secrets(values...))
	require.NoError(tb, err)
	return v
}

// describe returns what the verifier says of a webhook that it does not refuse.
func describe(tb testing.TB, v *verification.Verifier, r *verification.Request) verification.Event {
	tb.Helper()
	event, refusal := v.Describe(r)
	require.Nil(tb, refusal)
	return event
}

// request makes a webhook from a body and pairs of header names and values; a name may come twice.
func request(body string, pairs ...string) *verification.Request {
	h := http.Header{}
	for pair := range slices.Chunk(pairs, 2) {
		h.Add(pair[0], pair[1])
	}
	return &verification.Request{Method: http.MethodPost, Header: h, Body: []byte(body), Now: now()}
}

// signedList is a webhook that listed accepts.
func signedList(id, ts, body string) *verification.Request {
	return request(body, "webhook-id", id, "webhook-timestamp", ts,
		"webhook-signature", "v1,"+b64MAC(testKey, id+"."+ts+"."+body))
}

func requireRefused(tb testing.TB, v *verification.Verifier, r *verification.Request, reason verification.Reason) {
	tb.Helper()
	result, refusal := v.Verify(tb.Context(), r)
	require.NotNil(tb, refusal)
	require.Equal(tb, reason, refusal.Reason, refusal.Message)
	require.Zero(tb, result, "a refusal carries no result")
}

func requireVerified(tb testing.TB, v *verification.Verifier, r *verification.Request, keyID string) {
	tb.Helper()
	requireProved(tb, v, r, "hmac", keyID)
}

func requireProved(tb testing.TB, v *verification.Verifier, r *verification.Request, scheme, keyID string) {
	tb.Helper()
	require.Nil(tb, v.Precheck(r.Header), "what Verify accepts must pass Precheck")
	result, refusal := v.Verify(tb.Context(), r)
	require.Nil(tb, refusal)
	require.Equal(tb, verification.Result{Scheme: scheme, KeyID: keyID, Verified: true}, result)
}

// declared is a declaration of a proof alone.
func declared(p verification.Proof) verification.Declaration {
	return verification.Declaration{Proof: p}
}

// sha256Proof is an HMAC-SHA256 in hexadecimal at one place.
func sha256Proof(from, signed string) verification.Proof {
	return verification.Proof{
		Scheme: "hmac", Algorithm: "sha256", Secret: verification.SecretFormat{Decode: "utf8"},
		Signature: []verification.SignatureSource{{From: from, Encoding: "hex"}}, Signed: signed,
	}
}

// atURL is a webhook at a URL.
func atURL(r *verification.Request, public, path, query string) *verification.Request {
	r.PublicURL, r.Path, r.RawQuery = public, path, query
	return r
}

func violationsOfProof(tb testing.TB, p verification.Proof) []string {
	tb.Helper()
	_, err := verification.Compile(declared(p))
	return violationsOf(tb, err)
}
