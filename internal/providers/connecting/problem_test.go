package connecting

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/providers/oauth"
)

// Errors that the operator or time can end have words and a code. All others are the service's own.
func TestProblemsHaveWords(t *testing.T) {
	t.Parallel()
	o := &opened{link: link{redirectURL: "https://app.example.com/done", connectionID: "c", providerConfigKey: "acme"}}
	for code, want := range map[apperr.Code][2]string{
		apperr.CodeProviderNotConfigured: {codeMisconfigured, wordsSettings},
		apperr.CodeRateLimited: {codeUnavailable,
			"There were too many attempts with this provider. Wait a minute, and try again."},
		apperr.CodeInvalidCredentials: {codeCredentials, "A message."},
	} {
		p := o.problem(apperr.New(code, "A message"))
		require.NotNil(t, p, code)
		require.Equal(t, want, [2]string{p.Code, p.Words})
		require.Equal(t, "https://app.example.com/done?connection_id=c&error="+want[0]+"&provider=acme&status=failed", p.Back)
	}
	require.Nil(t, o.problem(errors.New("the database is down")))

	// An operator checks in different places what the provider refuses and what was never sent to it.
	require.Equal(t, wordsClient, o.problem(&oauth.TokenError{Kind: oauth.Misconfigured, Status: 400}).Words)
	require.Equal(t, wordsSettings, o.problem(&oauth.TokenError{Kind: oauth.Misconfigured}).Words)
}
