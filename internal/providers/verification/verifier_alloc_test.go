//go:build !race

// The race detector makes sync.Pool forget values at random, so allocations are counted without it only.

package verification_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// Verifying allocates nothing, so a flood of webhooks costs hashing and no garbage.
//
//nolint:paralleltest // AllocsPerRun counts the whole process's allocations and refuses to run during parallel tests.
func TestVerifyAllocatesNothing(t *testing.T) {
	v := verifier(t, listed(), testKey)
	r := signedList("msg_1", stamp(0), strings.Repeat("x", 1024))
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() { _, _ = v.Verify(t.Context(), r) }), 1.0)
}

// A stranger's form costs no memory except its own, however many separators it has, whether its signature is
// missing or wrong.
func TestFormOfSeparatorsAllocates(t *testing.T) { //nolint:paralleltest // counts allocations of the process
	v := verifier(t, formed(), testKey)
	body := strings.Repeat("&", 1<<20)
	for _, r := range []*verification.Request{request(body), request(body, "X-S", hexMAC("another key", body))} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = v.Handshake(t.Context(), r)
		_, refusal := v.Verify(t.Context(), r)
		require.NotNil(t, refusal)
		require.Equal(t, r.Body, v.RedactBody(r))
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(body)/2))
	}
}
