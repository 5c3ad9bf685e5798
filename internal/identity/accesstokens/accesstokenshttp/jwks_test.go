package accesstokenshttp_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
)

// The keys that verify access tokens are published where others look for them, for caches to keep.
func TestJWKS(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		r := s.Get("/.well-known/jwks.json")
		require.Equal(t, http.StatusOK, r.Status, r.Text)
		require.Equal(t, "application/jwk-set+json", r.Header.Get("Content-Type"))
		require.Equal(t, "public, max-age=300", r.Header.Get("Cache-Control"))
	})
}
