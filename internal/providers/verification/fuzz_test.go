package verification_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sallyport/internal/providers/verification"
)

// checkEvent fails when an event breaks what Event promises.
func checkEvent(t *testing.T, e verification.Event) {
	t.Helper()
	if e.Type == "" || len(e.Type) > 256 || strings.ContainsFunc(e.Type, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		t.Fatalf("type %q", e.Type)
	}
	for _, kind := range e.Types {
		if kind == "" || len(kind) > 256 || strings.ContainsFunc(kind, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("types %q", e.Types)
		}
	}
	if len(e.Types) > 64 || len(e.Types) > 0 && e.Types[0] != e.Type {
		t.Fatalf("types %q of %q", e.Types, e.Type)
	}
	if len(e.ID) > 512 || !utf8.ValidString(e.ID) || strings.Contains(e.ID, "\x00") ||
		(e.ID == "") != (e.IDSource == "") || e.ID == "" && e.IDSigned {
		t.Fatalf("id %+v", e)
	}
}

// checkAnswer fails when the response to a request is more than a handshake may have.
func checkAnswer(t *testing.T, v *verification.Verifier, r *verification.Request) {
	t.Helper()
	response, refusal := v.Handshake(t.Context(), r)
	if response != nil && (refusal != nil || len(response.Body) > 1024 || response.Status < 200 || response.Status > 204 ||
		response.Header.Get("X-Content-Type-Options") != "nosniff") {
		t.Fatalf("responded %+v with %v", response, refusal)
	}
}

// No request makes the engine panic, and none is accepted except those that an independent computation of the signature
// accepts.
func FuzzVerify(f *testing.F) {
	good := signedList("msg_1", stamp(0), `{"type":"a.b"}`)
	f.Add("msg_1", stamp(0), good.Header.Get("webhook-signature"), good.Body, int64(0))
	f.Add("msg_1", stamp(0), "v1a,x v1,y "+good.Header.Get("webhook-signature"), good.Body, int64(0))
	f.Add("", "NaN", "v1,", []byte("{"), int64(1<<62))
	f.Add("a.b", "9999999999", strings.Repeat("v1, ", 40), []byte(nil), int64(-1<<62))
	engine, err := verification.Compile(listed())
	if err != nil {
		f.Fatal(err)
	}
	v, err := engine.Prepare(nil, secrets("other secret", testKey))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, ts, signature string, body []byte, offset int64) {
		h := http.Header{}
		h.Set("webhook-id", id)
		h.Set("webhook-timestamp", ts)
		h.Set("webhook-signature", signature)
		r := &verification.Request{Method: http.MethodPost, Header: h, Body: body, Now: now().Add(time.Duration(offset))}
		checkEvent(t, describe(t, v, r))
		result, refusal := v.Verify(t.Context(), r)
		if (refusal == nil) != result.Verified {
			t.Fatalf("%+v with %v", result, refusal)
		}
		if refusal != nil {
			return
		}
		if v.Precheck(h) != nil {
			t.Fatal("verified, but refused by Precheck")
		}
		for _, element := range strings.Fields(signature) {
			if element == "v1,"+b64MAC(testKey, id+"."+ts+"."+string(body)) ||
				element == "v1,"+b64MAC("other secret", id+"."+ts+"."+string(body)) {
				return
			}
		}
		t.Fatal("accepted without a right signature")
	})
}

