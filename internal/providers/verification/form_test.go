package verification_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/verification"
)

// formed describes forms, one field of which may hold JSON, as Slack sends them.
func formed() verification.Declaration {
	d := declared(sha256Proof("header:X-S", "{body}"))
	d.Body = &verification.BodyRule{FormField: "payload"}
	d.Event = verification.EventRules{
		Type:       []string{"{json:/type}", "command.{form:command name}"},
		ID:         []string{"json:/id", "form:id + form:n"},
		OccurredAt: &verification.OccurredAt{From: "form:at", Format: "unix_s"},
		Redact:     []string{"json:/token", "form:token"},
	}
	d.Control = []verification.Predicate{{From: "form:ssl_check", Equals: []string{"1"}}}
	return d
}

// Type, id, time and control mark come from fields of a form. A field that occurs twice gives none, and neither does a
// body that begins like JSON.
func TestDescribeFormFields(t *testing.T) {
	t.Parallel()
	v := verifier(t, formed(), testKey)
	for body, want := range map[string]verification.Event{
		"command+name=a%2Fb&id=1&n=2": {Type: "command.a/b", ID: "1 2",
			IDSource: "form:id+form:n", IDSigned: true},
		"command%20name=a&%69d=1&n=2": {Type: "command.a", ID: "1 2", IDSource: "form:id+form:n",
			IDSigned: true},
		"command+name=a&command+name=b&id=1&id=&n": {Type: "unknown"},
		"command+name=a&id=1&n=":                   {Type: "command.a"},
		"command+name=%zz":                         {Type: "unknown"},
		"ssl_check=1":                              {Type: "unknown", Control: true},
		"payload=%7B%22type%22%3A%22t%22%2C%22id%22%3A7%7D&id=1&n=2": {Type: "t", ID: "7", IDSource: "json:/id",
			IDSigned: true},
		`{"type":"t"}&command+name=a`: {Type: "unknown"},
		` {"type":"t","id":"x"}`:      {Type: "t", ID: "x", IDSource: "json:/id", IDSigned: true},
		"":                            {Type: "unknown"},
	} {
		want.TypeSigned = true
		got := describe(t, v, request(body))
		require.True(t, got.OccurredAt.IsZero())
		require.Equal(t, want, got, body)
	}
	require.Equal(t, now(), describe(t, v, request("at="+stamp(0))).OccurredAt)
}

// Credentials in a form are not stored, nor those in the JSON that one of its fields holds, and the rest stays
// as it was.
func TestRedactForm(t *testing.T) {
	t.Parallel()
	v := verifier(t, formed(), testKey)
	for body, want := range map[string]string{
		"a=%41&token=x%20y&b": "a=%41&token=%5Bredacted%5D&b",
		"%74oken=x&token=y":   "%74oken=%5Bredacted%5D&token=%5Bredacted%5D",
		"token=%zz":           "token=%5Bredacted%5D",
		"token=&token":        "token=&token",
		"payload=%7B%22token%22%3A%22x%22%7D&c=1":     "payload=%7B%22token%22%3A%22%5Bredacted%5D%22%7D&c=1",
		"payload=%7b%22a%22%3a1%7d":                   "payload=%7b%22a%22%3a1%7d",
		"payload=%7B%22token%22%3A%22x%22%7D%zz&to=1": "payload=%7B%22token%22%3A%22x%22%7D%zz&to=1",
		`{"token":"x","form":"token=y"}`:              `{"token":"[redacted]","form":"token=y"}`,
		"plain text":                                  "plain text",
	} {
		r := request(body)
		require.Equal(t, want, string(v.RedactBody(r)))
		require.Equal(t, body, string(r.Body), "the request is not changed")
	}
}

// Of a form with more fields than any provider sends nothing is read; what must not be stored is taken out
// nonetheless.
func TestFormOfManyFields(t *testing.T) {
	t.Parallel()
	v := verifier(t, formed(), testKey)
	separators := strings.Repeat("&", 1<<20)
	r := request(separators + "token=x&ssl_check=1&command+name=a&payload=%7B%22type%22%3A%22t%22%2C%22token%22%3A%22y%22%7D")
	require.Equal(t, verification.Event{Type: "unknown", TypeSigned: true}, describe(t, v, r))
	redacted := separators + "token=%5Bredacted%5D&ssl_check=1&command+name=a&payload=%7B%22type%22%3A%22t%22%2C%22token%22%3A%22%5Bredacted%5D%22%7D"
	require.Equal(t, redacted, string(v.RedactBody(r)))
}

