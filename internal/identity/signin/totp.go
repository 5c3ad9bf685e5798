package signin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6238's default; HMAC needs no hash whose collisions are hard to find
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/secretbox"
)

// Time-based one-time passwords (RFC 6238) in the one form that every authenticator app has: HMAC-SHA-1, six digits,
// steps of 30 seconds.
const (
	totpSecretBytes = 20 // RFC 4226, section 4, R6
	totpDigits      = 6
	totpModulus     = 1_000_000
	totpPeriod      = 30 * time.Second
	// totpSkew is by how many steps the clock of a phone may be off (RFC 6238, section 5.2).
	totpSkew = 1
)

// TOTPEnrolment is a new secret, for the user's authenticator app.
type TOTPEnrolment struct {
	// Secret is in base32, to be typed.
	Secret secretbox.Secret
	// URI is the secret as otpauth://, to be shown as a QR code.
	URI secretbox.Secret
}

func newTOTPSecret() []byte {
	b := make([]byte, totpSecretBytes)
	// crypto/rand.Read never returns an error; it ends the program when the system has no entropy.
	_, _ = rand.Read(b)
	return b
}

// enrolment returns the secret in the forms that apps read. They know an account by issuer and label, so the issuer
// names the installation.
func enrolment(secret []byte, issuer, email string) TOTPEnrolment {
	name := "Sallyport"
	if u, err := url.Parse(issuer); err == nil && u.Hostname() != "" {
		name += " " + u.Hostname()
	}
	name = strings.ReplaceAll(name, ":", " ") // of an IPv6 address; the label ends the issuer with one
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
	q := url.Values{"secret": {text}, "issuer": {name}, "algorithm": {"SHA1"}, "digits": {fmt.Sprint(totpDigits)},
		"period": {fmt.Sprint(int(totpPeriod.Seconds()))}}
	// Apps read + as it stands, not as a space.
	u := "otpauth://totp/" + url.PathEscape(name) + ":" + url.PathEscape(email) + "?" + strings.ReplaceAll(q.Encode(), "+",
		"%20")
	return TOTPEnrolment{Secret: secretbox.Secret(text), URI: secretbox.Secret(u)}
}

// totpStep is the number of the step that a time is in.
func totpStep(now time.Time) int64 { return now.Unix() / int64(totpPeriod.Seconds()) }

// totpCode is the code of a step (RFC 4226, section 5.3).
func totpCode(secret []byte, step int64) string {
	m := hmac.New(sha1.New, secret)
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step)) //nolint:gosec // steps since 1970 are not negative
	m.Write(counter[:])
	sum := m.Sum(nil)
	at := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%0*d", totpDigits, binary.BigEndian.Uint32(sum[at:])&0x7fffffff%totpModulus)
}

// matchTOTP returns the step whose code it is, among those near now and behind the one that was used last.
func matchTOTP(secret []byte, code string, now time.Time, used int64) (step int64, ok bool) {
	current := totpStep(now)
	for n := current + totpSkew; n >= current-totpSkew; n-- {
		if subtle.ConstantTimeCompare([]byte(totpCode(secret, n)), []byte(code)) == 1 && n > used {
			step, ok = n, true // goes on, so that the time does not show which it was
		}
	}
	return step, ok
}

// Recovery codes stand in for an authenticator app that was lost. Each works once.
const (
	recoveryCodes      = 10
	recoveryBytes      = 10 // 80 bits: no guess, however many attempts
	recoveryCharacters = recoveryBytes * 8 / 5
	recoveryGroup      = 4
	// recoveryAlphabet is Crockford's, which has no letters that look like digits.
	recoveryAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"
)

// newRecoveryCode returns a code without its dashes.
func newRecoveryCode() string {
	b := make([]byte, recoveryBytes)
	_, _ = rand.Read(b) // as above
	return base32.NewEncoding(recoveryAlphabet).EncodeToString(b)
}

// showRecoveryCode sets dashes between groups of characters.
func showRecoveryCode(code string) secretbox.Secret {
	var groups []string
	for ; code != ""; code = code[recoveryGroup:] {
		groups = append(groups, code[:recoveryGroup])
	}
	return secretbox.Secret(strings.Join(groups, "-"))
}

// oneTimeCode is a code as a user typed it: of the app, a recovery code, or neither.
type oneTimeCode struct{ totp, recovery string }

func parseCode(typed string) oneTimeCode {
	code := strings.NewReplacer(" ", "", "-", "").Replace(strings.ToLower(typed))
	digits := func(r rune) bool { return r >= '0' && r <= '9' }
	if len(code) == totpDigits && strings.TrimFunc(code, digits) == "" {
		return oneTimeCode{totp: code}
	}
	code = strings.NewReplacer("o", "0", "i", "1", "l", "1").Replace(code)
	if len(code) == recoveryCharacters && strings.Trim(code, recoveryAlphabet) == "" {
		return oneTimeCode{recovery: code}
	}
	return oneTimeCode{}
}

func recoveryMAC(pepper installation.Pepper, user, code string) []byte {
	return pepper.MAC("recovery code", []byte(user+"\x00"+code))
}
