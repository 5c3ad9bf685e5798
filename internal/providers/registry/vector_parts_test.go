package registry_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// cloneRequest copies a delivery, so that a change of one is none of the other.
func cloneRequest(r *verification.Request) *verification.Request {
	c := *r
	c.Header, c.Body = r.Header.Clone(), bytes.Clone(r.Body)
	return &c
}

// pairValue returns the value of a key in a list such as "t=1,v1=ab".
func pairValue(t *testing.T, list, sep, key string) string {
	t.Helper()
	for pair := range strings.SplitSeq(list, sep) {
		if value, ok := strings.CutPrefix(pair, key+"="); ok {
			return value
		}
	}
	require.Fail(t, "no such key", key)
	return ""
}

// formValue returns a field of a form, or nothing where the body is none.
func formValue(t *testing.T, body []byte, name string) string {
	t.Helper()
	fields, err := url.ParseQuery(string(body))
	if err != nil {
		return ""
	}
	return fields.Get(name)
}

// jsonText returns the text of the string or number that a JSON pointer through objects and arrays names.
func jsonText(t *testing.T, body []byte, pointer string) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	require.NoError(t, d.Decode(&value))
	for ref := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch v := value.(type) {
		case map[string]any:
			value = v[ref]
		case []any:
			require.Regexp(t, "^[0-9]$", ref)
			value = v[ref[0]-'0']
		}
	}
	if number, ok := value.(json.Number); ok {
		return number.String()
	}
	text, ok := value.(string)
	require.True(t, ok, "the body has no text at %s", pointer)
	return text
}

// atURL moves a delivery to the URL that the provider calls.
func atURL(r *verification.Request, public, path, query string) *verification.Request {
	r.PublicURL, r.Path, r.RawQuery = public, path, query
	return r
}

// requireDescribed checks the description of a delivery. Its id's source is not compared: the definition has it.
func requireDescribed(t *testing.T, v *verification.Verifier, r *verification.Request, want verification.Event) {
	t.Helper()
	got := describe(t, v, r)
	got.IDSource = want.IDSource
	require.Equal(t, want, got, "%s", r.Body)
}
