package verification_test

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // HMAC-SHA1 is what Twilio and Trello sign with.
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash/crc32"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/verification"
)

// twilio signs the URL with the sorted fields of the form, as twilio-go's request validator checks it.
func twilio() verification.Proof {
	return verification.Proof{
		Scheme: "hmac", Algorithm: "sha1", Secret: verification.SecretFormat{Decode: "utf8"},
		Signature: []verification.SignatureSource{{From: "header:X-Twilio-Signature", Encoding: "base64"}},
		Signed:    "{url}{form_sorted}", URLVariants: []string{"port"},
	}
}

func sha1B64(key, content string) string {
	h := hmac.New(sha1.New, []byte(key))
	h.Write([]byte(content))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// The fields of a form are signed sorted and joined, with the URL as the provider calls it, with and without a
// port.
func TestSignedForm(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(twilio()), testKey)
	const form = "To=%2B18005551212&CallSid=CA1234567890ABCDE&From=%2B14158675309&Caller=%2B14158675309&Digits=1234&Digits=1234"
	const fields = "CallSidCA1234567890ABCDECaller+14158675309Digits1234From+14158675309To+18005551212"
	send := func(signedURL, public, query, body string) *verification.Request {
		return atURL(request(body, "X-Twilio-Signature", sha1B64(testKey, signedURL+fields), "Content-Type",
			"application/x-www-form-urlencoded"), public, "/hook", query)
	}
	for signedURL, public := range map[string]string{
		"https://gw.example/hook?foo=1&bar=2":      "https://gw.example",
		"https://gw.example:443/hook?foo=1&bar=2":  "https://gw.example",
		"https://gw.example:8443/hook?foo=1&bar=2": "https://gw.example:8443",
		"http://gw.example:80/hook?foo=1&bar=2":    "http://gw.example",
		"https://gw.example/x/hook?foo=1&bar=2":    "https://gw.example:8443/x",
		"https://[::1]/hook?foo=1&bar=2":           "https://[::1]:8443",
	} {
		requireVerified(t, v, send(signedURL, public, "foo=1&bar=2", form), "whs_0")
	}
	const signedURL = "https://gw.example/hook"
	requireVerified(t, v, send(signedURL, "https://gw.example", "", form+"&"), "whs_0")
	requireRefused(t, v, send(signedURL, "https://other.example", "", form), verification.ReasonSignatureMismatch)
	requireRefused(t, v, send(signedURL, "https://gw.example", "foo=1", form), verification.ReasonSignatureMismatch)
	requireRefused(t, v, send(signedURL, "https://gw.example", "", form+"&A=b"), verification.ReasonSignatureMismatch)
	requireRefused(t, v, send(signedURL, "https://gw.example", "", form+"&%zz"), verification.ReasonBodyMalformed)
	requireRefused(t, v, send(signedURL, "https://gw.example", "", strings.Repeat("a&", 1001)),
		verification.ReasonBodyMalformed)
	requireRefused(t, v, send(signedURL, "", "", form), verification.ReasonURLUnknown)
	for _, empty := range []string{"", "&", "=", "=&="} {
		bare := atURL(request(empty, "X-Twilio-Signature", sha1B64(testKey, signedURL), "Content-Type",
			"application/x-www-form-urlencoded"), "https://gw.example", "/hook", "")
		requireRefused(t, v, bare, verification.ReasonBodyMalformed)
	}
	requireRefused(t, v, send(signedURL, "https://gw.example", strings.Repeat("a", 9<<10), form),
		verification.ReasonURLMalformed)
	json := send(signedURL, "https://gw.example", "", form)
	json.Header.Set("Content-Type", "application/json")
	requireRefused(t, v, json, verification.ReasonBodyMalformed)
}

