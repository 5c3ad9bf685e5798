package tokens_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/oauth"
)

// A request that is not permitted any more when the connection is there, because the process stood still meanwhile,
// sends nothing: another node may have used the refresh token since.
func TestRefreshThatIsTooLate(t *testing.T) {
	t.Parallel()
	requests := 0
	w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
		requests++
		_, _ = rw.Write([]byte(`{"access_token":"new-a"}`))
	})
	source, permitted := w.source("oauth2", refreshable()), false
	source.Permit = func() bool { return permitted }
	_, err := w.protocol.Refresh(t.Context(), source)
	var e *oauth.TokenError
	require.ErrorAs(t, err, &e)
	require.True(t, e.Unsent)
	require.Zero(t, requests)
	permitted = true
	_, err = w.protocol.Refresh(t.Context(), source)
	require.NoError(t, err)
	require.Equal(t, 1, requests)
}
