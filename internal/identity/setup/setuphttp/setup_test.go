package setuphttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/testkit"
)

const (
	email    = identitytest.Email
	password = string(identitytest.Password)
)

// The holder of the token sets the installation up with one request and signs in with the next. Every wrong token gets
// one textfor any reason. All validation errors of a body are in one response. Afterwards the status is 410.
func TestSetupOverHTTP(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := identitytest.New(t, store, false).Serve(t)
		token, err := s.Setup.Open(t.Context(), "")
		require.NoError(t, err)
		post := func(with string, change map[string]any) identitytest.Response {
			body := map[string]any{"token": with, "team_name": "Analytical Engines", "email": email, "password": password}
			for k, v := range change {
				body[k] = v
			}
			return s.Do(http.MethodPost, "/team/setup", nil, body)
		}
		var texts []string
		for _, wrong := range []string{"x", token.Reveal() + "0", strings.ToUpper(token.Reveal()),
			"sps_00000000000000000000000000"} {
			r := post(wrong, nil)
			require.Equal(t, http.StatusUnauthorized, r.Status, r.Text)
			texts = append(texts, r.Text)
		}
		for _, text := range texts {
			require.Equal(t, texts[0], text)
		}
		require.Equal(t, []string{"body.token", "body.team_name", "body.email", "body.password"},
			post(strings.Repeat("x", 257), map[string]any{"team_name": " ", "email": "ada", "password": "short"}).Locations(t))
		require.Equal(t, []string{"body.password"},
			post(token.Reveal(), map[string]any{"password": strings.ToUpper(email)}).Locations(t))
		r := post(token.Reveal(), nil)
		require.Equal(t, http.StatusCreated, r.Status, r.Text)
		require.Equal(t, httpapi.Prefix+"/team", r.Header.Get("Location"))
		b := r.Object(t)
		require.Len(t, b["environments"], 2)
		user, _ := b["user"].(map[string]any)
		require.Equal(t, email, user["email"])
		login := s.Do(http.MethodPost, "/team/login", nil, map[string]any{"email": email, "password": password})
		require.Equal(t, http.StatusOK, login.Status, login.Text)
		for _, with := range []string{token.Reveal(), "x"} {
			r := post(with, nil)
			require.Equal(t, http.StatusGone, r.Status, r.Text)
			require.Equal(t, "setup_done", r.Code(t))
		}
	})
}