// A connection behind another URL says so once, and only that URL counts then.
func TestURLBase(t *testing.T) {
	t.Parallel()
	engine, err := verification.Compile(declared(sha256Proof("header:X-S", "{url}{body}")))
	require.NoError(t, err)
	v, err := engine.Bind(verification.Settings{Secrets: secrets(testKey), URLBase: "https://hooks.example/in"})
	require.NoError(t, err)
	send := func(signedURL string) *verification.Request {
		return atURL(request("{}", "X-S", hexMAC(testKey, signedURL+"{}")), "https://gw.example", "/hook", "a=1")
	}
	requireVerified(t, v, send("https://hooks.example/in/hook?a=1"), "whs_0")
	requireRefused(t, v, send("https://gw.example/hook?a=1"), verification.ReasonSignatureMismatch)
	for _, base := range []string{"hooks.example", "ftp://a", "https://", "https://a/", "https://u@a", "https://a?b",
		"https://a#b", "https://a/\"", "https://a/" + strings.Repeat("a", 1024)} {
		_, err = engine.Bind(verification.Settings{URLBase: base})
		require.Equal(t, []string{"url_base format"}, violationsOf(t, err), base)
	}
}

// Variants of the URL are those that the declaration lists, and without its query the query is not called
// signed.
func TestURLVariants(t *testing.T) {
	t.Parallel()
	p := sha256Proof("header:X-S", "{body}{url}")
	p.URLVariants = []string{"no_query", "port"}
	v := verifier(t, declared(p), testKey)
	for _, signedURL := range []string{"https://a/h?q", "https://a/h", "https://a:443/h?q", "https://a:443/h"} {
		requireVerified(t, v, atURL(request("{}", "X-S", hexMAC(testKey, "{}"+signedURL)), "https://a", "/h", "q"), "whs_0")
	}
	p.URLVariants = []string{"slash"}
	require.Equal(t, []string{"url_variants[0] enum"}, violationsOfProof(t, p))
	p.URLVariants = []string{"port", "port"}
	require.Equal(t, []string{"url_variants[1] unique"}, violationsOfProof(t, p))
	p.Signed, p.URLVariants = "{body}", []string{"port"}
	require.Equal(t, []string{"url_variants coherent"}, violationsOfProof(t, p))
}

// With the URL and the body signed no bytes can be moved between the two.
func TestBorderOfURLAndBody(t *testing.T) {
	t.Parallel()
	for _, signed := range []string{"{url}{body}", "{body}{url}"} {
		v := verifier(t, declared(sha256Proof("header:X-S", signed)), testKey)
		send := func(query, body string) *verification.Request {
			u := "https://a/h"
			if query != "" {
				u += "?" + query
			}
			content := strings.NewReplacer("{url}", u, "{body}", body).Replace(signed)
			return atURL(request(body, "X-S", hexMAC(testKey, content)), "https://a", "/h", query)
		}
		requireVerified(t, v, send("a=1", `{"b":[1]}`), "whs_0")
		requireVerified(t, v, send("", ``), "whs_0")
		requireRefused(t, v, send(`a=1{"b":`, `[1]}`), verification.ReasonURLMalformed)
		requireRefused(t, v, send("a=1", `=1{"b":[1]}`), verification.ReasonBodyMalformed)
		requireRefused(t, v, send("a=1", `{"b":[1]`), verification.ReasonBodyMalformed)
		requireRefused(t, v, send("a=1", ` {"b":[1]}`), verification.ReasonBodyMalformed)
		requireRefused(t, v, send("a=1", `text`), verification.ReasonBodyMalformed)
	}
}

// URLs are decoded as HubSpot documents it before they are signed: the named characters and no others.
func TestURLDecoded(t *testing.T) {
	t.Parallel()
	p := sha256Proof("header:X-S", "{method}{url_decoded}{body}{ts}")
	p.Timestamp = &verification.TimestampRule{From: "header:X-T", Format: "unix_ms", MaxAgeS: "300", MaxSkewS: "300",
		Signed: true}
	v := verifier(t, declared(p), testKey)
	content := "POSThttps://a/h?x=:/?@!$'()*,;%20%22%5b%7B%" + `{"a":1}` + stamp(0) + "000"
	r := atURL(request(`{"a":1}`, "X-S", hexMAC(testKey, content), "X-T", stamp(0)+"000"),
		"https://a", "/h", "x=%3A%2f%3F%40%21%24%27%28%29%2A%2C%3B%20%22%5b%7B%")
	requireVerified(t, v, r, "whs_0")
	r.Method = "PUT"
	requireRefused(t, v, r, verification.ReasonSignatureMismatch)
}

