package registry_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// describe returns what the verifier says of a webhook that it does not refuse.
func describe(tb testing.TB, v *verification.Verifier, r *verification.Request) verification.Event {
	tb.Helper()
	event, refusal := v.Describe(r)
	require.Nil(tb, refusal)
	return event
}

// connect prepares a verifier from a definition that ships.
func connect(t *testing.T, slug string, params map[string]string, secrets ...string) *verification.Verifier {
	t.Helper()
	return connectWith(t, slug, verification.Settings{Params: params}, secrets...)
}

func deliver(at time.Time, body string, pairs ...string) *verification.Request {
	h := http.Header{}
	for pair := range slices.Chunk(pairs, 2) {
		h.Add(pair[0], pair[1])
	}
	return &verification.Request{Method: http.MethodPost, Header: h, Body: []byte(body), Now: at}
}

func requireReason(t *testing.T, v *verification.Verifier, r *verification.Request, want verification.Reason) {
	t.Helper()
	_, refusal := v.Verify(t.Context(), r)
	require.NotNil(t, refusal)
	require.Equal(t, want, refusal.Reason)
}

func hmacHex(key, content string) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(content))
	return hex.EncodeToString(h.Sum(nil))
}

// The example that GitHub documents under "Validating webhook deliveries" verifies, and nothing near it does.
func TestGitHubVector(t *testing.T) {
	t.Parallel()
	const (
		secret    = "It's a Secret to Everybody"
		signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	)
	r := deliver(time.Unix(1772600767, 0), "Hello, World!", "X-Hub-Signature-256", "sha256="+signature,
		"X-GitHub-Event", "push", "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	vector{
		slug: "github", secret: secret, request: r,
		at: "header:X-Hub-Signature-256", label: "sha256=", text: signature, encoding: "hex",
		signed: []string{"body"}, outside: []string{"header:X-GitHub-Event", "header:X-GitHub-Delivery"},
	}.check(t)
	v := connect(t, "github", nil, secret)
	requireReason(t, v, deliver(r.Now, "Hello, World!", "X-Hub-Signature", "sha256="+signature),
		verification.ReasonSignatureMissing)
	require.Equal(t, []string{"x-hub-signature", "x-hub-signature-256"}, v.RedactHeaders())
}

// GitHub's events have the type that its documentation names, with the action where there is one, in JSON and
// in form deliveries alike; its delivery id is known not to be signed.
func TestGitHubEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "github", nil, "the secret")
	tests := []struct{ event, json, want string }{
		{"issues", `{"action":"opened","issue":{"action":"x"}}`, "issues.opened"},
		{"push", `{"ref":"refs/heads/main"}`, "push"},
		{"ping", `{"zen":"Keep it logically awesome."}`, "ping"},
	}
	for _, tt := range tests {
		for contentType, body := range map[string]string{
			"application/json":                  tt.json,
			"application/x-www-form-urlencoded": "payload=" + url.QueryEscape(tt.json),
		} {
			r := deliver(time.Time{}, body, "X-Hub-Signature-256", "sha256="+hmacHex("the secret", body), "X-GitHub-Event",
				tt.event, "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958", "Content-Type", contentType)
			_, refusal := v.Verify(t.Context(), r)
			require.Nil(t, refusal)
			require.Equal(t, verification.Event{
				Type: tt.want, ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", IDSource: "header:x-github-delivery",
			}, describe(t, v, r))
		}
	}
}

