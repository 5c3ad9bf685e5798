package e2e_test

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238's default
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// enrolTOTP gives the owner an authenticator app and returns its secret.
func (w *world) enrolTOTP() string {
	w.t.Helper()
	var e struct {
		Secret string `json:"secret"`
	}
	w.call(w.user(""), http.MethodPost, "/team/me/totp", object{"password": w.password}).want(w, http.StatusCreated).into(
		w, &e)
	return e.Secret
}

// totp is the code of an authenticator app, so many steps from now (RFC 6238).
func (w *world) totp(secret string, later int64) string {
	w.t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	require.NoError(w.t, err)
	m := hmac.New(sha1.New, key)
	require.NoError(w.t, binary.Write(m, binary.BigEndian, w.clk.Now().Unix()/30+later))
	sum := m.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff%1_000_000)
}

// Over the API a user enrols an authenticator app, signs in with its codes, each of which works once, comes
// back with a recovery code, and removes the app with another. Neither secret nor codes are in the log.
func TestAuthenticatorApp(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		secret := w.enrolTOTP()
		var made struct {
			RecoveryCodes []string `json:"recovery_codes"`
		}
		confirm := func(code string) response {
			return w.call(w.user(""), http.MethodPost, "/team/me/totp/confirm", object{"code": code})
		}
		require.Equal(w.t, []string{"body.code current"}, confirm("no-code-at-all").violations(w))
		confirmed := confirm(w.totp(secret, 0)).want(w, http.StatusOK)
		confirmed.into(w, &made)
		require.Equal(w.t, "no-store", confirmed.header.Get("Cache-Control"))
		require.Len(w.t, made.RecoveryCodes, 10)
		confirm(w.totp(secret, 1)).refused(w, http.StatusConflict, apperr.CodeTOTPActive)

		login := func(code string) response {
			body := object{"email": w.email, "password": w.password}
			if code != "" {
				body["totp"] = code
			}
			return w.call(anonymous, http.MethodPost, "/team/login", body)
		}
		login("").refused(w, http.StatusUnauthorized, apperr.CodeTOTPRequired)
		login(w.totp(secret, 0)).refused(w, http.StatusUnauthorized, apperr.CodeTOTPInvalid)
		w.call(anonymous, http.MethodPost, "/team/login", object{"email": w.email, "password": "not the password",
			"totp": w.totp(secret, 1)}).
			refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
		w.clk.Advance(30 * time.Second)
		var in struct {
			AccessToken string `json:"access_token"`
		}
		login(w.totp(secret, 0)).want(w, http.StatusOK).into(w, &in)
		login(w.totp(secret, 0)).refused(w, http.StatusUnauthorized, apperr.CodeTOTPInvalid)
		login(made.RecoveryCodes[0]).want(w, http.StatusOK)
		login(made.RecoveryCodes[0]).refused(w, http.StatusUnauthorized, apperr.CodeTOTPInvalid)
		var me struct {
			Session struct {
				Methods []string `json:"methods"`
			} `json:"session"`
		}
		w.call(byToken(in.AccessToken, ""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK).into(w, &me)
		require.Equal(w.t, []string{"pwd", "otp"}, me.Session.Methods)
		var state struct {
			State             string `json:"state"`
			RecoveryCodesLeft int    `json:"recovery_codes_left"`
		}
		w.call(byToken(in.AccessToken, ""), http.MethodGet, "/team/me/totp", nil).want(w, http.StatusOK).into(w, &state)
		require.Equal(w.t, "on", state.State)
		require.Equal(w.t, 9, state.RecoveryCodesLeft)

		remove := func(password, code string) response {
			return w.call(w.user(""), http.MethodPost, "/team/me/totp/remove", object{"password": password, "code": code})
		}
		require.Equal(w.t, []string{"body.password current"}, remove("not the password", w.totp(secret, 1)).violations(w))
		require.Equal(w.t, []string{"body.code current"}, remove(w.password, made.RecoveryCodes[0]).violations(w))
		remove(w.password, w.totp(secret, 1)).want(w, http.StatusNoContent)
		login("").want(w, http.StatusOK)
		for _, text := range append(made.RecoveryCodes, secret) {
			require.NotContains(w.t, w.logs.String(), text)
		}
	})
}
