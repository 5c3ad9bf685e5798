package identityhttp_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity"
	"sallyport/internal/identity/identityhttp"
	"sallyport/internal/identity/setup"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// unset returns the API over a database that nobody has set up, with the token that opens it.
func unset(t *testing.T, store testkit.Store) (*server, setup.Token) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keyset.json")
	require.NoError(t, secretbox.Create(path))
	box, err := secretbox.Open(secretbox.Source{Path: path})
	require.NoError(t, err)
	s := &server{t: t, store: store}
	s.identity, err = identity.Open(t.Context(), identity.Config{DB: store.DB, Box: box, Clock: clock.System(),
		Issuer: "http://gateway.example.test"}, false)
	require.NoError(t, err)
	token, err := s.identity.Setup.Open(t.Context(), "")
	require.NoError(t, err)
	s.api = httpapi.New(httpapi.Config{Logger: slog.New(slog.DiscardHandler), Clock: clock.System(),
		Auth: s.identity.Principals})
	identityhttp.Mount(s.api, s.identity)
	ts := httptest.NewServer(s.api)
	await.Close(t, ts)
	s.url = ts.URL
	return s, token
}

// Whoever has the token sets the installation up with one request and signs in with the next; a wrong token, whatever
// is wrong with it, gets one text; all validation errors of a body come together; and afterwards the answer is 410.
func TestSetupOverHTTP(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, token := unset(t, store)
		post := func(with string, change map[string]any) reply {
			body := map[string]any{"token": with, "team_name": "Analytical Engines", "email": email, "password": password}
			for k, v := range change {
				body[k] = v
			}
			return s.do(http.MethodPost, "/team/setup", nil, body)
		}
		var texts []string
		for _, wrong := range []string{"x", token.Reveal() + "0", strings.ToUpper(token.Reveal()),
			"sps_00000000000000000000000000"} {
			r := post(wrong, nil)
			require.Equal(t, http.StatusUnauthorized, r.status, r.text)
			texts = append(texts, r.text)
		}
		for _, text := range texts {
			require.Equal(t, texts[0], text)
		}
		require.Equal(t, []string{"body.token", "body.team_name", "body.email", "body.password"},
			post(strings.Repeat("x", 257), map[string]any{"team_name": " ", "email": "ada", "password": "short"}).locations(t))
		require.Equal(t, []string{"body.password"},
			post(token.Reveal(), map[string]any{"password": strings.ToUpper(email)}).locations(t))
		r := post(token.Reveal(), nil)
		require.Equal(t, http.StatusCreated, r.status, r.text)
		require.Equal(t, httpapi.Prefix+"/team", r.header.Get("Location"))
		b := r.body(t)
		require.Len(t, b["environments"], 2)
		user, _ := b["user"].(map[string]any)
		require.Equal(t, email, user["email"])
		login := s.do(http.MethodPost, "/team/login", nil, map[string]any{"email": email, "password": password})
		require.Equal(t, http.StatusOK, login.status, login.text)
		for _, with := range []string{token.Reveal(), "x"} {
			r := post(with, nil)
			require.Equal(t, http.StatusGone, r.status, r.text)
			require.Equal(t, "setup_done", r.code(t))
		}
	})
}
