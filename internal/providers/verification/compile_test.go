package verification_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// violationsOf returns the problems of a refused configuration as "field rule", sorted.
func violationsOf(tb testing.TB, err error) []string {
	tb.Helper()
	var config *verification.ConfigError
	require.ErrorAs(tb, err, &config)
	var out []string
	for _, f := range config.Problems {
		require.NotEmpty(tb, f.Message)
		out = append(out, f.Field+" "+f.Rule)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// An error in a declaration is found when it is loaded, and the problem names the place.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	type change func(*verification.Declaration)
	tests := map[string]struct {
		change   change
		problems []string
	}{
		"no scheme":        {func(d *verification.Declaration) { d.Scheme = "" }, []string{"scheme enum"}},
		"scheme not built": {func(d *verification.Declaration) { d.Scheme = "remote" }, []string{"scheme enum"}},
		"no algorithm":     {func(d *verification.Declaration) { d.Algorithm = "" }, []string{"algorithm enum"}},
		"md5":              {func(d *verification.Declaration) { d.Algorithm = "md5" }, []string{"algorithm enum"}},
		"no secret form":   {func(d *verification.Declaration) { d.Secret.Decode = "" }, []string{"secret.decode enum"}},
		"no signature":     {func(d *verification.Declaration) { d.Signature = nil }, []string{"signature required"}},
		"signed signature": {func(d *verification.Declaration) {
			d.Signature[0].From = "json:/sig"
		}, []string{"signature[0].from coherent"}},
		"no query name": {func(d *verification.Declaration) {
			d.Signature[0].From = "query:"
		}, []string{"signature[0].from format"}},
		"every item": {func(d *verification.Declaration) {
			d.Signature[0].From = "json:/a/*/b"
		}, []string{"signature[0].from coherent"}},
		"endless sequence": {func(d *verification.Declaration) {
			d.Signature[0].From = "header_seq:a-{1..101}"
		}, []string{"signature[0].from format"}},
		"open sequence": {func(d *verification.Declaration) {
			d.Signature[0].From = "header_seq:a-{1..9"
		}, []string{"signature[0].from format"}},
		"host header": {func(d *verification.Declaration) {
			d.Signature[0].From = "header:Host"
		}, []string{"signature[0].from format"}},
		"no header name": {func(d *verification.Declaration) {
			d.Signature[0].From = "header:"
		}, []string{"signature[0].from format"}},
		"header with space": {func(d *verification.Declaration) {
			d.Signature[0].From = "header:a b"
		}, []string{"signature[0].from format"}},
		"no encoding": {func(d *verification.Declaration) {
			d.Signature[0].Encoding = ""
		}, []string{"signature[0].encoding enum"}},
		"two parses": {func(d *verification.Declaration) {
			d.Signature[0].Parse.Prefix = "v1="
		}, []string{"signature[0].parse coherent"}},
		"no list separator": {func(d *verification.Declaration) {
			d.Signature[0].Parse.List.Sep = ""
		}, []string{"signature[0].parse.list.sep format"}},
		"separator in list prefix": {func(d *verification.Declaration) { d.Signature[0].Parse.List.Sep = "," },
			[]string{"signature[0].parse.list.prefix coherent"}},
		"no signed": {func(d *verification.Declaration) {
			d.Signed = ""
		}, []string{"signed required", "timestamp.signed coherent"}},
		"body unsigned": {func(d *verification.Declaration) { d.Signed = "{id}.{ts}" }, []string{"signed required"}},
		"body twice": {func(d *verification.Declaration) {
			d.Signed = "{id}.{ts}.{body}{body}"
		}, []string{"signed format"}},
		"unknown token": {func(d *verification.Declaration) { d.Signed = "{ts}.{body}{uri}" }, []string{"signed format"}},
		"open brace":    {func(d *verification.Declaration) { d.Signed = "{ts}.{body}{" }, []string{"signed format"}},
		"closing brace": {func(d *verification.Declaration) { d.Signed = "{ts}.{body}}" }, []string{"signed format"}},
		"query in signed": {func(d *verification.Declaration) {
			d.Signed = "{ts}.{body}.{query:a}"
		}, []string{"signed format"}},
		"no border": {func(d *verification.Declaration) { d.Signed = "{ts}.{id}{body}" }, []string{"signed coherent"}},
		"no border behind": {func(d *verification.Declaration) {
			d.Signed = "{ts}.{body}{header:a}"
		}, []string{"signed coherent"}},
		"two headers": {func(d *verification.Declaration) {
			d.Signed = "{id}{header:a}.{ts}.{body}"
		}, []string{"signed coherent"}},
		"border without limits": {func(d *verification.Declaration) {
			d.Signed, d.Timestamp.MaxSkewS = "{id}{ts}{body}", ""
		}, []string{"signed coherent"}},
		"id without source": {func(d *verification.Declaration) { d.Event.ID = nil }, []string{"signed coherent"}},
		"id with two sources": {func(d *verification.Declaration) {
			d.Event.ID = append(d.Event.ID, "json:/id")
		}, []string{"signed coherent"}},
		"id in the body": {func(d *verification.Declaration) {
			d.Event.ID = []string{"json:/id"}
		}, []string{"signed coherent"}},
		"timestamp said unsigned": {func(d *verification.Declaration) { d.Timestamp.Signed = false },
			[]string{"timestamp.signed coherent"}},
		"timestamp said signed": {func(d *verification.Declaration) {
			d.Signed = "{id}.{body}"
		}, []string{"timestamp.signed coherent"}},
		"ts without timestamp": {func(d *verification.Declaration) { d.Timestamp = nil }, []string{"signed coherent"}},
		"timestamp without effect": {func(d *verification.Declaration) {
			d.Signed, d.Timestamp.Signed, d.Timestamp.MaxAgeS, d.Timestamp.MaxSkewS = "{id}.{body}", false, "", ""
		}, []string{"timestamp coherent"}},
		"ts of the body": {func(d *verification.Declaration) {
			d.Timestamp.From = "json:/ts"
		}, []string{"signed coherent"}},
		"ts of no pair": {func(d *verification.Declaration) {
			d.Timestamp.From = "sig:t"
		}, []string{"timestamp.from coherent"}},
		"ts of a key in a list": {func(d *verification.Declaration) {
			d.Timestamp.From, d.Signature[0].From = "sig:second", "header:X-Signature"
		}, []string{"timestamp.from coherent"}},
		"ts of two lists": {func(d *verification.Declaration) {
			second := d.Signature[0]
			second.From = "header:X-Signature-2"
			d.Timestamp.From, d.Signature = "sig:first", append(d.Signature, second)
		}, []string{"timestamp.from coherent"}},
		"ts of a whole value": {func(d *verification.Declaration) {
			d.Timestamp.From, d.Signature[0].Parse = "sig:first", verification.SignatureParse{}
		}, []string{"timestamp.from coherent"}},
		"timestamp format": {func(d *verification.Declaration) {
			d.Timestamp.Format = "unix"
		}, []string{"timestamp.format enum"}},
		"zero age": {func(d *verification.Declaration) {
			d.Timestamp.MaxAgeS = "0"
		}, []string{"timestamp.max_age_s format"}},
		"negative skew": {func(d *verification.Declaration) {
			d.Timestamp.MaxSkewS = "-1"
		}, []string{"timestamp.max_skew_s format"}},
		"age of a year": {func(d *verification.Declaration) {
			d.Timestamp.MaxAgeS = "31536000"
		}, []string{"timestamp.max_age_s format"}},
		"known type without a segment": {func(d *verification.Declaration) {
			d.Event.Known = []string{"a.b", "a..b", "", "a b"}
		}, []string{"event.known[1] format", "event.known[2] format", "event.known[3] format"}},
		"known wildcard in the middle": {func(d *verification.Declaration) {
			d.Event.Known = []string{"a.*", "a.*.b", "*", "a*"}
		}, []string{"event.known[1] format", "event.known[2] format", "event.known[3] format"}},
		"known type twice": {func(d *verification.Declaration) {
			d.Event.TypeSeparators, d.Event.Known = "/", []string{"a/b", "a.b"}
		}, []string{"event.known[1] unique"}},
		"known type of a parameter": {func(d *verification.Declaration) {
			d.Event.Known = []string{"a.{param:x}"}
		}, []string{"event.known[0] format"}},
		"separators of a parameter": {func(d *verification.Declaration) {
			d.Event.TypeSeparators = "{param:x}"
		}, []string{"event.type_separators format", "event.type_separators unknown"}},
		"star as a separator": {func(d *verification.Declaration) {
			d.Event.TypeSeparators = "/*"
		}, []string{"event.type_separators format"}},
		"single use under a signed body": {func(d *verification.Declaration) {
			d.SingleUse = "json:/token"
		}, []string{"single_use coherent"}},
		"single use of a header": {func(d *verification.Declaration) {
			d.SingleUse = "header:x-token"
		}, []string{"single_use format"}},
		"single use without limits": {func(d *verification.Declaration) {
			d.Signed, d.BodyUnsigned, d.SingleUse, d.Timestamp.MaxAgeS = "{id}.{ts}.{json:/token}", true, "json:/token", ""
		}, []string{"single_use coherent"}},
		"single use outside the signature": {func(d *verification.Declaration) {
			d.Signed, d.BodyUnsigned, d.SingleUse = "{id}.{ts}", true, "json:/token"
		}, []string{"single_use coherent"}},
		"no form field": {func(d *verification.Declaration) {
			d.Body = &verification.BodyRule{}
		}, []string{"body.form_field format"}},
		"empty type": {func(d *verification.Declaration) {
			d.Event.Type = []string{""}
		}, []string{"event.type[0] required"}},
		"body in type": {func(d *verification.Declaration) {
			d.Event.Type = []string{"x", "{body}"}
		}, []string{"event.type[1] format"}},
		"signature in type": {func(d *verification.Declaration) {
			d.Event.Type = []string{"{sig:t}"}
		}, []string{"event.type[0] format"}},
		"bad pointer": {func(d *verification.Declaration) {
			d.Event.Type = []string{"{json:type}"}
		}, []string{"event.type[0] format"}},
		"bad escape": {func(d *verification.Declaration) {
			d.Event.Type = []string{"{json:/a~2}"}
		}, []string{"event.type[0] format"}},
		"signature header id": {func(d *verification.Declaration) {
			d.Signed, d.Event.ID = "{ts}.{body}", []string{"sig:t"}
		}, []string{"event.id[0] format"}},
		"credential as id": {func(d *verification.Declaration) {
			d.Signed, d.Event.ID = "{ts}.{body}", []string{"header:X-API-Key"}
		}, []string{"event.id[0] format"}},
		"credential as type": {func(d *verification.Declaration) {
			d.Event.Type = []string{"x.{header:cookie}"}
		}, []string{"event.type[0] format"}},
		"signature as id": {func(d *verification.Declaration) {
			d.Signed, d.Event.ID = "{ts}.{body}", []string{"header:Webhook-Signature"}
		}, []string{"event.id[0] format"}},
		"same id twice": {func(d *verification.Declaration) {
			d.Signed, d.Event.ID = "{ts}.{body}", []string{"header:x-id", "header:X-ID"}
		}, []string{"event.id[1] unique"}},
		"map to spaces": {func(d *verification.Declaration) {
			d.Event.Map = map[string]string{"a": "b c"}
		}, []string{"event.map format"}},
		"empty predicate": {func(d *verification.Declaration) {
			d.Control = []verification.Predicate{{From: "json:/a"}}
		}, []string{"control[0].equals required"}},
		"redacting nothing": {func(d *verification.Declaration) {
			d.RedactHeaders = []string{""}
		}, []string{"redact_headers[0] format"}},
		"unknown parameter": {func(d *verification.Declaration) {
			d.Algorithm = "{param:x}"
		}, []string{"algorithm enum", "algorithm unknown"}},
		"parameter in map": {func(d *verification.Declaration) { d.Event.Map = map[string]string{"a": "{param:x}"} },
			[]string{"event.map format"}},
		"too many entries": {func(d *verification.Declaration) {
			d.Event.Type = slices.Repeat([]string{"x"}, 65)
		}, []string{"event.type limit"}},
		"endless signed": {func(d *verification.Declaration) {
			d.Signed = strings.Repeat("x", 2000) + "{ts}{body}"
		}, []string{"signed limit"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := listed()
			tt.change(&d)
			engine, err := verification.Compile(d)
			require.Nil(t, engine)
			require.Equal(t, tt.problems, violationsOf(t, err))
		})
	}
}

// All problems are reported together.
func TestCompileReportsAllViolations(t *testing.T) {
	t.Parallel()
	_, err := verification.Compile(verification.Declaration{Proof: verification.Proof{
		Scheme: "hmac",
		Signature: []verification.SignatureSource{
			{From: "a", Parse: verification.SignatureParse{KV: &verification.KVParse{PairSep: "=", KVSep: "="}}},
		},
		Timestamp: &verification.TimestampRule{},
	}})
	require.Equal(t, []string{
		"algorithm enum", "secret.decode enum", "signature[0].encoding enum", "signature[0].from format",
		"signature[0].parse.kv coherent", "signature[0].parse.kv.keys required", "signed required",
		"timestamp coherent", "timestamp.format enum", "timestamp.from format",
	}, violationsOf(t, err))
}

// The key that holds the timestamp is not taken for a signature.
func TestCompileRefusesTimestampAmongSignatures(t *testing.T) {
	t.Parallel()
	d := paired()
	d.Signature[0].Parse.KV.Keys = []string{"v1", "t"}
	_, err := verification.Compile(d)
	require.Equal(t, []string{"timestamp.from coherent"}, violationsOf(t, err))
}

// parametrised is bodyOnly with parameters.
func parametrised() verification.Declaration {
	d := bodyOnly()
	d.Params = []verification.Param{
		{Name: "header", Description: "Where the signature is.", Pattern: "[A-Za-z-]{1,20}", Required: true,
			Example: "X-Sig"},
		{Name: "algorithm", Description: "The hash.", Enum: []string{"sha1", "sha256"}, Default: "sha256"},
		{Name: "prefix", Description: "Before the signature.", Pattern: "[a-z0-9=]+", Example: "v1="},
		{Name: "content", Description: "What is signed.", Enum: []string{"{body}", "{ts}.{body}"}, Default: "{body}"},
		{Name: "ts_header", Description: "Where the timestamp is.", Pattern: "[A-Za-z-]+", Example: "X-Ts"},
		{Name: "max_age", Description: "How old.", Pattern: "[0-9]+", Default: "300"},
		{Name: "type_header", Description: "Where the type is.", Pattern: "[A-Za-z-]+", Example: "X-Type"},
	}
	d.Algorithm = "{param:algorithm}"
	d.Signature[0].From, d.Signature[0].Parse.Prefix = "header:{param:header}", "{param:prefix}"
	d.Signed = "{param:content}"
	d.Timestamp = &verification.TimestampRule{From: "header:{param:ts_header}", Format: "unix_s",
		MaxAgeS: "{param:max_age}", Signed: true}
	d.Event = verification.EventRules{Type: []string{"{header:{param:type_header}}", "{json:/type}"}}
	return d
}

// A parameter has one declared set of values, a default or the duty to be given, and a use.
func TestCompileRefusesParameters(t *testing.T) {
	t.Parallel()
	type change func(*verification.Param)
	tests := map[string]struct {
		change  change
		problem string
	}{
		"bad name":         {func(p *verification.Param) { p.Name = "Header" }, "params[0].name format"},
		"taken name":       {func(p *verification.Param) { p.Name = "algorithm" }, "params[1].name unique"},
		"no description":   {func(p *verification.Param) { p.Description = " " }, "params[0].description required"},
		"anything goes":    {func(p *verification.Param) { p.Pattern = "" }, "params[0] coherent"},
		"enum and pattern": {func(p *verification.Param) { p.Enum = []string{"a"} }, "params[0] coherent"},
		"bad pattern":      {func(p *verification.Param) { p.Pattern = "(" }, "params[0].pattern format"},
		"bad example":      {func(p *verification.Param) { p.Example = "a b" }, "params[0].example pattern"},
		"no example":       {func(p *verification.Param) { p.Example = "" }, "params[0].example required"},
		"default too":      {func(p *verification.Param) { p.Default = "X-A" }, "params[0] coherent"},
		"bad default": {func(p *verification.Param) {
			p.Required, p.Default = false, "X A"
		}, "params[0].default pattern"},
		"not anchored": {func(p *verification.Param) { p.Pattern, p.Example = "a|b", "ax" }, "params[0].example pattern"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := parametrised()
			tt.change(&d.Params[0])
			_, err := verification.Compile(d)
			require.Contains(t, violationsOf(t, err), tt.problem)
		})
	}
	d := parametrised()
	d.Signature[0].Parse.Prefix = ""
	_, err := verification.Compile(d)
	require.Equal(t, []string{"params[2] unknown"}, violationsOf(t, err),
		"a parameter without use would be accepted and ignored")

	d = parametrised()
	d.Params[1].Enum = append(d.Params[1].Enum, "md5")
	_, err = verification.Compile(d)
	require.Equal(t, []string{"algorithm enum"}, violationsOf(t, err), "every value that a parameter offers has to work")
}

