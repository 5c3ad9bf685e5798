package documents_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/documents"
)

// A document of the Discovery format names scopes, and Google's endpoints follow from its host: tokens of Google go to
// no other.
func TestDraftOfDiscovery(t *testing.T) {
	t.Parallel()
	const members = `"kind":"discovery#restDescription","servicePath":"drive/v3/",
		"documentationLink":"https://docs.acme.com/",
		"parameters":{"key":{"type":"string","location":"query"}},
		"auth":{"oauth2":{"scopes":{"https://www.googleapis.com/auth/drive":{"description":"See your files."}}}}}`
	got, err := documents.DraftOf([]byte(`{"rootUrl":"https://www.googleapis.com/",`+members),
		documents.DraftOptions{Slug: "acme", DisplayName: "Acme API"})
	require.NoError(t, err)
	accepted(t, got)
	require.Equal(t, head+`base_url: https://www.googleapis.com/drive/v3
allowed_hosts: [www.googleapis.com, accounts.google.com, oauth2.googleapis.com]
auth:
  - mode: oauth2
    authorize_url: https://accounts.google.com/o/oauth2/v2/auth
    token_url: https://oauth2.googleapis.com/token
    revoke_url: https://oauth2.googleapis.com/revoke
    authorize_params:
      access_type: offline
      prompt: consent
  - mode: service_account
    token_url: https://oauth2.googleapis.com/token
  - mode: api_key
    request:
      query:
        key: ${cred.api_key}
scopes:
  https://www.googleapis.com/auth/drive: See your files
`, string(got.Definition))

	got, err = documents.DraftOf([]byte(`{"rootUrl":"https://api.googleapis.com.acme.com/",`+members),
		documents.DraftOptions{Slug: "acme"})
	require.NoError(t, err)
	accepted(t, got)
	require.Equal(t, []string{"bearer", "api_key"}, got.AuthModes)
	require.Equal(t, []string{"api.googleapis.com.acme.com"}, got.Hosts)
	require.Empty(t, got.TokenEndpoints)
	require.Len(t, got.Notes, 1)
}

// A format that says nothing of servers and security gets the usual modes, and each connection names its URL.
func TestDraftOfOtherFormats(t *testing.T) {
	t.Parallel()
	got, err := documents.DraftOf([]byte(`{"__schema":{}}`), documents.DraftOptions{Slug: "acme",
		BaseURL: "https://api.acme.com/graphql"})
	require.NoError(t, err)
	accepted(t, got)
	require.Equal(t, []string{"bearer", "api_key", "basic", "none"}, got.AuthModes)
	got, err = documents.DraftOf([]byte(`{"__schema":{}}`), documents.DraftOptions{Slug: "acme"})
	require.NoError(t, err)
	accepted(t, got)
	require.Equal(t, []string{"${config.base_url}"}, got.Hosts)
}
