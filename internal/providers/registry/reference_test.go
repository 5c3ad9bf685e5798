package registry_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/registry"
)

func load(t *testing.T, text string) *registry.Provider {
	t.Helper()
	loaded, err := registry.Load(folder("acme.yaml", text))
	require.NoError(t, err)
	p, ok := loaded.Get("acme")
	require.True(t, ok)
	return p
}

func unquoted(s string) string { return s }

// A summary says how each proof of a definition works, what describes events, and which of it is signed.
func TestSummary(t *testing.T) {
	t.Parallel()
	s := load(t, everything).Summary()
	w := s.Webhooks
	require.Nil(t, s.Evidence)
	require.Equal(t, "hmac sha256 or hmac sha1 or (jwt RS256 and token) or jwt ES256 or asymmetric rsa_sha256 or basic",
		w.Proof.SchemeText())
	require.Equal(t, "{ts}.{body} or {url}, and the body by its hash in query:bodySHA256 or (the token; not the body "+
		"and nothing) or "+
		"the token, and the body by its hash in jwt:sha256 or {kv_lines:Message,Type}; not the body or nothing",
		w.Proof.SignedText(unquoted))
	require.Equal(t, "300 s or none or (60 s and none) or the token's exp or none or none", w.Proof.AgeText(unquoted))
	require.Equal(t, "header:x-sig,x-signature, header_seq:x-sig-{1..3}, header:x-list, header:x-path, query:sig or "+
		"header:x-kv or (header:authorization and "+
		"json:/value/*/token) or header:x-jwt or json:/Signature or header:authorization", w.Proof.PlacesText(unquoted))
	require.Equal(t, "each of /value/*: {json:/object}.{item:/type} (not signed); else {header:x-event}.{json:/action} "+
		"(not signed)", w.TypeText(unquoted))
	require.Equal(t, "each of /value/*: item:/id (not signed); else json:/id + json:/at (not signed); bodies are unique",
		w.IDText(unquoted))
	require.Equal(t, "json:/Signature, json:/passcode, json:/value/*/token", w.RedactedText(unquoted))
	require.Equal(t, "GET echo; POST secret", w.HandshakeText())
	require.True(t, w.Control)
	require.Equal(t, []registry.ParamSummary{
		{Name: "account", Description: "The account.", Required: true, Pattern: ".+", Example: "acct_1"},
		{Name: "mode", Description: "The mode.", Enum: []string{"a", "b"}, Default: "a"},
	}, w.Params)
}

// Parameters show by their name, and a timestamp that is not signed is called so.
func TestSummaryOfParameters(t *testing.T) {
	t.Parallel()
	params := `  params:
    - {name: hash, description: The hash., enum: [sha256, sha1], default: sha256}
    - {name: age, description: The age., pattern: "[0-9]+", default: "60"}
    - {name: at, description: The header., pattern: "[a-z-]+", example: x-time}
  timestamp: {from: "header:{param:at}", format: unix_s, max_age_s: "{param:age}", signed: false}
  handshake:
    - {when: [{from: method, equals: [POST]}, {from: "json:/type", equals: [ping]}], respond: {status: 204}}
    - when: [{from: method, equals: [POST]}, {from: "json:/token", present: true}]
      verify_first: true
      respond: {status: 200, body: "${hmac_hex(json:/token)}"}
`
	w := load(t, minimal+strings.Replace(webhooks, "algorithm: sha256", `algorithm: "{param:hash}"`, 1)+
		params).Summary().Webhooks
	require.Equal(t, "hmac sha256, sha1", w.Proof.SchemeText())
	require.Equal(t, "<age> s (timestamp not signed)", w.Proof.AgeText(unquoted))
	require.Equal(t, "POST fixed; POST hmac (signed)", w.HandshakeText())
	require.Equal(t, "none", w.IDText(unquoted))
}

