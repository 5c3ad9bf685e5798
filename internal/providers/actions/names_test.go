package actions_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/actions"
)

// Names are words that people recognise.
func TestNames(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"issues/create":                  "issues_create",
		"PostPaymentIntentsIntentCancel": "post_payment_intents_intent_cancel",
		"chat_postMessage":               "chat_post_message",
		"calendar.events.insert":         "calendar_events_insert",
		"listHTTPRoutes":                 "list_http_routes",
		"getOAuth2Token":                 "get_oauth2_token",
		"v2.users-list ":                 "v2_users_list",
		"2fa.enable":                     "post_2fa_enable",
		"":                               "post_a_by_b_c",
		"創建":                             "post_a_by_b_c",
		"../../etc/passwd":               "etc_passwd",
	} {
		require.Equal(t, want, actions.Name(id, "POST", "/a/{b}/c"), id)
	}
	long := actions.Name("organizations_security_campaigns_list_alerts_for_enterprise_owner", "GET", "/x")
	require.Regexp(t, `^organizations_security_campaigns_list_[0-9a-f]{6}$`, long)
	require.NotEqual(t, long,
		actions.Name("organizations_security_campaigns_list_alerts_for_enterprise_owner", "GET", "/y"))
	require.Equal(t, "github__issues_create", actions.ToolName("github", "issues_create", "POST", "/x"))
	require.Regexp(t, `^my_provider__`, actions.ToolName("my-provider", strings.Repeat("a_", 24)[:47], "POST", "/x"))
}

// Every name has its form, for any id, method and path of an operation.
func TestNamesHaveTheirForm(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)
	rapid.Check(t, func(rt *rapid.T) {
		method := rapid.SampledFrom([]string{"GET", "POST", "PATCH"}).Draw(rt, "method")
		path := "/" + rapid.String().Draw(rt, "path")
		name := actions.Name(rapid.String().Draw(rt, "id"), method, path)
		require.Regexp(rt, form, name)
		require.Regexp(rt, form, actions.Distinct(name, method, path))
		require.Regexp(rt, form, actions.ToolName("a-provider", name, method, path))
	})
}