// A redacted form is the form that it was but for the values that were taken out.
func TestRedactFormKeepsFields(t *testing.T) {
	t.Parallel()
	v := verifier(t, formed(), testKey)
	rapid.Check(t, func(rt *rapid.T) {
		fields := url.Values(rapid.MapOf(rapid.SampledFrom([]string{"token", "a", "b c", "tok&n", "payload"}),
			rapid.SliceOfN(rapid.String(), 1, 3)).Draw(rt, "fields"))
		got, err := url.ParseQuery(string(v.RedactBody(request("x&" + fields.Encode()))))
		require.NoError(t, err)
		for i, value := range fields["token"] {
			if value != "" {
				fields["token"][i] = "[redacted]"
			}
		}
		fields.Add("x", "")
		require.Equal(t, fields, got)
	})
}

// Signature, timestamp and signed value may be fields of a form, as in Mailgun's, and other fields are known
// not to be signed.
func TestSignedFields(t *testing.T) {
	t.Parallel()
	p := sha256Proof("form:signature", "{ts}{form:token}")
	p.BodyUnsigned = true
	p.Timestamp = &verification.TimestampRule{From: "form:timestamp", Format: "unix_s", MaxAgeS: "300", MaxSkewS: "300",
		Signed: true}
	d := declared(p)
	d.Event.ID = []string{"form:token", "form:id"}
	v := verifier(t, d, testKey)
	good := "timestamp=" + stamp(0) + "&token=abc&signature=" + hexMAC(testKey, stamp(0)+"abc")
	requireVerified(t, v, request(good), "whs_0")
	requireVerified(t, v, request(good+"&id=1"), "whs_0")
	require.Equal(t, verification.Event{Type: "unknown", TypeSigned: true, ID: "abc", IDSource: "form:token",
		IDSigned: true}, describe(t, v, request(good)))
	for body, reason := range map[string]verification.Reason{
		strings.Replace(good, "abc", "abd", 1):            verification.ReasonSignatureMismatch,
		strings.Replace(good, "token=abc", "token=", 1):   verification.ReasonHeaderMissing,
		good + "&token=abc":                               verification.ReasonHeaderMalformed,
		good + "&signature=00":                            verification.ReasonSignatureMalformed,
		good + "&timestamp=1":                             verification.ReasonTimestampMalformed,
		strings.Replace(good, "timestamp=", "time=", 1):   verification.ReasonTimestampMissing,
		strings.Replace(good, "signature=", "signed=", 1): verification.ReasonSignatureMissing,
		"{" + good: verification.ReasonSignatureMissing,
		strings.Replace(good, stamp(0), "soon", 1): verification.ReasonTimestampMalformed,
	} {
		requireRefused(t, v, request(body), reason)
	}
	require.Equal(t, []string{"signature[0].from coherent"}, violationsOfProof(t, sha256Proof("form:signature", "{body}")))
}

// The type can be the name of a member that the body or an item has, of the names that the definition lists.
func TestDescribeMember(t *testing.T) {
	t.Parallel()
	d := batched("/entry/*", "{json:/object}.{item_member:message,postback}", "{member:object}")
	d.Event.Type = []string{"{member:b,a/b,c}", "{json:/type}"}
	v := verifier(t, d, testKey)
	for body, want := range map[string]string{
		`{"x":1,"c":{"b":1}}`: "c", `{"c":1,"b":null}`: "b", ` {"\u0061/b":[]} `: "a/b", `{"type":"t"}`: "t",
		`["b"]`: "unknown", `{}`: "unknown", `{"b":1,}`: "unknown", `{"b":1`: "unknown", `{"b":1}x`: "unknown",
		`{"b"}`: "unknown", `{"b":1 "c":2}`: "unknown", ``: "unknown", `{"b":[}`: "unknown", `{b:1}`: "unknown",
	} {
		require.Equal(t, want, describe(t, v, request(body)).Type, body)
	}
	require.Equal(t, []string{"page.postback", "object", "page.message"},
		describe(t, v, request(`{"object":"page","entry":[{"postback":{}},{"x":1},{"x":1,"postback":{},"message":{}}]}`)).Types)
}
