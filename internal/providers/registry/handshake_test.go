package registry_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// at makes a request another's method and query, with which handshakes come.
func at(r *verification.Request, method, query string) *verification.Request {
	r.Method, r.Path, r.RawQuery = method, "/api/v1/webhook/whk_1", query
	return r
}

// requireHandshakeText requires that the response to a request is that of a handshake with a text.
func requireHandshakeText(t *testing.T, v *verification.Verifier, r *verification.Request, status int, contentType,
	body string) *verification.Response {
	t.Helper()
	answer, refusal := v.Handshake(t.Context(), r)
	require.Nil(t, refusal)
	require.NotNil(t, answer, "not taken for a handshake")
	require.Equal(t, status, answer.Status)
	require.Equal(t, contentType, answer.Header.Get("Content-Type"))
	require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"))
	require.Equal(t, body, string(answer.Body))
	if r.Method == http.MethodPost {
		require.Nil(t, v.Precheck(r.Header), "a handshake must reach its body")
	}
	return answer
}

// requireNoHandshake asks that a request is a delivery like any other.
func requireNoHandshake(t *testing.T, v *verification.Verifier, r *verification.Request) {
	t.Helper()
	answer, refusal := v.Handshake(t.Context(), r)
	require.Nil(t, refusal)
	require.Nil(t, answer)
}

// requireHandshakeRefused requires that a handshake is refused.
func requireHandshakeRefused(t *testing.T, v *verification.Verifier, r *verification.Request,
	reason verification.Reason) {
	t.Helper()
	answer, refusal := v.Handshake(t.Context(), r)
	require.Nil(t, answer)
	require.NotNil(t, refusal)
	require.Equal(t, reason, refusal.Reason)
}