// No declaration makes Compile or Prepare panic, and one that compiles accepts nothing that was not signed with the
// connection's secret.
func FuzzCompile(f *testing.F) {
	all := bodyOnly()
	all.Body = &verification.BodyRule{FormField: "payload"}
	all.Event.Map = map[string]string{"a": "b"}
	all.Event.TypeSeparators = "/"
	all.Event.Type = append(all.Event.Type, "{form:a}", "{member:a,b}")
	all.Event.Redact = []string{"json:/a", "form:b"}
	all.Event.ID = []string{"json:/a + json:/b"}
	all.Event.Batch = &verification.Batch{Items: []string{"/a/*", "/b/*"}, Type: []string{"{item:/a}", "{item_member:a}"},
		ID: []string{"item:/a + item:"}}
	all.Control = []verification.Predicate{{From: "json:/a", Equals: []string{"b"}}}
	all.RedactHeaders = []string{"x-a"}
	lines, _ := accounted(certified("none"))
	push, _ := accounted(pubsub())
	kid, _ := accounted(byKid())
	kid.Keys.ByKid.Expired = "/key/expired_at"
	folder, _ := accounted(certified("none"))
	folder.Keys.CertURL.PathPrefix, folder.Keys.CertURL.PathSuffix = "/certs/", ""
	odd := batched("/*", "{item:/type}")
	odd.Event.ID, odd.Event.Batch.ID = []string{"json:/source + json:/id"}, []string{"item:/source + item:/id"}
	odd.Event.Batch.When = []verification.Predicate{{From: "header:content-type", Present: true}}
	odd.Control = []verification.Predicate{{From: "json:/events", Empty: true}}
	seeds := []verification.Declaration{
		twoNames(), odd,
		bodyOnly(), listed(), paired(), parametrised(), all, declared(twilio()), declared(adyen()), declared(jwtHS()),
		declared(keyedHash("{secret}{method}{url}{body}")), declared(asymmetric("ed25519", "hex")), lines, push, kid, folder,
		signedOrToken(), token("json:/value/*/clientState", "query:t"), zoom(), crc("{body}"), batched("/entry/*/changes/*",
			"{json:/object}.{item:/field}"), declared(verification.Proof{Scheme: "basic"}),
		declared(verification.Proof{Scheme: "none"}),
	}
	for _, d := range seeds {
		text, err := json.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "X-Signature", "sha256=00,t=1,v1=00", []byte(`{"action":"x"}`))
	}
	f.Fuzz(func(t *testing.T, declaration []byte, header, value string, body []byte) {
		var d verification.Declaration
		if json.Unmarshal(declaration, &d) != nil {
			return
		}
		engine, err := verification.Compile(d)
		if err != nil {
			return
		}
		params := map[string]string{}
		for _, p := range engine.Params() {
			if p.Example != "" {
				params[p.Name] = p.Example
			}
		}
		unsigned := request(string(body), header, value, "X-Signature", value, "webhook-id", "i", "webhook-timestamp",
			stamp(0))
		unsigned.Header.Set("webhook-signature", value)
		unsigned.PublicURL, unsigned.Path, unsigned.RawQuery = "https://a", "/h", value
		ring := verification.NewKeyring(&provider{response: down})
		for _, given := range []map[string]string{nil, params} {
			for _, keys := range [][]verification.Secret{nil, secrets("c2VjcmV0IG9mIHRoaXMgdGVzdA=="),
				secrets("0f1e2d3c4b5a69788796a5b4c3d2e1f0")} {
				v, err := engine.Bind(verification.Settings{Params: given, Secrets: keys, Keyring: ring})
				if err != nil {
					continue
				}
				checkEvent(t, describe(t, v, unsigned))
				result, refusal := v.Verify(t.Context(), unsigned)
				if refusal == nil || result.Verified {
					t.Fatalf("accepted an unsigned request: %s", declaration)
				}
				if d := v.Diagnose(t.Context(), unsigned, refusal); strings.Contains(d.Message, "c2VjcmV0") ||
					strings.Contains(d.Message, "0f1e2d3c") {
					t.Fatalf("repeats the secret: %s", d.Message)
				}
				checkAnswer(t, v, unsigned)
				v.RedactBody(unsigned)
				if refusal := v.Precheck(unsigned.Header); len(keys) == 0 && len(d.Handshake) == 0 && d.Scheme == "hmac" &&
					refusal == nil {
					t.Fatal("passed without a secret")
				}
			}
		}
	})
}

