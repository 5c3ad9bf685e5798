package connectionshttp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
)

const secrets = item + "/webhook-secrets"

// Webhook secrets are listed, added and deleted one by one, and none is ever returned.
func TestSecretsLife(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, st testkit.Store) {
		t.Helper()
		s := newServer(t, st)
		require.Equal(t, http.StatusCreated, s.do(s.a, http.MethodPost, collection,
			`{"provider":"standard-webhooks","connection_id":"acme"}`).status)
		require.JSONEq(t, `[]`, s.do(s.a, http.MethodGet, secrets, "").text)

		made := s.do(s.a, http.MethodPost, secrets, `{"secret":"`+secret+`","label":"spring"}`)
		require.Equal(t, http.StatusCreated, made.status, made.text)
		v := made.json(t)
		secretID, _ := v["id"].(string)
		require.True(t, id.Is(id.PrefixSecret, secretID))
		require.Equal(t, secrets+"/"+secretID, made.header.Get("Location"))
		require.JSONEq(t, `{"id":"`+secretID+
			`","label":"spring","hint":"LaSw","created_at":"2026-03-04T05:06:07.008Z","last_matched_at":null}`, made.text)
		require.JSONEq(t, "["+made.text+"]", s.do(s.a, http.MethodGet, secrets, "").text)

		require.Equal(t, http.StatusNotFound, s.do(s.b, http.MethodGet, secrets, "").status)
		require.Equal(t, http.StatusNotFound, s.do(s.b, http.MethodDelete, secrets+"/"+secretID, "").status)
		require.Equal(t, http.StatusNoContent, s.do(s.a, http.MethodDelete, secrets+"/"+secretID, "").status)
		require.Equal(t, http.StatusNotFound, s.do(s.a, http.MethodDelete, secrets+"/"+secretID, "").status)
		require.Equal(t, http.StatusNotFound, s.do(s.a, http.MethodDelete, secrets+"/x", "").status)
	})
}

// A validation error of a secret names its place, and nothing is stored.
func TestSecretViolations(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, st testkit.Store) {
		t.Helper()
		s := newServer(t, st)
		require.Equal(t, http.StatusCreated, s.do(s.a, http.MethodPost, collection,
			`{"provider":"standard-webhooks","connection_id":"acme"}`).status)
		for body, location := range map[string]string{
			`{}`:                                    "body.secret",
			`{"secret":""}`:                         "body.secret",
			`{"secret":"whsec_not base64"}`:         "body.secret",
			`{"secret":7}`:                          "body.secret",
			`{"secret":"` + secret + `","value":1}`: "body.value",
			`{"secret":"` + secret + `","label":"` + strings.Repeat("l", 256) + `"}`: "body.label",
		} {
			a := s.do(s.a, http.MethodPost, secrets, body)
			require.Equal(t, http.StatusUnprocessableEntity, a.status, body)
			var v struct {
				Error struct {
					Details []struct {
						Location string `json:"location"`
					} `json:"details"`
				} `json:"error"`
			}
			require.NoError(t, json.Unmarshal([]byte(a.text), &v))
			require.NotEmpty(t, v.Error.Details, a.text)
			require.Equal(t, location, v.Error.Details[0].Location, a.text)
		}
		require.JSONEq(t, `[]`, s.do(s.a, http.MethodGet, secrets, "").text)
		require.Equal(t, http.StatusNotFound, s.do(s.a, http.MethodPost, collection+"/github/acme/webhook-secrets",
			`{"secret":"0123456789"}`).status)
	})
}