// A connection's settings are checked like the declaration itself, and problems name the parameter.
func TestPrepareChecksParameters(t *testing.T) {
	t.Parallel()
	engine, err := verification.Compile(parametrised())
	require.NoError(t, err)
	require.Len(t, engine.Params(), 7)
	tests := map[string]struct {
		params   map[string]string
		problems []string
	}{
		"required":           {nil, []string{"params.header required"}},
		"required but empty": {map[string]string{"header": ""}, []string{"params.header required"}},
		"several": {map[string]string{"header": "a b", "algorithm": "md5", "nonsense": "1", "max_age": ""},
			[]string{"params.algorithm enum", "params.header pattern", "params.max_age required", "params.nonsense unknown"}},
		"not printable":      {map[string]string{"header": "a\n"}, []string{"params.header format"}},
		"parameter in value": {map[string]string{"header": "{param:prefix}"}, []string{"params.header format"}},
		"refused by engine":  {map[string]string{"header": "Host"}, []string{"params.header format"}},
		"ts without header": {map[string]string{"header": "A", "content": "{ts}.{body}"},
			[]string{"params.content coherent"}},
		"header without ts": {map[string]string{"header": "A", "ts_header": "T"}, []string{"params.ts_header coherent"}},
		"limit without ts":  {map[string]string{"header": "A", "max_age": "60"}, []string{"params.max_age coherent"}},
		"limit out of bounds": {map[string]string{"header": "A", "ts_header": "T", "content": "{ts}.{body}", "max_age": "0"},
			[]string{"params.max_age format"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := engine.Prepare(tt.params, secrets(testKey))
			require.Nil(t, v)
			require.Equal(t, tt.problems, violationsOf(t, err))
		})
	}
}