// Every other token stands for exactly what its name says.
func TestSignedTokens(t *testing.T) {
	t.Parallel()
	const body = `{"a":"x","n":7,"deep":{"b":"y"}}`
	sum := sha256.Sum256([]byte(body))
	tests := []struct {
		signed, content string
		covered         bool
	}{
		{"{body_sha256_hex}", hex.EncodeToString(sum[:]), true},
		{"{method}\n{path}\n{query}\n{body_sha256_b64}", "POST\n/h\nq=1\n" + base64.StdEncoding.EncodeToString(sum[:]), true},
		{"{header:X-A}|{conn:account}|{body_crc32}", "a|acct.{body}|" +
			strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10), false},
		{"{json:/a}:{json:/n}:{json?:/none}:{json:/deep/b}", "x:7::y", false},
		{"{header?:X-None},{header:X-A}", ",a", false},
		{"{kv_lines:a,none,n}", "a\nx\nn\n7\n", false},
	}
	for _, tt := range tests {
		p := sha256Proof("header:X-S", tt.signed)
		p.BodyUnsigned = !tt.covered
		d := declared(p)
		settings := verification.Settings{Secrets: secrets(testKey)}
		if strings.Contains(tt.signed, "conn:") {
			d.Params = []verification.Param{{Name: "account", Description: "x", Pattern: ".+", Required: true, Example: "e"}}
			settings.Params = map[string]string{"account": "acct.{body}"}
		}
		engine, err := verification.Compile(d)
		require.NoError(t, err, tt.signed)
		v, err := engine.Bind(settings)
		require.NoError(t, err)
		send := func(content string) *verification.Request {
			return atURL(request(body, "X-A", "a", "X-S", hexMAC(testKey, content)), "", "/h", "q=1")
		}
		requireVerified(t, v, send(tt.content), "whs_0")
		requireRefused(t, v, send(tt.content+" "), verification.ReasonSignatureMismatch)
	}
}

// Members that are signed line by line cannot be cut in another way: only the first may contain line ends.
func TestSignedLines(t *testing.T) {
	t.Parallel()
	p := sha256Proof("header:X-S", "{kv_lines:Message,MessageId,Subject}")
	p.BodyUnsigned = true
	v := verifier(t, declared(p), testKey)
	content := "Message\nm\nSubject\ns\nMessageId\n1\n"
	send := func(body string) *verification.Request { return request(body, "X-S", hexMAC(testKey, content)) }
	requireVerified(t, v, send(`{"Message":"m\nSubject\ns","MessageId":"1"}`), "whs_0")
	requireRefused(t, v, send(`{"Message":"m","Subject":"s\nMessageId\n1"}`), verification.ReasonBodyMalformed)
	requireRefused(t, v, send(`{}`), verification.ReasonBodyMalformed)
	for _, signed := range []string{"{kv_lines:}", "{kv_lines:a,}", "{kv_lines:a/b}", "{kv_lines:a b}"} {
		p.Signed = signed
		require.Equal(t, []string{"signed format"}, violationsOfProof(t, p))
	}
	p.Signed = "x{kv_lines:a}"
	require.Equal(t, []string{"signed coherent"}, violationsOfProof(t, p))
}

// adyen signs eight values of each item, with a signature in the item.
func adyen() verification.Proof {
	const item = "json:/NotificationRequestItem"
	fields := []string{}
	for _, f := range []string{"pspReference", "originalReference", "merchantAccountCode", "merchantReference",
		"amount/value", "amount/currency", "eventCode", "success"} {
		fields = append(fields, "{json?:/NotificationRequestItem/"+f+"}")
	}
	return verification.Proof{
		Scheme: "hmac", Algorithm: "sha256", Secret: verification.SecretFormat{Decode: "hex"}, BodyUnsigned: true,
		Signature: []verification.SignatureSource{{From: item + "/additionalData/hmacSignature", Encoding: "base64"}},
		Signed:    "{each:/notificationItems}" + strings.Join(fields, ":"),
	}
}

