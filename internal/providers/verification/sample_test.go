package verification_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/providers/verification"
)

// sampleSchemes are declarations of every way to sign with a secret, by what is special about them.
func sampleSchemes() map[string]verification.Declaration {
	typed := func(p verification.Proof) verification.Declaration {
		d := declared(p)
		d.Event = verification.EventRules{Type: []string{"{json:/type}"}, ID: []string{"json:/id"}}
		return d
	}
	keyed := sha256Proof("header:x-sig", "{secret}:{body}")
	keyed.Scheme = "keyed_hash"
	sequence := sha256Proof("header_seq:x-sig-{1..3}", "{body}")
	path := sha256Proof("header:x-sig", "{body}")
	path.Signature[0].Parse.Path = &verification.PathParse{Sep: "/", Fields: []string{"*", "=SHA256", "signature"}}
	query := sha256Proof("query:sig", "{body}")
	each := sha256Proof("json:/sig", "{each:/items}{json?:/a}:{json:/b}")
	each.BodyUnsigned = true
	lines := sha256Proof("json:/sig", "{kv_lines:a,b}")
	lines.BodyUnsigned = true
	url := sha256Proof("header:x-sig", "{method}{url}{body}")
	hashed := sha256Proof("header:x-sig", "{header:x-digest}")
	hashed.BodyHash = &verification.BodyHash{From: "header:x-digest", Alg: "sha512", Encoding: "base64url", Prefix: "d="}
	jwt := verification.Proof{Scheme: "jwt", Secret: verification.SecretFormat{Decode: "utf8"},
		JWT: &verification.JWTRule{From: "header:authorization", Prefix: "Bearer ", Algs: []string{"HS512"},
			Iss: []string{"them"}, Aud: []string{"us"}, MaxAgeS: "60",
			Claims: []verification.Predicate{{From: "jwt:kind", Equals: []string{"hook"}}}},
		BodyHash: &verification.BodyHash{From: "jwt:sum", Alg: "sha256", Encoding: "hex"}}
	items := verification.Proof{Scheme: "token", Signature: []verification.SignatureSource{{From: "json:/value/*/state"}}}
	token := verification.Proof{Scheme: "token", Signature: []verification.SignatureSource{{From: "query:token"}}}
	form := sha256Proof("header:x-sig", "{url}{form_sorted}")
	formed := declared(form)
	formed.Event = verification.EventRules{Type: []string{"{form:type}"}, ID: []string{"form:id"}}
	account := typed(sha256Proof("header:x-sig", "{body}"))
	account.Account = []verification.Predicate{{From: "json:/account/id", Equals: []string{"acme"}},
		{From: "header:x-region", Present: true}}
	return map[string]verification.Declaration{
		"prefix": bodyOnly(), "list": listed(), "pairs": paired(), "keyed hash": typed(keyed), "sequence": typed(sequence),
		"path": typed(path), "query": typed(query), "each": typed(each), "lines": typed(lines), "url": typed(url),
		"body hash": typed(hashed), "jwt": typed(jwt), "token of items": typed(items), "token of the query": typed(token),
		"form": formed, "account": account,
		"basic": typed(verification.Proof{Scheme: "basic"}),
		"all":   typed(verification.Proof{AllOf: []verification.Proof{sha256Proof("header:x-sig", "{body}"), items}}),
		"any": typed(verification.Proof{AnyOf: []verification.Proof{
			{Scheme: "asymmetric", Algorithm: "ed25519", Signature: []verification.SignatureSource{{From: "header:x-key",
				Encoding: "hex"}}, Signed: "{body}"},
			sha256Proof("header:x-sig", "{body}")}}),
	}
}

func sampleOrder(eventType string) verification.SampleOrder {
	return verification.SampleOrder{Type: eventType, ID: "sample_0a1b2c", PublicURL: "https://hooks.example.com",
		Path: "/webhook/whk_1", Now: now()}
}

// Everything that a declaration asks to be signed with a secret can be signed, and is verified by the same declaration.
// The body's own members stay, and the result has the type and the id of the sample.
func TestSample(t *testing.T) {
	t.Parallel()
	for name, d := range sampleSchemes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := verifier(t, d, "user:an older password", "user:"+testKey)
			for _, data := range []string{"", `{"id":"real","kept":"yes","items":[{"b":"1"},{"b":"2","a":"3"}]}`} {
				order := sampleOrder("invoice.paid")
				if data != "" {
					order.Data = []byte(data)
				}
				s, err := v.Sample(t.Context(), order)
				require.NoError(t, err)
				r := &verification.Request{Method: "POST", PublicURL: order.PublicURL, Path: order.Path, RawQuery: s.RawQuery,
					Header: s.Header, Body: s.Body, Now: now()}
				requireNewest(t, v, r)
				event := describe(t, v, r)
				require.Equal(t, s.Event, event)
				require.Equal(t, "invoice.paid", event.Type)
				require.Equal(t, order.ID, event.ID, "the id of a real event must not come back")
				require.Equal(t, order.ID, r.Header.Get(verification.SampleHeader))
				require.True(t, verification.IsSample(s.Body), string(s.Body))
				if data != "" {
					require.Contains(t, string(s.Body), "kept")
				}
			}
		})
	}
}

