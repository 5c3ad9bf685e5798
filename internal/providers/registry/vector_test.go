package registry_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/definitions"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// vector is a webhook that a definition has to accept, with what its provider signs of it. check changes the webhook
// in every way in which it must then be refused.
type vector struct {
	slug     string
	settings verification.Settings // without secrets
	// secret is a person's input. otherSecret is another of the same form, "another secret of the same kind" unless set.
	secret, otherSecret string
	// scheme is the Result's, hmac unless set.
	scheme string
	// request is the webhook, and its Now the moment of signing.
	request *verification.Request
	// at is the place of the signature, header:<name>, query:<name> or json:<pointer>, and text the signature there
	// without what stands around it. encoding is hex or base64, or empty for a token.
	at, text, encoding string
	// label stands before the signature and is mandatory, such as "sha256=".
	label string
	// pairSep separates the pairs of the signature's header, a comma unless set.
	pairSep string
	// signed are the parts under the signature: body, method, path, query, base (scheme and host), header:<name>,
	// sig:<key> of the signature's header, or json:<pointer> and form:<name> of a body that is not signed as a whole.
	// outside are parts of which it is known that the signature leaves them out.
	signed, outside []string
	// timestamp is the place of the timestamp, header:<name>, json:<pointer> or sig:<key>; empty where there is none.
	timestamp string
	// bodyDecides is true where only the body or the query distinguishes a handshake without a signature from a webhook,
	// or the signature may stand there.
	bodyDecides bool
	// maxAge and maxSkew are the limits of the timestamp, 0 for none. They are inclusive to the second.
	maxAge, maxSkew time.Duration
}

// connect prepares a verifier for the vector's definition and settings.
func (v *vector) connect(t *testing.T, secrets ...string) *verification.Verifier {
	t.Helper()
	return connectWith(t, v.slug, v.settings, secrets...)
}

// connectWith prepares a verifier from a definition that ships. The secrets' ids are their places in the list.
func connectWith(t *testing.T, slug string, settings verification.Settings, secrets ...string) *verification.Verifier {
	t.Helper()
	data, err := fs.ReadFile(definitions.FS(), slug+".yaml")
	require.NoError(t, err)
	loaded, err := registry.Load(fstest.MapFS{slug + ".yaml": {Data: data}})
	require.NoError(t, err)
	provider, ok := loaded.Get(slug)
	require.True(t, ok)
	for i, s := range secrets {
		settings.Secrets = append(settings.Secrets, verification.Secret{ID: string(rune('0' + i)),
			Value: secretbox.Secret(s)})
	}
	engine, err := provider.Webhooks.Bind(settings)
	require.NoError(t, err)
	return engine
}

// check is the promise of every definition: the webhook is accepted, also while secrets rotate, and refused for the
// right reason when anything that is signed, the signature or the secret is another, or the time is not that of the
// signature.
func (v vector) check(t *testing.T) {
	t.Helper()
	if v.otherSecret == "" {
		v.otherSecret = "another secret of the same kind"
	}
	if v.scheme == "" {
		v.scheme = "hmac"
	}
	if v.pairSep == "" {
		v.pairSep = ","
	}
	one := v.connect(t, v.secret)
	requireProved(t, one, v.request, v.scheme, "0")
	requireProved(t, v.connect(t, v.otherSecret, v.secret), v.request, v.scheme, "1")
	requireReason(t, v.connect(t), v.request, verification.ReasonSecretMissing)
	requireReason(t, v.connect(t, v.otherSecret), v.request, verification.ReasonSignatureMismatch)

	v.checkSigned(t, one)
	v.checkSignature(t, one)
	v.checkTimestamp(t, one)
}

// requireProved asks that a webhook passes, before and after its body is read.
func requireProved(t *testing.T, v *verification.Verifier, r *verification.Request, scheme, keyID string) {
	t.Helper()
	require.Nil(t, v.Precheck(r.Header), "what Verify accepts must pass Precheck")
	result, refusal := v.Verify(t.Context(), r)
	require.Nil(t, refusal)
	result.SingleUse, result.SingleUseUntil = "", time.Time{}
	require.Equal(t, verification.Result{Scheme: scheme, KeyID: keyID, Verified: true}, result)
}

