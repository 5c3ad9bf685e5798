package verification_test

import (
	"crypto/sha1" //nolint:gosec // A plain SHA-1 over secret and body is what one provider sends.
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A signature in fields divided by a separator is read from its place, and only between the required texts.
func TestVerifyPath(t *testing.T) {
	t.Parallel()
	p := sha256Proof("header:Event-Signature", "{body}")
	p.Signature[0].Parse.Path = &verification.PathParse{ListSep: ",", Sep: "/", Fields: []string{"*", "=SHA256",
		"signature"}}
	v := verifier(t, declared(p), testKey)
	good := hexMAC(testKey, "{}")
	for _, value := range []string{"1/SHA256/" + good, "k/SHA256/00, 2/SHA256/" + good, "a/b,/SHA256/" + good} {
		requireVerified(t, v, request("{}", "Event-Signature", value), "whs_0")
	}
	for _, value := range []string{good, "SHA256/" + good, "1/SHA1/" + good, "1/SHA256/" + good + "/x", "1/SHA256/", "1/" +
		good + "/SHA256"} {
		requireRefused(t, v, request("{}", "Event-Signature", value), verification.ReasonSignatureMalformed)
	}
	requireRefused(t, v, request("{}", "Event-Signature", strings.Repeat("a/b,", 33)),
		verification.ReasonSignatureMalformed)
}

// Numbered headers are read from the first on without a gap, each stands once, and any right one is enough.
func TestVerifySequence(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(sha256Proof("header_seq:X-Sig-{1..100}", "{body}")), testKey)
	good, bad := hexMAC(testKey, "{}"), hexMAC("other", "{}")
	requireVerified(t, v, request("{}", "X-Sig-1", good), "whs_0")
	requireVerified(t, v, request("{}", "X-Sig-1", bad, "X-Sig-2", bad, "X-Sig-3", good), "whs_0")
	requireRefused(t, v, request("{}", "X-Sig-1", bad, "X-Sig-3", good), verification.ReasonSignatureMismatch)
	requireRefused(t, v, request("{}", "X-Sig-2", good), verification.ReasonSignatureMissing)
	requireRefused(t, v, request("{}", "X-Sig-1", good, "X-Sig-2", good, "X-Sig-2", good),
		verification.ReasonSignatureMalformed)
	require.Contains(t, v.RedactHeaders(), "x-sig-100")
}

// A signature in the query stands there once, and a query too long to read is refused.
func TestVerifyQuerySignature(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(sha256Proof("query:sig", "{body}")), testKey)
	at := func(query string) *verification.Request { return atURL(request("{}"), "", "/hook", query) }
	good := hexMAC(testKey, "{}")
	requireVerified(t, v, at("a=b&s%69g="+good+"&c"), "whs_0")
	requireRefused(t, v, at("sig="), verification.ReasonSignatureMissing)
	requireRefused(t, v, at(""), verification.ReasonSignatureMissing)
	requireRefused(t, v, at("sig="+good+"&sig="+good), verification.ReasonSignatureMalformed)
	requireRefused(t, v, at("sig=%zz"), verification.ReasonSignatureMalformed)
	requireRefused(t, v, at("sig="+good+"&"+strings.Repeat("a", 8<<10)), verification.ReasonSignatureMalformed)
}

// Where a provider signs values of the body and not the body, those values are covered and nothing else is
// called signed.
func TestVerifyBodyUnsigned(t *testing.T) {
	t.Parallel()
	p := sha256Proof("json:/signature/signature", "{ts}{json:/signature/token}")
	p.BodyUnsigned = true
	p.Timestamp = &verification.TimestampRule{From: "json:/signature/timestamp", Format: "unix_s", MaxAgeS: "300",
		MaxSkewS: "300", Signed: true}
	d := declared(p)
	d.Event = verification.EventRules{Type: []string{"{json:/event}"}, ID: []string{"json:/signature/token"}}
	v := verifier(t, d, testKey)
	body := func(token, sig string) string {
		return `{"event":"delivered","signature":{"timestamp":"` + stamp(0) + `","token":"` + token + `","signature":"` +
			sig + `"}}`
	}
	good := request(body("tok", hexMAC(testKey, stamp(0)+"tok")))
	requireVerified(t, v, good, "whs_0")
	require.Equal(t, verification.Event{Type: "delivered", ID: "tok", IDSource: "json:/signature/token", IDSigned: true},
		describe(t, v, good))
	require.Equal(t, body("tok", "[redacted]"), string(v.RedactBody(good)),
		"who reads the event cannot send another with its signature")
	requireRefused(t, v, request(body("tox", hexMAC(testKey, stamp(0)+"tok"))), verification.ReasonSignatureMismatch)
	requireRefused(t, v, request(body("", hexMAC(testKey, stamp(0)))), verification.ReasonHeaderMissing)
	requireRefused(t, v, request("no JSON"), verification.ReasonSignatureMissing)

	p.BodyUnsigned = false
	require.Equal(t, []string{"signed required"}, violationsOfProof(t, p))
	p = sha256Proof("header:X-S", "{body}")
	p.BodyUnsigned = true
	require.Equal(t, []string{"body_unsigned coherent"}, violationsOfProof(t, p), "what is covered is not said to be open")
}

