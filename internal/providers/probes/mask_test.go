package probes_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/registry"
)

// Headers that the caller gave make no gaps in a response, unless their names say that they may be secret; those that
// the definition sets, and the credentials, are masked.
func TestMaskerOfHeaders(t *testing.T) {
	t.Parallel()
	builtin, err := registry.Builtin()
	require.NoError(t, err)
	p, ok := builtin.Get("http")
	require.True(t, ok)
	given := http.Header{"X-Flag": {"true"}, "X-Order-Password": {"given-secret"}, "Authorization": {"given-one"}}
	req := &http.Request{Header: given.Clone()}
	req.Header.Set("Authorization", "Bearer signed-token")
	req.Header.Set("X-Signature", "the-signature")
	req.Header.Set("Acme-Version", "2026-11-28")
	m := probes.NewMasker(p.Outbound, &outbound.Values{Credentials: map[string]secretbox.Secret{"token": "stored"}}, req,
		given)
	require.Equal(t, "true [redacted] [redacted] [redacted] 2026-11-28 [redacted]",
		m.Text("true given-secret signed-token the-signature 2026-11-28 stored"))
}