// A provider without webhooks is described without them, and what could not be confirmed is not kept silent.
func TestText(t *testing.T) {
	t.Parallel()
	s := load(t, minimal).Summary()
	require.Equal(t, "Acme (acme)\n\nDocumentation   https://acme.example/docs\nCategories      crm\nDefinition      "+
		"builtin\nWebhooks        none\n", s.Text())
	s = load(t, minimal+evidence+strings.Replace(webhooks, "Paste the URL.", `"Paste the URL.\n\n- Then save."`,
		1)).Summary()
	require.Contains(t, s.Text(), "Grade           documented\nSource          The page on signatures\n                "+
		"https://acme.example/docs/signatures\n\n"+
		"Set-up\n  Paste the URL.\n\n  - Then save.\n\nNot confirmed by a source of the provider's own, and so left out\n "+
		" - how long deliveries are repeated\n")
}

// In the reference nothing of a definition ends a table's cell, a code span or a link, or opens a tag; a provider
// without
// webhooks is listed, but not among those with webhooks; numbers are counted.
func TestReference(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Load(folder("acme.yaml", hostile, "other.yaml", strings.Replace(minimal, "slug: acme",
		"slug: other", 1)))
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, registry.Reference(&out, loaded))
	require.Contains(t, out.String(),
		"\n2 providers: 0 to which accounts connect, 0 with 0 actions, and 1 with webhooks, 1 of them of grade `vector`.")
	require.Contains(t, out.String(), "\n| [Acme](providers/acme.md) | `acme` | – | – | hmac sha256 | – | vector |\n"+
		"| [Acme](providers/other.md) | `other` | – | – | – | – | – |\n")
	require.Contains(t, out.String(),
		"\n| [`acme`](providers/acme.md) | hmac sha256 | `{body}` | none | `{json:/type}` | none | none | vector | "+
			"[a \\[page\\] \\| \\<b>](https://acme.example/%28a%29) |\n")
	require.NotContains(t, out.String(), "[`other`]")
	loaded, err = registry.Load(folder("acme.yaml", minimal))
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, registry.Reference(&out, loaded))
	require.NotContains(t, out.String(), "How webhooks are verified")
}

// hostile has what would end a cell, a code span or a link.
const hostile = minimal + "evidence: {grade: vector, source: \"a [page] | <b>\", url: \"https://acme.example/(a)\", " +
	"left_out: [\"the <age>\", more]}\n" + webhooks +
	"  params:\n    - {name: kind, description: \"a | b\", pattern: \"[a|`]+\", example: \"a\"}\n  redact_headers: " +
	"[\"x-{param:kind}\"]\n"

// page returns the page of a provider.
func page(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, registry.Page(&out, load(t, text)))
	return out.String()
}

// The page of a provider that sends webhooks says how they are verified, from which source, and what could not be.
func TestPageOfWebhooks(t *testing.T) {
	t.Parallel()
	out := page(t, hostile)
	require.True(t, strings.HasPrefix(out, "# Acme\n\nGenerated from [`definitions/acme.yaml`]"), out)
	require.Contains(t, out, "\n- [Documentation of the provider](https://acme.example/docs)\n\n## What it sends\n\nPaste the URL.\n")
	require.Contains(t, out, "| Proof of the sender | `header:x-signature` |\n| Signed | `{body}` |\n")
	require.Contains(t, out, "| `kind` | matching ``[a\\|`]+``, such as `a` | off | a \\| b |\n")
	require.Contains(t, out, "- Webhooks, grade `vector`: a test verifies a webhook that the provider published, or "+
		"that its own "+
		"SDK signed or accepted. Source: [a \\[page\\] | \\<b>](https://acme.example/%28a%29).\n")
	require.True(t, strings.HasSuffix(out, "so left out:\n\n- the \\<age>\n- more\n"), out)
	for _, absent := range []string{"## Connect it", "## What it can do", "## Limits", "Removed from the body"} {
		require.NotContains(t, out, absent)
	}
	require.Contains(t, page(t, everything), "| Removed from the body | `json:/Signature`, `json:/passcode`, "+
		"`json:/value/*/token` |\n")
}
