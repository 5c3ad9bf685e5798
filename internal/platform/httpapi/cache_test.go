package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// What one caller is answered is kept by no cache between: an API key is in a header of which caches know nothing.
func TestAnswersAreNotCached(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	for status, headers := range map[int][]string{
		http.StatusOK: {"API-Key", "key"}, http.StatusUnauthorized: {"API-Key", "another"}, http.StatusBadRequest: {"API-Key", "key", "Authorization", "Bearer token"},
	} {
		w := s.do(http.MethodGet, things, "", headers...)
		require.Equal(t, status, w.Code)
		require.Equal(t, []string{"no-store"}, w.Header().Values("Cache-Control"), status)
	}
}
