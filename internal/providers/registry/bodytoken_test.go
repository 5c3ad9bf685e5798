package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// checkBodyToken requires of a definition that a token which contains the hash of the body proves this body, under
// this secret alone, and that nothing of the token can change.
func checkBodyToken(t *testing.T, slug, secret, header string, r *verification.Request) {
	t.Helper()
	v := connect(t, slug, nil, secret)
	requireProved(t, v, r, "jwt", "0")
	requireProved(t, connect(t, slug, nil, "another secret", secret), r, "jwt", "1")
	requireReason(t, connect(t, slug, nil), r, verification.ReasonSecretMissing)
	requireReason(t, connect(t, slug, nil, "another secret"), r, verification.ReasonSignatureMismatch)
	for i := range r.Body {
		changed := cloneRequest(r)
		changed.Body[i] ^= 1
		requireReason(t, v, changed, verification.ReasonSignatureMismatch)
	}
	longer := cloneRequest(r)
	longer.Body = append(longer.Body, '\n')
	requireReason(t, v, longer, verification.ReasonSignatureMismatch)
	token := r.Header.Get(header)
	for i := range token {
		for _, with := range []byte("A.-") {
			if token[i] == with {
				continue
			}
			changed := cloneRequest(r)
			changed.Header.Set(header, token[:i]+string(with)+token[i+1:])
			_, refusal := v.Verify(t.Context(), changed)
			require.NotNil(t, refusal, "accepted with another byte %d of the token", i)
		}
	}
	parts := strings.Split(token, ".")
	for _, text := range []string{
		// {"alg":"none"}, and the header and the claims without a signature.
		"eyJhbGciOiJub25lIn0." + parts[1] + ".", "eyJhbGciOiJub25lIn0." + parts[1] + "." + parts[2], parts[0] + "." + parts[1] + ".",
		parts[0] + "." + parts[1], "Bearer " + token, token + "." + token, token + " " + token,
	} {
		changed := cloneRequest(r)
		changed.Header.Set(header, text)
		_, refusal := v.Verify(t.Context(), changed)
		require.NotNil(t, refusal, text)
	}
	for _, values := range [][]string{nil, {""}} {
		changed := cloneRequest(r)
		changed.Header.Del(header)
		for _, value := range values {
			changed.Header.Add(header, value)
		}
		requireReason(t, v, changed, verification.ReasonSignatureMissing)
		require.NotNil(t, v.Precheck(changed.Header))
	}
	twice := cloneRequest(r)
	twice.Header.Add(header, token)
	requireReason(t, v, twice, verification.ReasonSignatureMalformed)
	require.Contains(t, v.RedactHeaders(), strings.ToLower(header))
	// Neither token has a time.
	later := cloneRequest(r)
	later.Now = later.Now.Add(20 * 365 * 24 * time.Hour)
	requireProved(t, v, later, "jwt", "0")
}
