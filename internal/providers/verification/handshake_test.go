package verification_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/verification"
)

func method(names ...string) verification.Predicate {
	return verification.Predicate{From: "method", Equals: names}
}

func present(from string) verification.Predicate {
	return verification.Predicate{From: from, Present: true}
}

// shaking is bodyOnly with a handshake.
func shaking(h ...verification.Handshake) verification.Declaration {
	d := bodyOnly()
	d.Handshake = h
	return d
}

func get(method, query string, pairs ...string) *verification.Request {
	r := atURL(request("", pairs...), "https://a", "/h", query)
	r.Method = method
	return r
}

func requireAnswer(t *testing.T, v *verification.Verifier, r *verification.Request, status int, contentType,
	body string) *verification.Response {
	t.Helper()
	response, refusal := v.Handshake(t.Context(), r)
	require.Nil(t, refusal)
	require.NotNil(t, response)
	require.Equal(t, status, response.Status)
	require.Equal(t, contentType, response.Header.Get("Content-Type"))
	require.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
	require.Equal(t, body, string(response.Body))
	return response
}

func requireNoHandshake(t *testing.T, v *verification.Verifier, r *verification.Request) {
	t.Helper()
	response, refusal := v.Handshake(t.Context(), r)
	require.Nil(t, response)
	require.Nil(t, refusal)
}

func requireHandshakeRefused(t *testing.T, v *verification.Verifier, r *verification.Request,
	reason verification.Reason) {
	t.Helper()
	response, refusal := v.Handshake(t.Context(), r)
	require.Nil(t, response)
	require.NotNil(t, refusal)
	require.Equal(t, reason, refusal.Reason)
}

const plain = "text/plain; charset=utf-8"

