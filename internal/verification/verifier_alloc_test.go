//go:build !race

// The race detector makes sync.Pool forget values at random, so allocations are counted without it only.

package verification_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Promise: verifying allocates nothing, so a flood of deliveries costs hashing and no garbage.
//
//nolint:paralleltest // AllocsPerRun counts the whole process's allocations and refuses to run beside parallel tests.
func TestVerifyAllocatesNothing(t *testing.T) {
	v := verifier(t, listed(), testKey)
	r := signedList("msg_1", stamp(0), strings.Repeat("x", 1024))
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() { _, _ = v.Verify(t.Context(), r) }), 1.0)
}