// keyedHash is a plain hash over secret and body.
func keyedHash(signed string) verification.Proof {
	p := sha256Proof("header:X-Signature", signed)
	p.Scheme = "keyed_hash"
	return p
}

// The examples that HubSpot documents under "Validate requests" (signature version v2) verify as plain hashes
// over secret, method, URI and body.
func TestKeyedHashVector(t *testing.T) {
	t.Parallel()
	const secret = "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy"
	v := verifier(t, declared(keyedHash("{secret}{method}{url}{body}")), "another secret", secret)
	get := atURL(request("", "X-Signature", "eee2dddcc73c94d699f5e395f4b9d454a069a6855fbfa152e91e88823087200e"),
		"https://www.example.com", "/webhook_uri", "")
	get.Method = "GET"
	requireProved(t, v, get, "keyed_hash", "whs_1")
	post := func(body string) *verification.Request {
		return atURL(request(body, "X-Signature", "9569219f8ba981ffa6f6f16aa0f48637d35d728c7e4d93d0d52efaa512af7900"),
			"https://www.example.com", "/webhook_uri", "")
	}
	requireProved(t, v, post(`{"example_field":"example_value"}`), "keyed_hash", "whs_1")
	requireRefused(t, v, post(`{"example_field":"example_valuE"}`), verification.ReasonSignatureMismatch)
	require.Empty(t, v.SignatureHeaders(), "a receiver may not notice that a plain hash was extended")
}

// A plain hash cannot be extended: a person with one webhook cannot append to its body, although SHA-1 would let them.
func TestKeyedHashExtension(t *testing.T) {
	t.Parallel()
	p := keyedHash("{secret}{body}")
	p.Algorithm = "sha1"
	v := verifier(t, declared(p), testKey)
	sign := func(body string) *verification.Request {
		sum := sha1.Sum([]byte(testKey + body)) //nolint:gosec // the provider's own scheme
		return request(body, "X-Signature", hex.EncodeToString(sum[:]))
	}
	requireProved(t, v, sign(`{"a":"é"}`), "keyed_hash", "whs_0")
	requireRefused(t, v, sign("{}\x80\x00\x00"), verification.ReasonBodyMalformed)
	require.Equal(t, []string{"signed required"}, violationsOfProof(t, keyedHash("{body}")))
	require.Equal(t, []string{"signed format"}, violationsOfProof(t, keyedHash("{secret}{body}{secret}")))
	require.Equal(t, []string{"signed coherent"}, violationsOfProof(t, sha256Proof("header:X-S", "{secret}{body}")))
}

// Nor can it be extended where a form is hashed, although the escapes of its fields are text regardless of
// their meaning.
func TestKeyedHashExtensionOfForm(t *testing.T) {
	t.Parallel()
	form := func(body, signature string) *verification.Request {
		r := request(body, "X-Signature", signature, "Content-Type", "application/x-www-form-urlencoded")
		return atURL(r, "https://gateway.example", "/hook", "")
	}
	for signed, content := range map[string]string{
		"{secret}{url}{form_sorted}": "https://gateway.example/hookamount1",
		"{secret}{form:amount}":      "1",
	} {
		p := keyedHash(signed)
		p.BodyUnsigned = !strings.Contains(signed, "form_sorted")
		v := verifier(t, declared(p), testKey)
		sum := sha256.Sum256([]byte(testKey + content))
		good := form("amount=1", hex.EncodeToString(sum[:]))
		requireProved(t, v, good, "keyed_hash", "whs_0")

		padding := sha256Padding(len(testKey) + len(content))
		forged := sha256.Sum256([]byte(testKey + content + padding + "000"))
		requireRefused(t, v, form("amount=1"+url.QueryEscape(padding)+"000", hex.EncodeToString(forged[:])),
			verification.ReasonBodyMalformed)
	}
}

