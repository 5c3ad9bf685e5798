package team_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/apperr"
)

// Browsers are sent back to addresses that people can trust: those that could be read in two ways, or that have no
// encryption on the network, are refused, and nothing of the change is stored. Another environment has its own.
func TestRedirectURLs(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		env := p.Environments[0].ID
		good := []string{"https://app.example.com/done?tab=1", "http://localhost:3000/", "http://127.0.0.1/",
			"http://[::1]:1/x"}
		e, err := f.Team.UpdateEnvironment(t.Context(), actor, env, team.EnvironmentChange{RedirectURLs: &good})
		require.NoError(t, err)
		require.Equal(t, good, e.RedirectURLs)
		bad := []string{"http://app.example.com/", "https://user@app.example.com/", "https://app.example.com/#",
			"https://*.example.com/", "//app.example.com/", "javascript:alert(1)", "https:app.example.com", "https://",
			"https://app.example.com/\\x", "https://app.example.com/ ", "https://äpp.example.com/", "",
			"https://app.example.com/" + strings.Repeat("x", 2048), "https://app.example.com/a", "https://app.example.com/a"}
		_, err = f.Team.UpdateEnvironment(t.Context(), actor, env, team.EnvironmentChange{RedirectURLs: &bad})
		var refused *apperr.Error
		require.ErrorAs(t, err, &refused)
		require.Len(t, refused.Details, len(bad)-1, "all but the first of two equal ones: %v", refused.Details)
		many := make([]string, 21)
		for i := range many {
			many[i] = "https://app.example.com/" + strings.Repeat("x", i)
		}
		_, err = f.Team.UpdateEnvironment(t.Context(), actor, env, team.EnvironmentChange{RedirectURLs: &many})
		require.True(t, apperr.Is(err, apperr.CodeValidation))
		stored, err := f.Team.RedirectURLs(t.Context(), env)
		require.NoError(t, err)
		require.Equal(t, good, stored)
		other, err := f.Team.RedirectURLs(t.Context(), p.Environments[1].ID)
		require.NoError(t, err)
		require.Empty(t, other)
	})
}
