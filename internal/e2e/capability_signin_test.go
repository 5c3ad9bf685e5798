package e2e_test

import (
	"net/http"

	"github.com/stretchr/testify/require"
)

type signInFixtures struct {
	// session is the owner's, and not the one that asks.
	session string
	// totp is the secret of the owner's authenticator app, which waits for its first code.
	totp string
}

// SignIn covers sessions, passwords and authenticator apps.
func (capabilities) SignIn() capability {
	return capability{
		create: func(w *world, _ credentials, f fixtures) {
			w.t.Helper()
			user := w.user("") // signed in before
			w.login(w.email, w.password)
			var sessions []struct {
				ID      string `json:"id"`
				Current bool   `json:"current"`
			}
			w.call(user, http.MethodGet, "/team/sessions", nil).want(w, http.StatusOK).into(w, &sessions)
			require.False(w.t, sessions[0].Current)
			f.put(signInFixtures{session: sessions[0].ID, totp: w.enrolTOTP()})
		},
		samples: func(w *world, f fixtures) []sample {
			w.t.Helper()
			own := part[signInFixtures](f)
			const newPassword = "staple battery horse"
			return []sample{
				{id: "request-password-reset", body: object{"email": w.email}, status: http.StatusConflict,
					unrecorded: "there is no mail server"},
				{id: "complete-password-reset", body: object{"token": "spr_00000000000000000000000000",
					"password": newPassword}, status: http.StatusUnauthorized, unrecorded: "the sample's token is nobody's"},
				{id: "login", body: object{"email": w.email, "password": w.password}, status: http.StatusOK},
				{id: "refresh-token", status: http.StatusOK, unrecorded: "a session goes on",
					cookie: func() string { return w.signIn(w.email, w.password).cookie(w) }},
				{id: "list-sessions", status: http.StatusOK},
				{id: "end-session", path: map[string]string{"id": own.session}, status: http.StatusNoContent},
				{id: "get-me", status: http.StatusOK},
				{id: "confirm-totp", body: object{"code": w.totp(own.totp, 0)}, status: http.StatusOK},
				{id: "get-totp", status: http.StatusOK},
				{id: "remove-totp", body: object{"password": w.password, "code": w.totp(own.totp, 1)},
					status: http.StatusNoContent},
				{id: "enrol-totp", body: object{"password": w.password}, status: http.StatusCreated},
				{id: "change-password", body: object{"current_password": w.password, "new_password": newPassword},
					status: http.StatusNoContent, stage: leaves},
				{id: "logout", status: http.StatusNoContent, stage: leaves},
			}
		},
		lists: map[string]map[string]string{"list-sessions": {}},
	}
}