// requireNewest requires that the secret that the connection got last has signed the webhook.
func requireNewest(t *testing.T, v *verification.Verifier, r *verification.Request) {
	t.Helper()
	require.Nil(t, v.Precheck(r.Header))
	result, refusal := v.Verify(t.Context(), r)
	require.Nil(t, refusal)
	require.True(t, result.Verified)
	require.Equal(t, "whs_1", result.KeyID)
}

// A sample cannot be made without the key, for a type that no rule derives, of a handshake, or from other data than an
// object or array; the reason says which.
func TestSampleErrors(t *testing.T) {
	t.Parallel()
	fail := func(v *verification.Verifier, order verification.SampleOrder, want error) {
		t.Helper()
		_, err := v.Sample(t.Context(), order)
		require.ErrorIs(t, err, want)
	}
	fail(verifier(t, bodyOnly()), sampleOrder("a"), verification.ErrSampleSecret)
	fail(verifier(t, declared(verification.Proof{Scheme: "asymmetric", Algorithm: "ed25519", Signed: "{body}",
		Signature: []verification.SignatureSource{{From: "header:x-key", Encoding: "hex"}}})), sampleOrder("a"),
		verification.ErrSampleKeys)
	fail(verifier(t, declared(sha256Proof("header:x-sig", "{body}")), testKey), sampleOrder("a"),
		verification.ErrSampleType)
	fail(verifier(t, bodyOnly(), testKey), sampleOrder("two words"), verification.ErrSampleType)
	order := sampleOrder("a")
	order.Data = []byte(`"text"`)
	fail(verifier(t, bodyOnly(), testKey), order, verification.ErrSampleData)
	order.Data = []byte(`{`)
	fail(verifier(t, bodyOnly(), testKey), order, verification.ErrSampleData)

	d := paired()
	d.Handshake = []verification.Handshake{{When: []verification.Predicate{{From: "method", Equals: []string{"POST"}},
		{From: "json:/type", Equals: []string{"ping"}}}, Respond: verification.Respond{Status: 200}}}
	fail(verifier(t, d, testKey), sampleOrder("ping"), verification.ErrSampleType)
}