// Parameters change what is verified, and entries that hang on an empty one are left out.
func TestPrepareSubstitutes(t *testing.T) {
	t.Parallel()
	engine, err := verification.Compile(parametrised())
	require.NoError(t, err)

	plain, err := engine.Prepare(map[string]string{"header": "X-A", "algorithm": "sha256"}, secrets(testKey))
	require.NoError(t, err)
	r := request(`{"type":"t"}`, "X-A", hexMAC(testKey, `{"type":"t"}`), "X-Kind", "k")
	requireVerified(t, plain, r, "whs_0")
	require.Equal(t, "t", describe(t, plain, r).Type)
	require.Equal(t, []string{"x-a"}, plain.RedactHeaders())

	full, err := engine.Prepare(map[string]string{
		"header": "X-A", "prefix": "v1=", "content": "{ts}.{body}", "ts_header": "X-T", "max_age": "60",
		"type_header": "X-Kind",
	}, secrets(testKey))
	require.NoError(t, err)
	requireRefused(t, full, r, verification.ReasonSignatureMalformed)
	r = request("{}", "X-A", "v1="+hexMAC(testKey, stamp(0)+".{}"), "X-T", stamp(0), "X-Kind", "k")
	requireVerified(t, full, r, "whs_0")
	require.Equal(t, "k", describe(t, full, r).Type)
}

