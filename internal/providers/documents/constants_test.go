package documents_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/documents"
)

// A constant header is written as HTTP writes it. Credentials, headers of the connection and templates are none.
func TestReadHeader(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]documents.Header{
		"Acme-Version: 2026-11-01": {Name: "Acme-Version", Value: "2026-11-01"},
		"acme-version:1":           {Name: "Acme-Version", Value: "1"},
		"Accept: a; b=\"c: d\"":    {Name: "Accept", Value: "a; b=\"c: d\""},
		"X-Price: $5":              {Name: "X-Price", Value: "$5"},
	} {
		h, problem := documents.ReadHeader(text)
		require.Empty(t, problem, text)
		require.Equal(t, want, h, text)
	}
	for text, want := range map[string]string{
		"": "must be a name of a header", "Acme-Version": "must be a name of a header", ": x": "must be a name of a header",
		"A B: x": "must be a name of a header", "Host: a": "must be a name of a header",
		"Content-Length: 1":      "must be a name",
		"authorization: Basic x": "must not be a header with credentials", "Cookie: a=b": "must not be a header with cred",
		"X-Auth-Token: x": "must not be a header with cred", "X-A:": "must have a value", "X-A: a\nB: c": "must have a value",
		"X-A: ü": "must have a value", "X-A: ${client.id}": "must have a value without ${",
	} {
		_, problem := documents.ReadHeader(text)
		require.Contains(t, problem, want, text)
	}
}

// A draft with headers and a probe is a definition that the registry accepts, and its document cannot add to either.
func TestDraftWithConstants(t *testing.T) {
	t.Parallel()
	d := draft(t, api(`[{"url":"https://api.acme.com"}]`, `{"t":{"type":"http","scheme":"bearer"}}`, `[{"t":[]}]`),
		documents.DraftOptions{Headers: []documents.Header{{Name: "Acme-Version", Value: "2026-11-01"},
			{Name: "X-B", Value: "#: {a}, 'b' \"c\" $5"}}, Probe: "/me"})
	text := string(d.Definition)
	require.Contains(t, text, "health:\n  probes:\n    - method: GET\n      path: /me\n")
	require.Contains(t, text, "Acme-Version: ")
	require.Contains(t, text, "2026-11-01")
}