// A declared body is the sample of its type, with the rest of the definition applied to it.
func TestSampleDeclared(t *testing.T) {
	t.Parallel()
	d := paired()
	d.Samples = []verification.SampleBody{{Type: "a.b", Body: `{"id":"evt","amount":12345678901234567890}`}}
	s, err := verifier(t, d, testKey).Sample(t.Context(), sampleOrder("a.b"))
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"sample_0a1b2c","amount":12345678901234567890,"type":"a.b","sallyport_sample":"sample_0a1b2c"}`,
		string(s.Body))
	require.False(t, s.Minimal)
	require.Contains(t, string(s.Body), "12345678901234567890", "numbers keep their text")

	d.Samples = append(d.Samples, verification.SampleBody{Type: "*", Headers: map[string]string{"X-Shop": "one", "X-Kind": "?"}},
		verification.SampleBody{Type: "a.*", Body: `{"of":"family"}`, Headers: map[string]string{"X-Kind": "A"}})
	for eventType, want := range map[string]struct {
		kind, of string
		minimal  bool
	}{"a.b": {"A", "", false}, "a.c": {"A", "family", false}, "a": {"A", "family", false}, "b": {"?", "", true}} {
		s, err := verifier(t, d, testKey).Sample(t.Context(), sampleOrder(eventType))
		require.NoError(t, err)
		var body map[string]any
		require.NoError(t, json.Unmarshal(s.Body, &body))
		require.Equal(t, "one", s.Header.Get("X-Shop"))
		require.Equal(t, want.kind, s.Header.Get("X-Kind"), eventType)
		of, _ := body["of"].(string)
		require.Equal(t, want.of, of, eventType)
		require.Equal(t, want.minimal, s.Minimal, eventType)
	}

	for field, sample := range map[string]verification.SampleBody{
		"samples[0].headers":     {Type: "a", Headers: map[string]string{"two words": "a"}},
		"samples[0].headers.X-A": {Type: "a", Headers: map[string]string{"X-A": "a\nb"}},
		"samples[0].type":        {Type: "a b", Body: "{}"},
		"samples[0].body":        {Type: "a", Body: "{"},

		"samples[0].in_form_field": {Type: "a", Body: "{}", InFormField: true}, // nothing names the field
	} {
		d.Samples = []verification.SampleBody{sample}
		_, err := verification.Compile(d)
		require.ErrorContains(t, err, field)
	}
	d.Samples = []verification.SampleBody{{Type: "a", Body: " "}, {Type: "a", Body: strings.Repeat("a", 20<<10)}}
	_, err = verification.Compile(d)
	for _, field := range []string{"samples[0].body", "samples[1].type", "samples[1].body"} {
		require.ErrorContains(t, err, field)
	}
}

// The sample of a type whose JSON the provider sends in a field of a form is such a form. Apart from the mark, which is
// a field of its own, it has what was declared or ordered, the type and nothing else.
func TestSampleInForm(t *testing.T) {
	t.Parallel()
	d := declared(sha256Proof("header:x-sig", "{body}"))
	d.Body = &verification.BodyRule{FormField: "payload"}
	d.Event = verification.EventRules{Type: []string{"{json:/event/type}", "{json:/type}"}, ID: []string{"json:/event_id"},
		OccurredAt: &verification.OccurredAt{From: "json:/event_time", Format: "unix_s"}}
	d.Samples = []verification.SampleBody{{Type: "click", Body: `{"type":"click","actions":["a&b"]}`, InFormField: true}}
	for data, want := range map[string]string{
		"":                    `{"type":"click","actions":["a&b"]}`,
		`{"actions":[]}`:      `{"type":"click","actions":[]}`,
		`{"event_id":"mine"}`: `{"type":"click","event_id":"sample_0a1b2c"}`,
	} {
		order := sampleOrder("click")
		if data != "" {
			order.Data = []byte(data)
		}
		s, err := verifier(t, d, testKey).Sample(t.Context(), order)
		require.NoError(t, err)
		require.Equal(t, "application/x-www-form-urlencoded", s.Header.Get("Content-Type"))
		fields, err := url.ParseQuery(string(s.Body))
		require.NoError(t, err)
		require.JSONEq(t, want, fields.Get("payload"))
		require.Equal(t, url.Values{"payload": fields["payload"], "sallyport_sample": {"sample_0a1b2c"}}, fields)
		require.True(t, verification.IsSample(s.Body))
	}
	s, err := verifier(t, d, testKey).Sample(t.Context(), sampleOrder("other"))
	require.NoError(t, err)
	require.Equal(t, "application/json", s.Header.Get("Content-Type"))
}

// A sample is made by the first template that can have the type, in a spelling that the provider is known to use. A dot
// between two sources is no sign that a template is meant; a word is.
func TestSampleTemplates(t *testing.T) {
	t.Parallel()
	d := declared(sha256Proof("header:x-sig", "{body}"))
	d.Event = verification.EventRules{Type: []string{"{header:x-topic}", "{header:x-thing}.{header:x-action}",
		"command.{header:x-command}"}, TypeSeparators: "/"}
	v := verifier(t, d, testKey)
	for eventType, want := range map[string][2]string{
		"orders.create":  {"X-Topic", "orders/create"},
		"customer.moved": {"X-Topic", "customer.moved"},
		"command.go":     {"X-Command", "go"},
	} {
		order := sampleOrder(eventType)
		order.Known = []eventtypes.Known{{Written: "customer.moved", Type: "customer.moved"}}
		s, err := v.Sample(t.Context(), order)
		require.NoError(t, err)
		require.Equal(t, want[1], s.Header.Get(want[0]), eventType)
		require.Empty(t, s.Header.Get("X-Thing"), "headers of another generation of webhooks")
	}
}

// The mark of a sample is found where samples have it, and nowhere else in a body.
func TestIsSample(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"sallyport_sample":"smp_1"}`: true, ` [1,{"a":1,"sallyport_sample":null}]`: true, "a=1&sallyport_sample=x": true,
		`{"title":"about sallyport_sample"}`: false, `{"a":{"sallyport_sample":"x"}}`: false, `["sallyport_sample"]`: false,
		"text=sallyport_sample": false, "": false, `{"sallyport_sample"`: false,
	} {
		require.Equal(t, want, verification.IsSample([]byte(body)), body)
	}
}

// No data and no type make the engine panic, and a sample that is made is one that the declaration accepts.
func FuzzSample(f *testing.F) {
	f.Add("invoice.paid", []byte(`{"id":"a","items":[{"b":1}]}`))
	f.Add("a.b", []byte(`[{"value":[]},1]`))
	f.Add("x", []byte(`{"value":{"0":[null]},"items":[1],"type":{}}`))
	f.Add("..", []byte(``))
	schemes := sampleSchemes()
	f.Fuzz(func(t *testing.T, eventType string, data []byte) {
		for _, d := range schemes {
			v := verifier(t, d, "user:"+testKey)
			order := sampleOrder(eventType)
			if len(data) > 0 {
				order.Data = json.RawMessage(data)
			}
			s, err := v.Sample(t.Context(), order)
			if err != nil {
				if !errors.Is(err, verification.ErrSampleType) && !errors.Is(err, verification.ErrSampleData) {
					t.Fatal(err)
				}
				continue
			}
			r := &verification.Request{Method: "POST", PublicURL: order.PublicURL, Path: order.Path, RawQuery: s.RawQuery,
				Header: s.Header, Body: s.Body, Now: now()}
			if _, refusal := v.Verify(t.Context(), r); refusal != nil {
				t.Fatal(refusal.Message)
			}
			if got := describe(t, v, r).Type; got != eventType {
				t.Fatalf("type %q of %q", got, eventType)
			}
		}
	})
}
