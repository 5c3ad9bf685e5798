package signin

import (
	"strings"
	"testing"
	"time"

	"sallyport/internal/platform/secretbox"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Codes are those of RFC 6238. The times and codes are of its appendix B, for SHA-1, cut to six digits.
func TestTOTPVectors(t *testing.T) {
	t.Parallel()
	secret := []byte("12345678901234567890")
	for seconds, code := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037",
		20000000000: "353130",
	} {
		require.Equal(t, code, totpCode(secret, totpStep(time.Unix(seconds, 0))), seconds)
	}
}

// A code holds for a phone that is a step ahead or behind, and for none that is two.
func TestTOTPSkew(t *testing.T) {
	t.Parallel()
	secret, now := newTOTPSecret(), time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)
	for n := int64(-3); n <= 3; n++ {
		step, ok := matchTOTP(secret, totpCode(secret, totpStep(now)+n), now, 0)
		require.Equal(t, n >= -1 && n <= 1, ok, n)
		if ok {
			require.Equal(t, totpStep(now)+n, step)
		}
	}
	_, ok := matchTOTP(secret, totpCode(secret, totpStep(now)), now, totpStep(now))
	require.False(t, ok, "its step was used")
	_, ok = matchTOTP(secret, "", now, 0)
	require.False(t, ok)
}

// People may type a code in groups, and a recovery code in either case and with letters that look like its
// digits.
func TestCodesAsTyped(t *testing.T) {
	t.Parallel()
	require.Equal(t, oneTimeCode{totp: "012345"}, parseCode(" 012 345 "))
	rapid.Check(t, func(t *rapid.T) {
		code := newRecoveryCode()
		typed := strings.ToUpper(showRecoveryCode(code).Reveal())
		if rapid.Bool().Draw(t, "letters") {
			typed = strings.NewReplacer("0", "O", "1", rapid.SampledFrom([]string{"i", "L"}).Draw(t, "one"), "-",
				" ").Replace(typed)
		}
		require.Equal(t, oneTimeCode{recovery: code}, parseCode(typed))
	})
	for _, typed := range []string{"", "12345", "1234567", "１２３４５６", "abcdef", strings.Repeat("u", recoveryCharacters),
		"0123-4567-89ab-cde"} {
		require.Equal(t, oneTimeCode{}, parseCode(typed), typed)
	}
}

// A token of the right form is read as what was written, and nothing else is.
func TestRefreshTokenForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := newRefreshToken().encode().Reveal()
		parsed, ok := parseRefreshToken(secretbox.Secret(text))
		require.True(t, ok)
		require.Equal(t, text, parsed.encode().Reveal())
		if other, ok := parseRefreshToken(secretbox.Secret(rapid.String().Draw(t, "text"))); ok {
			require.Len(t, other.family, familyBytes)
			require.Len(t, other.rotated, rotatedBytes)
		}
	})
}
