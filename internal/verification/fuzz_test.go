package verification_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sallyport/internal/verification"
)

// checkEvent fails when an event breaks what Event promises.
func checkEvent(t *testing.T, e verification.Event) {
	t.Helper()
	if e.Type == "" || len(e.Type) > 256 || strings.ContainsFunc(e.Type, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Fatalf("type %q", e.Type)
	}
	if len(e.ID) > 512 || !utf8.ValidString(e.ID) || strings.Contains(e.ID, "\x00") || (e.ID == "") != (e.IDSource == "") || e.ID == "" && e.IDSigned {
		t.Fatalf("id %+v", e)
	}
}

// Promise: no request whatever makes the engine panic, and none is accepted but those that an independent computation of
// the signature accepts.
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
	v, err := engine.Prepare(nil, secrets("other", testKey))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, ts, signature string, body []byte, offset int64) {
		h := http.Header{}
		h.Set("webhook-id", id)
		h.Set("webhook-timestamp", ts)
		h.Set("webhook-signature", signature)
		r := &verification.Request{Method: http.MethodPost, Header: h, Body: body, Now: now().Add(time.Duration(offset))}
		checkEvent(t, v.Describe(r))
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
			if element == "v1,"+b64MAC(testKey, id+"."+ts+"."+string(body)) || element == "v1,"+b64MAC("other", id+"."+ts+"."+string(body)) {
				return
			}
		}
		t.Fatal("accepted without a right signature")
	})
}

// Promise: no declaration whatever makes Compile or Prepare panic, and one that compiles accepts nothing that was not signed
// with the connection's secret.
func FuzzCompile(f *testing.F) {
	all := bodyOnly()
	all.Body = &verification.BodyRule{FormField: "payload"}
	all.Event.Map = map[string]string{"a": "b"}
	all.Control = []verification.Predicate{{From: "json:/a", Equals: []string{"b"}}}
	all.RedactHeaders = []string{"x-a"}
	for _, d := range []verification.Declaration{bodyOnly(), listed(), paired(), parametrised(), all} {
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
		unsigned := request(string(body), header, value, "X-Signature", value, "webhook-id", "i", "webhook-timestamp", stamp(0))
		unsigned.Header.Set("webhook-signature", value)
		for _, given := range []map[string]string{nil, params} {
			for _, keys := range [][]verification.Secret{nil, secrets("c2VjcmV0IG9mIHRoaXMgdGVzdA=="), secrets("0f1e2d3c4b5a69788796a5b4c3d2e1f0")} {
				v, err := engine.Prepare(given, keys)
				if err != nil {
					continue
				}
				checkEvent(t, v.Describe(unsigned))
				if result, refusal := v.Verify(t.Context(), unsigned); refusal == nil || result.Verified {
					t.Fatalf("accepted an unsigned request: %s", declaration)
				}
				if len(keys) == 0 && v.Precheck(unsigned.Header) == nil {
					t.Fatal("passed without a secret")
				}
			}
		}
	})
}

// Promise: as FuzzCompile, over the texts of a declaration rather than its structure.
func FuzzCompileTexts(f *testing.F) {
	f.Add("header:X-Signature", "sha256=", "hex", "{body}", "", "", "{header:X-Event}.{json:/action}", "header:X-Id", "sha256=00")
	f.Add("header:X-Signature", "", "base64", "{id}.{ts}.{body}", "header:X-Ts", "unix_s", "{json:/a~1b}", "header:X-Id", "AAAA")
	f.Add("header:X-Signature", "v1", "base64url", "v0:{ts}:{body}", "sig:t", "rfc3339", "x", "json:/id", "t=1,v1=AA")
	f.Add("header:X-Signature", "v1", "hex", "{header:a}-{body}-{header:b}", "json:/t", "unix_ms", "{header:b}", "json:/id", "v1=00")
	f.Fuzz(func(t *testing.T, from, prefix, encoding, signed, tsFrom, tsFormat, eventType, id, value string) {
		parses := []verification.SignatureParse{
			{Prefix: prefix},
			{List: &verification.ListParse{Sep: " ", Prefix: prefix}},
			{KV: &verification.KVParse{PairSep: ",", KVSep: "=", Keys: []string{prefix}}},
		}
		r := request(`{"id":"1","t":"`+stamp(0)+`000","a/b":"x"}`, "X-Signature", value, "X-Ts", stamp(0), "X-Id", "1", "A", "a", "B", "b")
		for _, parse := range parses {
			d := verification.Declaration{Proof: verification.Proof{
				Scheme: "hmac", Algorithm: "sha1", Secret: verification.SecretFormat{Decode: "utf8"},
				Signature: []verification.SignatureSource{{From: from, Parse: parse, Encoding: encoding}},
				Signed:    signed,
			}, Event: verification.EventRules{Type: []string{eventType}, ID: []string{id}}}
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
			checkEvent(t, v.Describe(r))
			if _, refusal := v.Verify(t.Context(), r); refusal == nil {
				t.Fatal("accepted an unsigned request")
			}
		}
	})
}