// sha256Padding is the padding that SHA-256 puts behind a message of that many bytes (FIPS 180-4 section 5.1.1). An
// attacker who knows the hash of the message can go on hashing behind it.
func sha256Padding(length int) string {
	padding := append([]byte{0x80}, make([]byte, (119-length%64)%64)...)
	return string(binary.BigEndian.AppendUint64(padding, uint64(length)*8))
}

// A secret that the provider hashes first is hashed here.
func TestSecretSHA256(t *testing.T) {
	t.Parallel()
	p := sha256Proof("header:X-S", "{body}")
	p.Secret.Decode = "sha256"
	sum := sha256.Sum256([]byte(testKey))
	requireVerified(t, verifier(t, declared(p), testKey), request("{}", "X-S", hexMAC(string(sum[:]), "{}")), "whs_0")
}

func token(from ...string) verification.Declaration {
	p := verification.Proof{Scheme: "token"}
	for _, f := range from {
		p.Signature = append(p.Signature, verification.SignatureSource{From: f})
	}
	return declared(p)
}

// A token passes at each of its places when it is exactly one of the secrets.
func TestToken(t *testing.T) {
	t.Parallel()
	d := token("header:X-Token", "query:token", "json:/token")
	d.Signature[0].Parse.Prefix = "Bearer "
	v := verifier(t, d, "first secret", testKey)
	requireProved(t, v, request("{}", "X-Token", "Bearer "+testKey), "token", "whs_1")
	requireProved(t, v, request(`{"token":"first secret"}`), "token", "whs_0")
	requireProved(t, v, atURL(request("", "X-Token", "Bearer wrong"), "", "/", "token=first+secret"), "token", "whs_0")
	requireRefused(t, v, request("{}", "X-Token", testKey), verification.ReasonSignatureMalformed)
	requireRefused(t, v, request("{}", "X-Token", "Bearer "), verification.ReasonSignatureMalformed)
	requireRefused(t, v, request("{}", "X-Token", "Bearer "+testKey+" "), verification.ReasonSignatureMismatch)
	requireRefused(t, v, request("{}", "X-Token", "Bearer "+testKey[1:]), verification.ReasonSignatureMismatch)
	requireRefused(t, v, request("{}", "X-Token", "Bearer "+testKey, "X-Token", "x"),
		verification.ReasonSignatureMalformed)
	requireRefused(t, v, request(`{"token":true}`), verification.ReasonSignatureMismatch)
	requireRefused(t, v, request(`{"token":{}}`), verification.ReasonSignatureMissing)
	requireRefused(t, v, request(`{}`), verification.ReasonSignatureMissing)
	requireRefused(t, verifier(t, d), request("{}", "X-Token", "Bearer "), verification.ReasonSecretMissing)
	require.False(t, describe(t, v, request(`{"id":"x"}`, "webhook-id", "x")).IDSigned, "a token signs nothing")
	require.Equal(t, "x", describe(t, v, request("{}", "webhook-id", "x")).ID,
		"where nothing is signed the ids by convention count")
}

// Where each item of a body carries the token, one item without it refuses the whole body.
func TestTokenOfEveryItem(t *testing.T) {
	t.Parallel()
	v := verifier(t, token("json:/value/*/clientState"), testKey)
	item := `{"clientState":"` + testKey + `"}`
	requireProved(t, v, request(`{"value":[`+item+`]}`), "token", "whs_0")
	requireProved(t, v, request(`{"value":[`+item+`,`+item+`]}`), "token", "whs_0")
	for _, body := range []string{
		`{"value":[` + item + `,{}]}`, `{"value":[` + item + `,{"clientState":"another"}]}`,
		`{"value":[{"clientState":"x"},` + item + `]}`, `{"value":[` + item + `,null]}`, `{"value":[` +
			strings.Repeat(item+",", 1000) + item + `]}`, `{"value":[` + item + `,{"clientState":""}]}`,
	} {
		requireRefused(t, v, request(body), verification.ReasonSignatureMismatch)
	}
	requireProved(t, v, request(`{"value":[`+strings.Repeat(item+",", 999)+item+`]}`), "token", "whs_0")
	for _, body := range []string{`{"value":[]}`, `{"value":[{"clientState":""}]}`, `{"value":{"0":` + item + `}}`, `{}`,
		``, `[`, `{"value":[` + item} {
		requireRefused(t, v, request(body), verification.ReasonSignatureMissing)
	}
}