// A secret that cannot be a key is refused when it is stored, without being quoted.
func TestPrepareChecksSecrets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ decode, secret string }{
		{"utf8", ""}, {"utf8", strings.Repeat("leak", 2000)}, {"hex", "leak"}, {"hex", "abc"}, {"base64", "leak!"},
		{"base64", "bGVhaw==\n"}, {"whsec", "whsec_leak!"}, {"whsec", "WHSEC_bGVhaw=="}, {"base64", "leak===="},
	} {
		d := bodyOnly()
		d.Secret.Decode = tt.decode
		engine, err := verification.Compile(d)
		require.NoError(t, err)
		v, err := engine.Prepare(nil, secrets(tt.secret))
		require.Nil(t, v)
		require.Equal(t, []string{"secret format"}, violationsOf(t, err), "%s %q", tt.decode, tt.secret)
		require.NotContains(t, err.Error(), "leak")
	}
	for _, tt := range []struct{ decode, secret string }{
		{"utf8", "1234567"}, {"hex", "00010203040506"}, {"base64", "AAECAwQFBg=="}, {"whsec", "whsec_"},
		{"whsec", "whsec_AAECAwQFBg=="}, {"sha256", "1234567"},
	} {
		d := bodyOnly()
		d.Secret.Decode = tt.decode
		engine, err := verification.Compile(d)
		require.NoError(t, err)
		_, err = engine.Prepare(nil, secrets(tt.secret))
		require.Equal(t, []string{"secret limit"}, violationsOf(t, err), "%s %q: a short secret can be guessed", tt.decode,
			tt.secret)
	}
	engine, err := verification.Compile(bodyOnly())
	require.NoError(t, err)
	_, err = engine.Prepare(nil, secrets(slices.Repeat([]string{"a long secret"}, 17)...))
	require.Equal(t, []string{"secret limit"}, violationsOf(t, err))
}