// The vector in the test suites of the Standard Webhooks libraries verifies within five minutes either way.
func TestStandardWebhooksVector(t *testing.T) {
	t.Parallel()
	const (
		secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		signature = "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	)
	r := deliver(time.Unix(1614265330, 0), `{"test": 2432232314}`, "webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek",
		"webhook-timestamp", "1614265330", "webhook-signature", "v1,"+signature)
	vector{
		slug: "standard-webhooks", secret: secret, otherSecret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", request: r,
		at: "header:webhook-signature", label: "v1,", text: signature, encoding: "base64",
		signed:    []string{"body", "header:webhook-id", "header:webhook-timestamp"},
		timestamp: "header:webhook-timestamp", maxAge: 5 * time.Minute, maxSkew: 5 * time.Minute,
	}.check(t)
	require.Equal(t, verification.Event{
		Type: "unknown", TypeSigned: true, ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", IDSource: "header:webhook-id", IDSigned: true,
	}, describe(t, connect(t, "standard-webhooks", nil, secret), r))
}

// A webhook that the Standard Webhooks library signed verifies here, and each signed part is covered.
func TestStandardWebhooksLibrary(t *testing.T) {
	t.Parallel()
	const secret, oldSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	const body = `{"type":"contact.created","data":{}}`
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	ts := strconv.FormatInt(at.Unix(), 10)
	sign := func(secret string) string {
		library, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		signature, err := library.Sign("msg_1", at, []byte(body))
		require.NoError(t, err)
		return signature
	}
	send := func(body, id, ts, signature string) *verification.Request {
		return deliver(at, body, "webhook-id", id, "webhook-timestamp", ts, "webhook-signature", signature)
	}
	v := connect(t, "standard-webhooks", nil, secret)
	for _, signature := range []string{sign(secret), sign(oldSecret) + " " + sign(secret),
		"v1a,hnO3f9T8Ytu9HwrXslvumlUp " + sign(secret)} {
		r := send(body, "msg_1", ts, signature)
		_, refusal := v.Verify(t.Context(), r)
		require.Nil(t, refusal)
		require.Equal(t, verification.Event{Type: "contact.created", TypeSigned: true, ID: "msg_1",
			IDSource: "header:webhook-id", IDSigned: true}, describe(t, v, r))
	}
	requireReason(t, v, send(body+" ", "msg_1", ts, sign(secret)), verification.ReasonSignatureMismatch)
	requireReason(t, v, send(body, "msg_2", ts, sign(secret)), verification.ReasonSignatureMismatch)
	requireReason(t, v, send(body, "msg_1", strconv.FormatInt(at.Unix()+1, 10), sign(secret)),
		verification.ReasonSignatureMismatch)
	requireReason(t, v, send(body, "msg_1", ts, sign(oldSecret)), verification.ReasonSignatureMismatch)
	requireReason(t, v, send(body, "msg_1", ts, "v1a"+sign(secret)[2:]), verification.ReasonSignatureMalformed)
	requireReason(t, v, send(body, "", ts, sign(secret)), verification.ReasonHeaderMissing)

	rotating := connect(t, "standard-webhooks", nil, secret, oldSecret)
	result, refusal := rotating.Verify(t.Context(), send(body, "msg_1", ts, sign(oldSecret)))
	require.Nil(t, refusal)
	require.Equal(t, "1", result.KeyID)
}

// Without parameters generic-hmac reads X-Signature as the hex HMAC-SHA256 of the body.
func TestGenericHMACDefaults(t *testing.T) {
	t.Parallel()
	v := connect(t, "generic-hmac", nil, "the secret")
	r := deliver(time.Time{}, `{"type":"t","id":"1"}`, "X-Signature", hmacHex("the secret", `{"type":"t","id":"1"}`))
	_, refusal := v.Verify(t.Context(), r)
	require.Nil(t, refusal)
	require.Equal(t, verification.Event{Type: "unknown", TypeSigned: true}, describe(t, v, r))
	r.Body = append(r.Body, ' ')
	requireReason(t, v, r, verification.ReasonSignatureMismatch)
}

// Test case 1 of RFC 4231 (SHA-256, SHA-512) and of RFC 2202 (SHA-1) verifies, and no other content with its
// HMAC.
func TestGenericHMACVectors(t *testing.T) {
	t.Parallel()
	for algorithm, signature := range map[string]string{
		"sha1":   "b617318655057264e28bc0b6fb378c8ef146be00",
		"sha256": "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
		"sha512": "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
	} {
		v := connect(t, "generic-hmac", map[string]string{"algorithm": algorithm, "secret_encoding": "hex"},
			strings.Repeat("0b", 20))
		_, refusal := v.Verify(t.Context(), deliver(time.Time{}, "Hi There", "X-Signature", signature))
		require.Nil(t, refusal, algorithm)
		requireReason(t, v, deliver(time.Time{}, "Hi there", "X-Signature", signature), verification.ReasonSignatureMismatch)
	}
}

// Every parameter of generic-hmac does what its description says.
func TestGenericHMACParameters(t *testing.T) {
	t.Parallel()
	v := connect(t, "generic-hmac", map[string]string{
		"signature_header": "X-Acme-Sig", "algorithm": "sha512", "encoding": "base64", "prefix": "v2=",
		"secret_encoding": "hex", "signed_content": "{ts}.{body}", "timestamp_header": "X-Acme-Time",
		"timestamp_format": "unix_ms", "timestamp_tolerance_s": "60", "event_type_header": "X-Acme-Event",
		"event_type_pointer": "/kind", "event_id_header": "X-Acme-Id", "event_id_pointer": "/meta/id",
	}, "00ff10203040506070")
	at := time.UnixMilli(1772600767123)
	send := func(body string, now time.Time, pairs ...string) *verification.Request {
		h := hmac.New(sha512.New, []byte{0x00, 0xff, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70})
		h.Write([]byte("1772600767123." + body))
		return deliver(now, body, append(pairs, "X-Acme-Sig", "v2="+base64.StdEncoding.EncodeToString(h.Sum(nil)),
			"X-Acme-Time", "1772600767123")...)
	}
	tests := []struct {
		r    *verification.Request
		want verification.Event
	}{
		{send(`{"kind":"k","meta":{"id":7}}`, at, "X-Acme-Event", "e", "X-Acme-Id", "h"),
			verification.Event{Type: "e", ID: "7", IDSource: "json:/meta/id", IDSigned: true}},
		{send(`{"kind":"k"}`, at.Add(time.Minute), "X-Acme-Id", "h"), verification.Event{Type: "k", ID: "h",
			IDSource: "header:x-acme-id"}},
	}
	for _, tt := range tests {
		_, refusal := v.Verify(t.Context(), tt.r)
		require.Nil(t, refusal)
		require.Equal(t, tt.want, describe(t, v, tt.r))
	}
	requireReason(t, v, send("{}", at.Add(time.Minute+time.Millisecond)), verification.ReasonTimestampOutOfRange)
	requireReason(t, v, send("{}", at.Add(-time.Minute-time.Millisecond)), verification.ReasonTimestampOutOfRange)
	require.Equal(t, []string{"x-acme-sig"}, v.RedactHeaders())
}

// Parameters that contradict each other are refused, naming the parameter.
func TestGenericHMACRefusesIncoherence(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	generic, ok := loaded.Get("generic-hmac")
	require.True(t, ok)
	for field, params := range map[string]map[string]string{
		"params.signed_content":        {"signed_content": "{ts}.{body}"},
		"params.timestamp_header":      {"timestamp_header": "X-Timestamp"},
		"params.timestamp_tolerance_s": {"timestamp_tolerance_s": "60"},
		"params.timestamp_format":      {"timestamp_format": "rfc3339"},
		"params.algorithm":             {"algorithm": "md5"},
		"params.encoding":              {"encoding": ""},
		"params.signature_header":      {"signature_header": "X Signature"},
		"params.event_type_pointer":    {"event_type_pointer": "type"},
		"params.tolerance":             {"tolerance": "60"},
		"params.event_id_header":       {"event_id_header": "Authorization"},
		"params.event_type_header":     {"event_type_header": "X-Signature"},
	} {
		_, err := generic.Webhooks.Prepare(params, nil)
		var config *verification.ConfigError
		require.ErrorAs(t, err, &config)
		require.Len(t, config.Problems, 1)
		require.Equal(t, field, config.Problems[0].Field)
	}
	for _, header := range []string{"authorization", "Cookie", "Api-Key", "x-api-key", "Proxy-Authorization",
		"X-Signature"} {
		for _, param := range []string{"event_id_header", "event_type_header"} {
			_, err := generic.Webhooks.Prepare(map[string]string{param: header}, nil)
			require.ErrorContains(t, err, "stored in clear", "%s = %s", param, header)
		}
	}
	for _, tolerance := range []string{"1", "9", "10", "3600", "86400"} {
		_, err := generic.Webhooks.Prepare(map[string]string{
			"signed_content": "{body}{ts}", "timestamp_header": "X-Ts", "timestamp_tolerance_s": tolerance,
		}, nil)
		require.NoError(t, err, tolerance)
	}
}

// Every definition that ships with webhooks says what it rests on.
func TestDefinitionsHaveEvidence(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	for _, p := range loaded.List() {
		require.Equal(t, p.Definition.Webhooks != nil, p.Definition.Evidence != nil, p.Definition.Slug)
	}
}

// Every definition that ships refuses a connection's deliveries until it has a secret, and unsigned ones
// after.
func TestDefinitionsFailClosed(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	require.NotEmpty(t, loaded.List())
	for _, p := range loaded.List() {
		if p.Webhooks == nil || p.Definition.Webhooks.Scheme == "none" {
			continue
		}
		settings, secret := exampleSettings(p), exampleSecret(p)
		slug := p.Definition.Slug
		r := deliver(time.Unix(1772600767, 0), "{}", "webhook-id", "a", "webhook-timestamp", "1772600767")
		want := verification.ReasonSignatureMissing
		if v := connectWith(t, slug, settings); !v.NeedsSecret() {
			requireReason(t, v, r, want)
			continue
		}
		requireReason(t, connectWith(t, slug, settings), r, verification.ReasonSecretMissing)
		if slug == "adyen" {
			want = verification.ReasonBodyMalformed // no items, in which the signatures would be
		}
		requireReason(t, connectWith(t, slug, settings, secret), r, want)
	}
}

// exampleSettings are such as a connection of the provider needs, without secrets.
func exampleSettings(p *registry.Provider) verification.Settings {
	settings := verification.Settings{Params: map[string]string{}}
	for _, param := range p.Webhooks.Params() {
		if param.Required {
			settings.Params[param.Name] = param.Example
		}
	}
	return settings
}

// exampleSecret is a secret in the form that the provider's are.
func exampleSecret(p *registry.Provider) string {
	switch {
	case p.Definition.Slug == "adyen":
		return adyenKey
	case p.Definition.Webhooks.Algorithm == "ecdsa_p256_der":
		return sendgridOtherKey
	case p.Definition.Webhooks.Algorithm == "ed25519":
		return strings.Repeat("5a", 32)
	default:
		return "c2VjcmV0c2VjcmV0"
	}
}