// checkSigned changes each byte of each signed part, and of those that are not signed.
func (v *vector) checkSigned(t *testing.T, one *verification.Verifier) {
	t.Helper()
	for _, part := range v.signed {
		reasons := []verification.Reason{verification.ReasonSignatureMismatch}
		switch {
		case part == v.timestamp:
			reasons = append(reasons, verification.ReasonTimestampMalformed)
		case part == "body" && slices.Contains(v.signed, "path"):
			// Together with a URL the body must have a certain form, and one changed byte can break it.
			reasons = append(reasons, verification.ReasonBodyMalformed)
		case part == "query":
			reasons = append(reasons, verification.ReasonURLMalformed)
		default:
		}
		changes := v.changes(t, part)
		require.NotEmpty(t, changes, "the webhook has no %s to change", part)
		for _, r := range changes {
			_, refusal := one.Verify(t.Context(), r)
			require.NotNil(t, refusal, "accepted with another %s", part)
			require.Contains(t, reasons, refusal.Reason, "with another %s", part)
		}
		if name, ok := strings.CutPrefix(part, "header:"); ok && part != v.timestamp {
			r := cloneRequest(v.request)
			r.Header.Del(name)
			requireReason(t, one, r, verification.ReasonHeaderMissing)
			r = cloneRequest(v.request)
			r.Header.Add(name, r.Header.Get(name))
			requireReason(t, one, r, verification.ReasonHeaderMalformed)
		}
	}
	for _, part := range v.outside {
		for _, r := range v.changes(t, part) {
			requireProved(t, one, r, v.scheme, "0")
		}
	}
}

// changes returns the webhook with each byte of one part changed, one at a time.
func (v *vector) changes(t *testing.T, part string) []*verification.Request {
	t.Helper()
	kind, name, _ := strings.Cut(part, ":")
	var original string
	set := func(r *verification.Request, value string) {}
	switch kind {
	case "body":
		original = string(v.request.Body)
		set = func(r *verification.Request, value string) { r.Body = []byte(value) }
	case "method":
		original = v.request.Method
		set = func(r *verification.Request, value string) { r.Method = value }
	case "path":
		original = v.request.Path
		set = func(r *verification.Request, value string) { r.Path = value }
	case "query":
		original = v.request.RawQuery
		set = func(r *verification.Request, value string) { r.RawQuery = value }
	case "base":
		original = v.request.PublicURL
		set = func(r *verification.Request, value string) { r.PublicURL = value }
	case "header":
		original = v.request.Header.Get(name)
		set = func(r *verification.Request, value string) { r.Header.Set(name, value) }
	case "sig":
		_, header, _ := strings.Cut(v.at, ":")
		original = pairValue(t, v.request.Header.Get(header), v.pairSep, name)
		set = func(r *verification.Request, value string) {
			r.Header.Set(header, strings.Replace(r.Header.Get(header), name+"="+original, name+"="+value, 1))
		}
	case "json", "form":
		if original = formValue(t, v.request.Body, name); kind == "json" {
			original = jsonText(t, v.request.Body, name)
		}
		require.Equal(t, 1, bytes.Count(v.request.Body, []byte(original)), "%s must stand once in the body", part)
		set = func(r *verification.Request, value string) {
			r.Body = bytes.Replace(r.Body, []byte(original), []byte(value), 1)
		}
	default:
		require.Fail(t, "unknown part", part)
	}
	step := max(1, len(original)/1000) // of a large body every so many bytes are enough
	var out []*verification.Request
	for i := 0; i < len(original); i += step {
		changed := []byte(original)
		changed[i] ^= 1
		r := cloneRequest(v.request)
		set(r, string(changed))
		out = append(out, r)
	}
	return out
}

// checkSignature changes the signature: absent, empty, twice, cut short, lengthened, in another encoding, without its
// label.
func (v *vector) checkSignature(t *testing.T, one *verification.Verifier) {
	t.Helper()
	require.NotEmpty(t, v.text)
	with := func(text string) *verification.Request { return v.withSignature(t, v.label+v.text, text) }
	changed := []byte(v.text)
	changed[len(changed)/2] = map[bool]byte{true: '1', false: '0'}[changed[len(changed)/2] == '0']
	requireReason(t, one, with(v.label+string(changed)), verification.ReasonSignatureMismatch)
	if name, ok := strings.CutPrefix(v.at, "header:"); ok {
		for _, values := range [][]string{nil, {""}} {
			r := cloneRequest(v.request)
			r.Header[http.CanonicalHeaderKey(name)] = values
			requireReason(t, one, r, verification.ReasonSignatureMissing)
			require.Equal(t, v.bodyDecides, one.Precheck(r.Header) == nil,
				"a webhook without its signature header is refused before the body is read")
		}
		r := cloneRequest(v.request)
		r.Header.Add(name, r.Header.Get(name))
		requireReason(t, one, r, verification.ReasonSignatureMalformed)
	} else {
		requireReason(t, one, with(""), verification.ReasonSignatureMissing)
	}
	if v.label != "" {
		malformed := []string{v.text, v.label, strings.ToUpper(v.label) + v.text}
		for _, text := range malformed {
			requireReason(t, one, with(text), verification.ReasonSignatureMalformed)
		}
	}
	if v.encoding == "" {
		requireReason(t, one, with(v.label+v.text[:len(v.text)-1]), verification.ReasonSignatureMismatch)
		requireReason(t, one, with(v.label+v.text+"0"), verification.ReasonSignatureMismatch)
		return
	}
	for _, text := range []string{v.text[:len(v.text)-1], v.text + "0", strings.Repeat("*", len(v.text))} {
		requireReason(t, one, with(v.label+text), verification.ReasonSignatureMalformed)
	}
	if v.scheme != "hmac" && v.scheme != "keyed_hash" {
		return
	}
	switch v.encoding {
	case "hex":
		sum, err := hex.DecodeString(v.text)
		require.NoError(t, err)
		requireReason(t, one, with(v.label+base64.StdEncoding.EncodeToString(sum)), verification.ReasonSignatureMalformed)
		// Hexadecimal has two cases that mean the same bytes.
		requireProved(t, one, with(v.label+strings.ToUpper(v.text)), v.scheme, "0")
	case "base64":
		sum, err := base64.StdEncoding.DecodeString(v.text)
		require.NoError(t, err)
		requireReason(t, one, with(v.label+hex.EncodeToString(sum)), verification.ReasonSignatureMalformed)
	default:
		require.Fail(t, "unknown encoding", v.encoding)
	}
}