// A challenge in the query is echoed as plain text that no browser runs, when all predicates hold, as Meta
// asks.
func TestHandshakeEcho(t *testing.T) {
	t.Parallel()
	v := verifier(t, shaking(verification.Handshake{
		When: []verification.Predicate{
			method("GET", "HEAD"), {From: "query:hub.mode", Equals: []string{"subscribe"}}, {From: "query:hub.verify_token",
				Equals: []string{"mine"}},
		},
		Respond: verification.Respond{Status: 200, Body: "${query:hub.challenge}"},
	}), testKey)
	require.Equal(t, []string{"GET", "HEAD"}, v.HandshakeMethods())
	const query = "hub.mode=subscribe&hub.verify_token=mine&hub.challenge="
	requireAnswer(t, v, get("GET", query+"%3Cscript%3E"), 200, plain, "<script>")
	requireAnswer(t, v, get("HEAD", query+"1"), 200, plain, "1")
	requireNoHandshake(t, v, get("POST", query+"1"))
	requireNoHandshake(t, v, get("GET", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=x"))
	requireNoHandshake(t, v, get("GET", query+"1&hub.mode=subscribe"))
	requireHandshakeRefused(t, v, get("GET", query), verification.ReasonHandshakeMalformed)
	requireHandshakeRefused(t, v, get("GET", query+"1&hub.challenge=2"), verification.ReasonHandshakeMalformed)
	requireHandshakeRefused(t, v, get("GET", query+strings.Repeat("a", 1025)), verification.ReasonHandshakeMalformed)
	requireNoHandshake(t, verifier(t, bodyOnly(), testKey), get("GET", query+"1"))
}

// zoom responds a signed challenge with its HMAC.
func zoom() verification.Declaration {
	d := shaking(verification.Handshake{
		When: []verification.Predicate{method("POST"),
			{From: "json:/event", Equals: []string{"endpoint.url_validation"}}},
		VerifyFirst: true,
		Respond: verification.Respond{Status: 200, ContentType: "application/json",
			Body: `{"plainToken":"${json:/payload/plainToken}","encryptedToken":"${hmac_hex(json:/payload/plainToken)}"}`},
	})
	d.Signature[0].Parse.Prefix = "v0="
	d.Signed = "v0:{ts}:{body}"
	d.Timestamp = &verification.TimestampRule{From: "header:X-T", Format: "unix_s", MaxAgeS: "300", Signed: true}
	return d
}

// A provider that signs its handshakes gets a response only for a right signature, under the key that signed, and only
// for values that cannot be an event.
func TestHandshakeVerifyFirst(t *testing.T) {
	t.Parallel()
	v := verifier(t, zoom(), testKey, "the newest secret")
	send := func(token, key string) *verification.Request {
		body := `{"event":"endpoint.url_validation","payload":{"plainToken":"` + token + `"}}`
		return request(body, "X-T", stamp(0), "X-Signature", "v0="+hexMAC(key, "v0:"+stamp(0)+":"+body))
	}
	for _, key := range []string{testKey, "the newest secret"} {
		requireAnswer(t, v, send("qgg8vlvZRS6UYooatFL8Aw", key), 200, "application/json",
			`{"plainToken":"qgg8vlvZRS6UYooatFL8Aw","encryptedToken":"`+hexMAC(key, "qgg8vlvZRS6UYooatFL8Aw")+`"}`)
	}
	requireHandshakeRefused(t, v, send("a", "a forged key"), verification.ReasonSignatureMismatch)
	requireHandshakeRefused(t, verifier(t, zoom()), send("a", testKey), verification.ReasonSecretMissing)
	for _, oracle := range []string{"v0:1772600767:{}", "a b", "{}", "", strings.Repeat("a", 129), "ä", `\n`} {
		requireHandshakeRefused(t, v, send(oracle, testKey), verification.ReasonHandshakeMalformed)
	}
	require.NotNil(t, v.Precheck(http.Header{}), "what is verified first needs its signature")
}

// crc responds an unsigned challenge with its HMAC, as X asks.
func crc(signed string) verification.Declaration {
	d := shaking(verification.Handshake{
		When: []verification.Predicate{method("GET"), present("query:crc_token")},
		Respond: verification.Respond{Status: 200, ContentType: "application/json",
			Body: `{"response_token":"sha256=${hmac_b64(query:crc_token)}"}`},
	})
	d.Signed, d.Signature[0].Encoding = signed, "base64"
	return d
}

// The response to an unsigned challenge uses the newest secret.
func TestHandshakeHMAC(t *testing.T) {
	t.Parallel()
	v := verifier(t, crc("{body}"), "an old secret", testKey)
	requireAnswer(t, v, get("GET", "crc_token=foo-BAR_1"), 200, "application/json", `{"response_token":"sha256=`+
		b64MAC(testKey, "foo-BAR_1")+`"}`)
	requireHandshakeRefused(t, v, get("GET", "crc_token=%7B%7D"), verification.ReasonHandshakeMalformed)
	requireHandshakeRefused(t, verifier(t, crc("{body}")), get("GET", "crc_token=a"), verification.ReasonSecretMissing)
}

// Handshakes are no oracle: for any value that a caller has signed by them, no event is accepted under that
// response.
func TestHandshakeIsNoOracle(t *testing.T) {
	t.Parallel()
	templates := []string{"{body}", "{header:X-A}-{body}", "{body}_{header:X-A}", "v0:{body}", "{method}{path}-{body}",
		"{body_sha256_hex}", "{json?:/a}-{body}"}
	verifiers := make([]*verification.Verifier, len(templates))
	for i, signed := range templates {
		verifiers[i] = verifier(t, crc(signed), testKey)
	}
	rapid.Check(t, func(rt *rapid.T) {
		i := rapid.IntRange(0, len(templates)-1).Draw(rt, "template")
		token := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_-]{1,128}`), rapid.StringN(1, 40, 128)).Draw(rt, "token")
		r := get("GET", "")
		r.RawQuery = "crc_token=" + escape(token)
		response, _ := verifiers[i].Handshake(t.Context(), r)
		if response == nil {
			return
		}
		var body struct {
			Token string `json:"response_token"`
		}
		require.NoError(t, json.Unmarshal(response.Body, &body))
		// The caller knows a signature of token, and cuts token into an event in every way that the templates allow.
		for cut := range len(token) + 1 {
			for _, parts := range [][2]string{{token[:cut], token[cut:]}, {token[cut:], token[:cut]}, {"", token}} {
				event := atURL(request(parts[1], "X-Signature", body.Token, "X-A", strings.Trim(parts[0], "-_")), "https://a",
					"/"+parts[0], "")
				if _, refusal := verifiers[i].Verify(t.Context(), event); refusal == nil {
					rt.Fatalf("%q was signed for a handshake and accepted as an event of %s", token, templates[i])
				}
				event.Body = []byte(strings.Trim(parts[1], "-_"))
				if _, refusal := verifiers[i].Verify(t.Context(), event); refusal == nil {
					rt.Fatalf("%q was signed for a handshake and accepted as an event of %s", token, templates[i])
				}
			}
		}
	})
}

func escape(s string) string {
	return strings.NewReplacer("%", "%25", "&", "%26", "+", "%2B", ";", "%3B").Replace(s)
}

// Without the rule of the handshake the same webhook would be accepted, so the rule refuses it.
func TestHandshakeOracleWouldExist(t *testing.T) {
	t.Parallel()
	d := crc("{body}")
	event := request("12345", "X-Signature", "sha256="+b64MAC(testKey, "12345"))
	requireRefused(t, verifier(t, d, testKey), event, verification.ReasonBodyMalformed)
	d.Handshake = nil
	requireVerified(t, verifier(t, d, testKey), event, "whs_0")
}

// A secret that a provider hands over is given to the caller with the response, and needs neither a stored
// secret nor a signature.
func TestHandshakeCapture(t *testing.T) {
	t.Parallel()
	asana := shaking(verification.Handshake{
		When:    []verification.Predicate{method("POST"), present("header:X-Hook-Secret")},
		Capture: &verification.Capture{From: "header:X-Hook-Secret"},
		Respond: verification.Respond{Status: 200, Headers: map[string]string{"x-hook-secret": "${header:X-Hook-Secret}"}},
	})
	v := verifier(t, asana)
	r := request("{}", "X-Hook-Secret", "made up there")
	require.Nil(t, v.Precheck(r.Header))
	require.NotNil(t, v.Precheck(http.Header{}), "a webhook still needs a signature")
	response := requireAnswer(t, v, r, 200, "", "")
	require.Equal(t, "made up there", response.Header.Get("X-Hook-Secret"))
	require.Equal(t, "made up there", response.Capture.Value.Reveal())
	require.False(t, response.Capture.Confirm)
	require.Equal(t, []string{"x-hook-secret", "x-signature"}, v.RedactHeaders(),
		"what is handed over is not to be stored elsewhere")
	require.Equal(t, []string{"x-signature"}, v.SignatureHeaders())
	requireHandshakeRefused(t, v, request("{}", "X-Hook-Secret", "a\nb"), verification.ReasonHandshakeMalformed)

	notion := shaking(verification.Handshake{
		When:    []verification.Predicate{method("POST"), present("json:/verification_token")},
		Capture: &verification.Capture{From: "json:/verification_token", Confirm: true},
		Respond: verification.Respond{Status: 204},
	})
	v = verifier(t, notion, testKey)
	require.Nil(t, v.Precheck(http.Header{}), "the headers do not tell")
	response = requireAnswer(t, v, request(`{"verification_token":"secret_1"}`), 204, "", "")
	require.True(t, response.Capture.Confirm)
	require.Equal(t, `{"verification_token":"[redacted]"}`,
		string(v.RedactBody(request(`{"verification_token":"secret_1"}`))))
	requireNoHandshake(t, v, request(`{"type":"x"}`))
}

// The service confirms the abuse protection of the CloudEvents webhook specification.
func TestHandshakeCloudEvents(t *testing.T) {
	t.Parallel()
	v := verifier(t, shaking(verification.Handshake{
		When: []verification.Predicate{method("OPTIONS"), present("header:WebHook-Request-Origin")},
		Respond: verification.Respond{Status: 200,
			Headers: map[string]string{"WebHook-Allowed-Origin": "${header:WebHook-Request-Origin}",
				"WebHook-Allowed-Rate": "*"}},
	}), testKey)
	response := requireAnswer(t, v, get("OPTIONS", "", "WebHook-Request-Origin", "eventemitter.example.com"), 200, "", "")
	require.Equal(t, []string{"eventemitter.example.com"}, response.Header["Webhook-Allowed-Origin"])
	require.Equal(t, "*", response.Header.Get("WebHook-Allowed-Rate"))
	requireNoHandshake(t, v, get("OPTIONS", ""))
}

// Values inside a JSON response are escaped.
func TestHandshakeEscapes(t *testing.T) {
	t.Parallel()
	v := verifier(t, shaking(verification.Handshake{
		When:    []verification.Predicate{method("GET")},
		Respond: verification.Respond{Status: 200, ContentType: "application/json", Body: `{"a":"${query:a}"}`},
	}), testKey)
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.StringN(1, 100, 200).Draw(rt, "value")
		response, refusal := v.Handshake(t.Context(), get("GET", "a="+escape(value)))
		require.Nil(t, refusal)
		var got map[string]string
		require.NoError(t, json.Unmarshal(response.Body, &got))
		require.Equal(t, map[string]string{"a": value}, got)
	})
}

// Handshakes that would response what they must not, or never, are refused when they are loaded.
func TestCompileRefusesHandshakes(t *testing.T) {
	t.Parallel()
	good := verification.Handshake{When: []verification.Predicate{method("GET")},
		Respond: verification.Respond{Status: 200}}
	tests := map[string]struct {
		change func(h *verification.Handshake, d *verification.Declaration)
		want   []string
	}{
		"no method": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.When = []verification.Predicate{present("query:a")}
		}, []string{"handshake[0].when required"}},
		"other method": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.When[0].Equals = []string{"PUT"}
		}, []string{"handshake[0].when enum"}},
		"any method": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.When[0] = present("method")
		}, []string{"handshake[0].when enum", "handshake[0].when required"}},
		"both predicates": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.When[0].Present = true
		}, []string{"handshake[0].when[0] coherent"}},
		"no status": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.Status = 0
		}, []string{"handshake[0].respond.status enum"}},
		"redirect": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.Status = 302
		}, []string{"handshake[0].respond.status enum"}},
		"html": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.ContentType = "text/html"
		}, []string{"handshake[0].respond.content_type enum"}},
		"cookie": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.Headers = map[string]string{"set-cookie": "a"}
		}, []string{"handshake[0].respond.headers format"}},
		"cors": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.Headers = map[string]string{"access-control-allow-origin": "*"}
		}, []string{"handshake[0].respond.headers format"}},
		"empty header": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.Headers = map[string]string{"x-a": ""}
		}, []string{"handshake[0].respond.headers required"}},
		"open token": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.Body = "${query:a"
		}, []string{"handshake[0].respond.body format"}},
		"unknown token": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.Body = "${secret}"
		}, []string{"handshake[0].respond.body format"}},
		"hmac of text": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.Body = "${hmac_hex(a)}"
		}, []string{"handshake[0].respond.body format"}},
		"endless": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.Body = strings.Repeat("a", 1025)
		}, []string{"handshake[0].respond.body format"}},
		"bare JSON": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.ContentType, h.Respond.Body = "application/json", `{"a":${query:a}}`
		}, []string{"handshake[0].respond.body format"}},
		"no JSON": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.ContentType, h.Respond.Body = "application/json", ""
		}, []string{"handshake[0].respond.body format"}},
		"escaped JSON": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Respond.ContentType, h.Respond.Body = "application/json", `{"a":"\${query:a}"}`
		}, []string{"handshake[0].respond.body format"}},
		"signed capture": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.VerifyFirst, h.Capture = true, &verification.Capture{From: "header:a"}
		}, []string{"handshake[0].capture coherent"}},
		"capture of nothing": {func(h *verification.Handshake, _ *verification.Declaration) {
			h.Capture = &verification.Capture{}
		}, []string{"handshake[0].capture.from format"}},
		"hmac of a plain hash": {func(h *verification.Handshake, d *verification.Declaration) {
			d.Proof, h.Respond.Body = keyedHash("{secret}{body}"), "${hmac_hex(query:a)}"
		}, []string{"handshake[0].respond.body coherent"}},
		"hmac with a token": {func(h *verification.Handshake, d *verification.Declaration) {
			d.Proof, h.Respond.Body = verification.Proof{AnyOf: []verification.Proof{d.Proof, token("header:a").Proof}},
				"${hmac_hex(query:a)}"
		}, []string{"handshake[0].respond.body coherent"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := good
			h.When = []verification.Predicate{method("GET")}
			d := bodyOnly()
			tt.change(&h, &d)
			d.Handshake = []verification.Handshake{h}
			_, err := verification.Compile(d)
			require.Equal(t, tt.want, violationsOf(t, err))
		})
	}
}

// Webhooks from outside the networks that the provider names are refused, handshakes too.
func TestSourceIPs(t *testing.T) {
	t.Parallel()
	d := crc("{body}")
	d.SourceIPs = []string{"192.0.2.0/24", "2001:db8::/32"}
	v := verifier(t, d, testKey)
	from := func(ip string) *verification.Request {
		r := request("{}", "X-Signature", "sha256="+b64MAC(testKey, "{}"))
		if ip != "" {
			r.RemoteIP = netip.MustParseAddr(ip)
		}
		return r
	}
	for _, ip := range []string{"192.0.2.7", "::ffff:192.0.2.7", "2001:db8::1"} {
		requireVerified(t, v, from(ip), "whs_0")
	}
	for _, ip := range []string{"192.0.3.7", "2001:db9::1", ""} {
		requireRefused(t, v, from(ip), verification.ReasonSourceRefused)
	}
	r := get("GET", "crc_token=a")
	requireHandshakeRefused(t, v, r, verification.ReasonSourceRefused)
	d.SourceIPs = []string{"192.0.2.1/24", "x"}
	_, err := verification.Compile(d)
	require.Equal(t, []string{"source_ips[0] format", "source_ips[1] format"}, violationsOf(t, err))
}

// The provider's own acknowledgement, status of refusals and size of bodies are those of the declaration.
func TestAnswers(t *testing.T) {
	t.Parallel()
	v := verifier(t, bodyOnly(), testKey)
	require.Nil(t, v.Ack())
	require.Equal(t, 401, v.RejectStatus())
	require.Zero(t, v.MaxBody())
	d := bodyOnly()
	d.Ack, d.RejectStatus, d.MaxBody = &verification.Ack{Status: "200", Body: "Hello API Event Received"}, 400, 1<<20
	v = verifier(t, d, testKey)
	require.Equal(t, "Hello API Event Received", string(v.Ack().Body))
	require.Equal(t, plain, v.Ack().Header.Get("Content-Type"))
	require.Equal(t, 400, v.RejectStatus())
	require.Equal(t, int64(1<<20), v.MaxBody())
	d.Ack = &verification.Ack{Status: "200", ContentType: "text/xml", Body: "<Response/>"}
	require.Equal(t, "text/xml", verifier(t, d, testKey).Ack().Header.Get("Content-Type"))
	d.Ack = &verification.Ack{Status: "202"}
	require.NotContains(t, verifier(t, d, testKey).Ack().Header, "Content-Type", "there is nothing to have a type")
	d.Ack = &verification.Ack{Status: "204", ContentType: "application/json"}
	require.Equal(t, "application/json", verifier(t, d, testKey).Ack().Header.Get("Content-Type"),
		"what is asked for is sent")
	d.Params = []verification.Param{{Name: "status", Description: "The status.", Enum: []string{"204", "202"},
		Default: "204"}}
	d.Ack = &verification.Ack{Status: "{param:status}"}
	engine, err := verification.Compile(d)
	require.NoError(t, err)
	for want, params := range map[int]map[string]string{204: nil, 202: {"status": "202"}} {
		v, err = engine.Prepare(params, nil)
		require.NoError(t, err)
		require.Equal(t, want, v.Ack().Status)
	}
	d.Params = nil
	d.Ack, d.RejectStatus, d.MaxBody = &verification.Ack{Status: "301", ContentType: "a", Body: "\x00"}, 500, 26<<20
	_, err = verification.Compile(d)
	require.Equal(t, []string{"ack.body format", "ack.content_type enum", "ack.status enum", "max_body limit",
		"reject_status limit"}, violationsOf(t, err))
}

// Keys of the platform alone are not enough: a declaration says by which required parameter a webhook is the
// connection's, a connection without it is refused, and webhooks of other accounts are.
func TestAccount(t *testing.T) {
	t.Parallel()
	open := certified("none")
	require.Equal(t, []string{"account required"}, violationsOfProof(t, open))
	require.Equal(t, []string{"account required"}, violationsOfProof(t, pubsub()))
	static := asymmetric("rsa_sha256", "base64")
	static.Keys = &verification.Keys{Static: []string{newSigner(t, "rsa_sha256").b64(t)}}
	require.Equal(t, []string{"account required"}, violationsOfProof(t, static))
	require.Equal(t, []string{"account required"},
		violationsOfProof(t, verification.Proof{AnyOf: []verification.Proof{static, bodyOnly().Proof}}))
	withToken := declared(verification.Proof{AllOf: []verification.Proof{static, token("header:a").Proof}})
	_, err := verification.Compile(withToken)
	require.NoError(t, err, "a token of the connection binds the webhook to it")

	d, account := accounted(static)
	engine, err := verification.Compile(d)
	require.NoError(t, err)
	_, err = engine.Prepare(nil, nil)
	require.Equal(t, []string{"params.account required"}, violationsOf(t, err))
	v, err := engine.Prepare(account, nil)
	require.NoError(t, err)
	send := func(arn string) *verification.Request {
		body := `{"TopicArn":"` + arn + `"}`
		return request(body, "X-T", stamp(0), "X-S", newB64(t, stamp(0)+body))
	}
	requireProved(t, v, send("arn:x"), "asymmetric", "static-0")
	requireRefused(t, v, send("arn:y"), verification.ReasonAccountMismatch)

	optional := d
	optional.Params = []verification.Param{{Name: "account", Description: "x", Pattern: ".+", Default: "e"}}
	_, err = verification.Compile(optional)
	require.Equal(t, []string{"account required"}, violationsOf(t, err), "a parameter that may be left out binds nothing")
}