// Basic authentication takes exactly the stored user and password, and refuses every other header.
func TestBasic(t *testing.T) {
	t.Parallel()
	d := declared(verification.Proof{Scheme: "basic"})
	v := verifier(t, d, "user:pass:word")
	header := func(credentials string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))
	}
	requireProved(t, v, request("", "Authorization", header("user:pass:word")), "basic", "whs_0")
	requireProved(t, v, request("", "Authorization", "b"+header("user:pass:word")[1:]), "basic", "whs_0")
	requireRefused(t, v, request("", "Authorization", header("user:pass:worD")), verification.ReasonSignatureMismatch)
	requireRefused(t, v, request("", "Authorization", "Bearer x"), verification.ReasonSignatureMalformed)
	requireRefused(t, v, request("", "Authorization", "Basic !"), verification.ReasonSignatureMalformed)
	requireRefused(t, v, request("", "Authorization", header("user:pass:word"), "Authorization", "x"),
		verification.ReasonSignatureMalformed)
	requireRefused(t, v, request(""), verification.ReasonSignatureMissing)
	require.Equal(t, []string{"authorization"}, v.RedactHeaders())
}

// Webhooks that nothing proves are taken only by a connection that says so, and are never called verified.
func TestNone(t *testing.T) {
	t.Parallel()
	engine, err := verification.Compile(declared(verification.Proof{Scheme: "none"}))
	require.NoError(t, err)
	_, err = engine.Prepare(nil, nil)
	require.Equal(t, []string{"accept_unverified required"}, violationsOf(t, err))
	_, err = engine.Bind(verification.Settings{AcceptUnverified: true, Secrets: secrets(testKey)})
	require.Equal(t, []string{"secret coherent"}, violationsOf(t, err),
		"a secret that nobody checks would be accepted and ignored")
	v, err := engine.Bind(verification.Settings{AcceptUnverified: true})
	require.NoError(t, err)
	require.Nil(t, v.Precheck(nil))
	result, refusal := v.Verify(t.Context(), request("x"))
	require.Nil(t, refusal)
	require.Equal(t, verification.Result{Scheme: "none"}, result)
}

// A field that has no meaning with the scheme is refused, so that no one believes it works.
func TestCompileRefusesFieldsOfOtherSchemes(t *testing.T) {
	t.Parallel()
	full := sha256Proof("header:X-S", "{body}")
	full.Timestamp = &verification.TimestampRule{From: "header:x", Format: "unix_s", MaxAgeS: "1"}
	full.URLVariants, full.BodyUnsigned = []string{"port"}, true
	for scheme, want := range map[string][]string{
		"none": {"algorithm coherent", "body_unsigned coherent", "secret coherent", "signature coherent", "signed coherent",
			"timestamp coherent", "url_variants coherent"},
		"token": {"algorithm coherent", "body_unsigned coherent", "secret coherent", "signature[0].encoding coherent",
			"signed coherent", "timestamp coherent", "url_variants coherent"},
		"remote": {"scheme enum"},
	} {
		full.Scheme = scheme
		require.Equal(t, want, violationsOfProof(t, full))
	}
	require.Equal(t, []string{"signature required"}, violationsOfProof(t, verification.Proof{Scheme: "token"}))
}

// The ways to take signatures out of a value are checked like the rest.
func TestCompileRefusesPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path verification.PathParse
		want string
	}{
		{verification.PathParse{Sep: "/", Fields: []string{"signature"}}, "signature[0].parse.path.fields required"},
		{verification.PathParse{Sep: "/", Fields: []string{"*", "*"}}, "signature[0].parse.path.fields required"},
		{verification.PathParse{Sep: "/", Fields: []string{"signature", "signature"}},
			"signature[0].parse.path.fields required"},
		{verification.PathParse{Sep: "/", Fields: []string{"signature", "key"}}, "signature[0].parse.path.fields[1] format"},
		{verification.PathParse{Sep: "/", Fields: []string{"signature", "=a/b"}}, "signature[0].parse.path.fields[1] format"},
		{verification.PathParse{Fields: []string{"signature", "*"}}, "signature[0].parse.path.sep format"},
		{verification.PathParse{Sep: "/", ListSep: "//", Fields: []string{"signature", "*"}},
			"signature[0].parse.path coherent"},
	} {
		p := sha256Proof("header:X-S", "{body}")
		p.Signature[0].Parse.Path = &tt.path
		require.Equal(t, []string{tt.want}, violationsOfProof(t, p))
	}
}
