package verification_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

func outline(t *testing.T, d verification.Declaration) verification.Outline {
	t.Helper()
	engine, err := verification.Compile(d)
	require.NoError(t, err)
	return engine.Outline()
}

// An outline says of each type and id whether the proof covers it, as Describe says it of a webhook, and
// lists the ids by convention that count.
func TestOutline(t *testing.T) {
	t.Parallel()
	require.Equal(t, verification.Outline{
		Types: []verification.Derivation{{From: "{header:X-Event}.{json:/action}"}, {From: "{header:X-Event}"}},
		IDs:   []verification.Derivation{{From: "header:X-Delivery"}},
	}, outline(t, bodyOnly()))
	require.Equal(t, verification.Outline{
		Types: []verification.Derivation{{From: "{json:/type}", Signed: true}},
		IDs:   []verification.Derivation{{From: "header:webhook-id", Signed: true}},
	}, outline(t, listed()))
	d := batched("/*", "{item:/type}.{header:X-Kind}", "{item:/type}")
	require.Equal(t, verification.Outline{
		Types:      []verification.Derivation{{From: "{json:/type}", Signed: true}},
		IDs:        []verification.Derivation{{From: "json:/id", Signed: true}},
		BatchTypes: []verification.Derivation{{From: "{item:/type}.{header:X-Kind}"}, {From: "{item:/type}", Signed: true}},
		BatchIDs:   []verification.Derivation{{From: "item:/id", Signed: true}, {From: "item:/alt", Signed: true}},
	}, outline(t, d))
	d = bodyOnly()
	d.Event = verification.EventRules{ID: []string{"json:/id + json:/at", "json:/id + header:X-Delivery"}}
	require.Equal(t, verification.Outline{IDs: []verification.Derivation{
		{From: "json:/id + json:/at", Signed: true}, {From: "json:/id + header:X-Delivery"},
	}}, outline(t, d))
	require.Equal(t, verification.Outline{IDs: []verification.Derivation{
		{From: "header:webhook-id"}, {From: "header:svix-id"}, {From: "header:ce-source+header:ce-id"},
		{From: "header:idempotency-key"},
	}}, outline(t, declared(verification.Proof{Scheme: "token",
		Signature: []verification.SignatureSource{{From: "header:x-token"}}})))
}

// A rule that depends on a parameter has the parameter's name in the outline, whether or not its default turns it on.
func TestOutlineWithParameters(t *testing.T) {
	t.Parallel()
	d := declared(sha256Proof("header:X-S", "{body}"))
	d.Params = []verification.Param{
		{Name: "type_at", Description: "A pointer.", Pattern: "/.*", Example: "/type"},
		{Name: "id_in", Description: "A source.", Enum: []string{"header:x-id", "json:/id"}},
		{Name: "id_header", Description: "A header.", Pattern: ".+", Required: true, Example: "X-Other"},
	}
	d.Event = verification.EventRules{Type: []string{"{json:{param:type_at}}"},
		ID: []string{"{param:id_in}", "header:{param:id_header}"}}
	require.Equal(t, verification.Outline{
		Types: []verification.Derivation{{From: "{json:{param:type_at}}", Signed: true}},
		IDs:   []verification.Derivation{{From: "{param:id_in}"}, {From: "header:{param:id_header}"}},
	}, outline(t, d))
}
