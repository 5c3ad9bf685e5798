package tokens_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
)

// The name of a key reaches the token endpoint as kid (RFC 7515, section 4.1.4), with which servers choose among the
// keys of a client: that of a provider configuration with every request of its client, and that of a connection with
// what it signs. Without a name there is no kid.
func TestKeyIDs(t *testing.T) {
	t.Parallel()
	var form url.Values
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		form = r.Form
		_, _ = rw.Write([]byte(`{"access_token":"granted","expires_in":3600}`))
	})
	kid := func(param string) any {
		header, _, found := strings.Cut(form.Get(param), ".")
		require.True(t, found, form)
		text, err := base64.RawURLEncoding.DecodeString(header)
		require.NoError(t, err)
		var of map[string]any
		require.NoError(t, json.Unmarshal(text, &of))
		require.Equal(t, "RS256", of["alg"])
		return of["kid"]
	}
	_, err := w.protocol.Exchange(t.Context(), w.source("keyed", nil),
		oauth.Code{Code: "code", RedirectURI: "https://a.example"})
	require.NoError(t, err)
	require.Equal(t, "of-the-config", kid("client_assertion"))
	require.Empty(t, form.Get("client_secret"))
	_, err = w.protocol.Refresh(t.Context(), w.source("keyed", refreshable()))
	require.NoError(t, err)
	require.Equal(t, "of-the-config", kid("client_assertion"))
	for mode, param := range map[string]string{"keyed_own": "client_assertion", "named": "assertion"} {
		values := map[string]secretbox.Secret{"client_id": "own", "key": secretbox.Secret(rsaKey),
			"key_id": "of-the-connection"}
		_, err = w.protocol.Mint(t.Context(), w.source(mode, values), nil)
		require.NoError(t, err)
		require.Equal(t, "of-the-connection", kid(param), mode)
		delete(values, "key_id")
		_, err = w.protocol.Mint(t.Context(), w.source(mode, values), nil)
		require.NoError(t, err)
		require.Nil(t, kid(param), mode)
	}
}