// As FuzzCompile, over the texts of a declaration rather than its structure.
func FuzzCompileTexts(f *testing.F) {
	f.Add("header:X-Signature", "sha256=", "hex", "{body}", "", "", "{header:X-Event}.{json:/action}", "header:X-Id",
		"sha256=00")
	f.Add("header:X-Signature", "", "base64", "{id}.{ts}.{body}", "header:X-Ts", "unix_s", "{json:/a~1b}", "header:X-Id",
		"AAAA")
	f.Add("header:X-Signature", "v1", "base64url", "v0:{ts}:{body}", "sig:t", "rfc3339", "x", "json:/id", "t=1,v1=AA")
	f.Add("header:X-Signature", "", "hex", "{ts}.{body}", "sig:first", "unix_s", "{json:/type}", "json:/id",
		stamp(0)+",00")
	f.Add("header:X-Signature", "v1", "hex", "{header:a}-{body}-{header:b}", "json:/t", "unix_ms", "{header:b}",
		"json:/id", "v1=00")
	f.Add("query:sig", "v1", "hex", "{method}{url_decoded}{body}{ts}", "header:X-Ts", "unix_ms", "{header:b}", "json:/id",
		"v1=00")
	f.Add("header_seq:X-{1..9}", "", "hex", "{url}{form_sorted}", "", "", "{json:/type}", "json:/id", "00")
	f.Add("json:/sig", "", "hex", "{kv_lines:a,b}", "", "", "{json:/type}", "json:/id", "00")
	f.Add("json:/sig", "", "hex", "{each:/items}{json?:/a}:{json:/b}", "", "", "{json:/type}", "json:/id", "00")
	f.Add("header:X-Signature", "", "hex", "{path}|{query}|{body_sha256_hex}|{body_crc32}|{header?:x}", "", "", "x",
		"json:/id", "00")
	f.Fuzz(func(t *testing.T, from, prefix, encoding, signed, tsFrom, tsFormat, eventType, id, value string) {
		parses := []verification.SignatureParse{
			{Prefix: prefix},
			{List: &verification.ListParse{Sep: " ", Prefix: prefix}},
			{List: &verification.ListParse{Sep: ",", Prefix: prefix}},
			{KV: &verification.KVParse{PairSep: ",", KVSep: "=", Keys: []string{prefix}}},
		}
		r := request(`{"id":"1","t":"`+stamp(0)+`000","a/b":"x","a":"1","sig":"00","items":[{"b":1,"sig":"00"}]}`,
			"X-Signature", value, "X-Ts", stamp(0), "X-Id", "1", "A", "a", "B", "b", "X-1", value)
		r.PublicURL, r.Path, r.RawQuery = "https://a", "/h", "sig="+value
		for _, parse := range parses {
			d := verification.Declaration{Proof: verification.Proof{
				Scheme: "hmac", Algorithm: "sha1", Secret: verification.SecretFormat{Decode: "utf8"},
				Signature: []verification.SignatureSource{{From: from, Parse: parse, Encoding: encoding}},
				Signed:    signed,
			}, Event: verification.EventRules{Type: []string{eventType}, ID: []string{id}}}
			d.BodyUnsigned = !strings.Contains(signed, "{body") && !strings.Contains(signed, "{form")
			if tsFrom != "" {
				d.Timestamp = &verification.TimestampRule{From: tsFrom, Format: tsFormat, Signed: true}
			}
			engine, err := verification.Compile(d)
			if err != nil {
				continue
			}
			v, err := engine.Prepare(nil, secrets(testKey))
			if err != nil {
				t.Fatalf("compiles, but cannot be prepared: %v", err)
			}
			checkEvent(t, describe(t, v, r))
			if _, refusal := v.Verify(t.Context(), r); refusal == nil {
				t.Fatal("accepted an unsigned request")
			}
		}
	})
}