// The vector in the tests of Adyen's Go library verifies, and every item of a batch needs a right signature.
func TestSignedItems(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(adyen()), "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056")
	item := func(reference, signature string) string {
		return `{"NotificationRequestItem":{"pspReference":"` + reference + `","merchantAccountCode":"TestMerchant",` +
			`"merchantReference":"TestPayment-1407325143704","amount":{"value":1130,"currency":"EUR"},"eventCode":"AUTHORISATION","success":"true",` +
			`"additionalData":{"hmacSignature":"` + signature + `"}}}`
	}
	good := item("7914073381342284", "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=")
	body := func(items ...string) *verification.Request {
		return request(`{"live":"false","notificationItems":[` + strings.Join(items, ",") + `]}`)
	}
	requireVerified(t, v, body(good), "whs_0")
	requireVerified(t, v, body(good, good), "whs_0")
	redacted := string(v.RedactBody(body(good, good)))
	require.Equal(t, 2, strings.Count(redacted, "[redacted]"),
		"who reads the items cannot send others with their signatures")
	require.NotContains(t, redacted, "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=")
	requireRefused(t, v, body(good, item("7914073381342285", "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=")),
		verification.ReasonSignatureMismatch)
	requireRefused(t, v, body(item("7914073381342284:", "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=")),
		verification.ReasonHeaderMalformed)
	requireRefused(t, v, body(good, `{}`), verification.ReasonSignatureMissing)
	requireRefused(t, v, body(), verification.ReasonBodyMalformed)
	requireRefused(t, v, request(`{}`), verification.ReasonBodyMalformed)

	p := adyen()
	p.Signature[0].From = "header:X-S"
	require.Equal(t, []string{"signature[0].from coherent"}, violationsOfProof(t, p))
	p = adyen()
	p.Signed += "{body}"
	require.Contains(t, violationsOfProof(t, p), "signed coherent")
	p.Signed = "{json:/a}:{each:/b}"
	require.Contains(t, violationsOfProof(t, p), "signed format")
}

// A template whose parts could be cut in several ways is refused.
func TestCompileRefusesBorders(t *testing.T) {
	t.Parallel()
	for _, signed := range []string{
		"{json:/a}{json:/b}", "{header:a}{body_crc32}.x", "{body_crc32}7", "{form_sorted}.x", "{form_sorted}{url}",
		"{url}[{body}", "{url}.{header:a}{body}", "{query}{path}", "{url}{path}", "{kv_lines:a}{ts}",
	} {
		p := sha256Proof("header:X-S", signed)
		p.BodyUnsigned = !strings.Contains(signed, "{body}") && !strings.Contains(signed, "{form")
		require.Contains(t, violationsOfProof(t, p), "signed coherent", signed)
	}
}

// For any declaration, no other webhook has the same signed content: changing any byte of the webhook that the
// template covers refuses it.
func TestVerifyRefusesEveryFlippedByteOfURLSchemes(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(sha256Proof("header:X-S", "{method}{url}{body}")), testKey)
	rapid.Check(t, func(rt *rapid.T) {
		parts := [][]byte{
			[]byte("POST"), []byte("/" + rapid.StringMatching(`[a-z0-9_]{1,20}`).Draw(rt, "path")),
			[]byte(rapid.StringMatching(`[a-z]{1,9}=[a-z0-9%]{0,20}`).Draw(rt, "query")),
			[]byte(`{"a":"` + rapid.StringMatching(`[ -!#-\[\]-~]{1,40}`).Draw(rt, "value") + `"}`),
		}
		sig := hexMAC(testKey, string(parts[0])+"https://a"+string(parts[1])+"?"+string(parts[2])+string(parts[3]))
		send := func() *verification.Refusal {
			r := atURL(request(string(parts[3]), "X-S", sig), "https://a", string(parts[1]), string(parts[2]))
			r.Method = string(parts[0])
			_, refusal := v.Verify(t.Context(), r)
			return refusal
		}
		if refusal := send(); refusal != nil {
			rt.Fatalf("a good webhook was refused: %v", refusal)
		}
		part := parts[rapid.IntRange(0, 3).Draw(rt, "part")]
		part[rapid.IntRange(0, len(part)-1).Draw(rt, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		if send() == nil {
			rt.Fatal("accepted with a flipped bit")
		}
	})
}