// withSignature puts another text in the place of the signature's.
func (v *vector) withSignature(t *testing.T, old, text string) *verification.Request {
	t.Helper()
	r := cloneRequest(v.request)
	kind, name, _ := strings.Cut(v.at, ":")
	switch kind {
	case "header":
		value := r.Header.Get(name)
		require.Equal(t, 1, strings.Count(value, old), "the signature must stand once in %s", v.at)
		r.Header.Set(name, strings.Replace(value, old, text, 1))
	case "query":
		require.Contains(t, r.RawQuery, url.QueryEscape(old))
		r.RawQuery = strings.Replace(r.RawQuery, url.QueryEscape(old), url.QueryEscape(text), 1)
	case "json", "form":
		require.Equal(t, 1, bytes.Count(r.Body, []byte(old)), "the signature must stand once in the body")
		r.Body = bytes.Replace(r.Body, []byte(old), []byte(text), 1)
	default:
		require.Fail(t, "unknown place", v.at)
	}
	return r
}

// checkTimestamp moves the time of arrival to the limits and beyond, and takes the timestamp away.
func (v *vector) checkTimestamp(t *testing.T, one *verification.Verifier) {
	t.Helper()
	arrives := func(offset time.Duration) *verification.Request {
		r := cloneRequest(v.request)
		r.Now = r.Now.Add(offset)
		return r
	}
	const far = 20 * 365 * 24 * time.Hour
	for _, limit := range []struct{ window, inside, outside, unlimited time.Duration }{
		{v.maxAge, v.maxAge, v.maxAge + time.Second, far},
		{v.maxSkew, -v.maxSkew, -v.maxSkew - time.Second, -far},
	} {
		if limit.window == 0 {
			requireProved(t, one, arrives(limit.unlimited), v.scheme, "0")
			continue
		}
		requireProved(t, one, arrives(limit.inside), v.scheme, "0")
		requireReason(t, one, arrives(limit.outside), verification.ReasonTimestampOutOfRange)
	}
	if key, ok := strings.CutPrefix(v.timestamp, "sig:"); ok {
		pair := key + "=" + pairValue(t, v.request.Header.Get(strings.TrimPrefix(v.at, "header:")), v.pairSep, key)
		for instead, reason := range map[string]verification.Reason{
			"x=1": verification.ReasonTimestampMissing, key + "=": verification.ReasonTimestampMissing, pair + v.pairSep +
				pair: verification.ReasonTimestampMalformed, pair + ".0": verification.ReasonTimestampMalformed, key +
				"=-1": verification.ReasonTimestampMalformed, key + "=" +
				strings.Repeat("9", 20): verification.ReasonTimestampMalformed,
		} {
			requireReason(t, one, v.withSignature(t, pair, instead), reason)
		}
	}
	if name, ok := strings.CutPrefix(v.timestamp, "header:"); ok {
		for _, values := range [][]string{nil, {""}} {
			r := cloneRequest(v.request)
			r.Header[http.CanonicalHeaderKey(name)] = values
			requireReason(t, one, r, verification.ReasonTimestampMissing)
		}
		r := cloneRequest(v.request)
		for _, value := range []string{"-1", "99999999999999999999", "yesterday", " " + r.Header.Get(name),
			r.Header.Get(name) + ".0"} {
			r.Header.Set(name, value)
			requireReason(t, one, r, verification.ReasonTimestampMalformed)
		}
		r = cloneRequest(v.request)
		r.Header.Add(name, r.Header.Get(name))
		requireReason(t, one, r, verification.ReasonTimestampMalformed)
	}
}
