package access_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
)

// A pattern matches as a regular expression does in which * is any characters but a slash.
func TestPatternsOfActions(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string][]string{
		"github/create_issue": {"github/create_issue"}, "github/*": {"github/a", "github/create_issue"},
		"*/delete_*": {"github/delete_file", "acme/delete_"}, "g*b/*_*": {"github/a_b", "gb/_"}, "*/*": {"a/b"},
	} {
		for _, name := range names {
			require.True(t, access.MatchAction(pattern, name), "%s %s", pattern, name)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		part := func(label string) string { return rapid.StringMatching(`[ab*]{0,5}`).Draw(t, label) }
		pattern := part("key") + "/" + part("action")
		name := rapid.StringMatching(`[ab]{0,5}/[ab]{0,5}`).Draw(t, "name")
		form := "^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[^/]*`) + "$"
		require.Equal(t, regexp.MustCompile(form).MatchString(name), access.MatchAction(pattern, name), "%s %s", pattern,
			name)
	})
}

// A key may make a call exactly if one of its grants permits it, by connection, action, method and risk, and none
// denies it. A call whose method and risk are not known is only measured by connection and action.
func TestGrantsOfCalls(t *testing.T) {
	t.Parallel()
	levels := append(access.RiskLevels(), "unknown")
	rank := map[string]int{"low": 0, "medium": 1, "high": 2, "unknown": 2, "critical": 3}
	rapid.Check(t, func(t *rapid.T) {
		var list []access.CallGrant
		for range rapid.IntRange(0, 4).Draw(t, "grants") {
			g := access.CallGrant{Deny: rapid.Bool().Draw(t, "deny"), Connections: drawBound(t, "connections"),
				Limits: &access.CallLimits{
					Actions: rapid.SliceOfN(rapid.SampledFrom([]string{"a/*", "*/x", "b/y"}), 0, 2).Draw(t, "actions"),
					Methods: rapid.SliceOfN(rapid.SampledFrom([]string{"GET", "POST"}), 0, 2).Draw(t, "methods"),
					MaxRisk: rapid.SampledFrom(append(access.RiskLevels(), "")).Draw(t, "risk")}}
			list = append(list, g)
		}
		key := access.Principal{Kind: access.KindAPIKey,
			Grants: access.NewGrants(nil).WithCalls(access.RouteActions, list)}
		call := access.Call{Action: rapid.SampledFrom([]string{"a/x", "a/y", "b/x", "b/y"}).Draw(t, "action"),
			Method: rapid.SampledFrom([]string{"GET", "POST", "PUT", ""}).Draw(t, "method"),
			Risk:   rapid.SampledFrom(append(levels, "")).Draw(t, "level")}
		connection := rapid.SampledFrom([]string{"a", "b", "e"}).Draw(t, "connection")
		allowed, denied := false, false
		for _, g := range list {
			l := g.Limits
			fits := g.Connections.Contains(connection) &&
				(len(l.Actions) == 0 || slices.ContainsFunc(l.Actions, func(p string) bool {
					return access.MatchAction(p, call.Action)
				})) && (len(l.Methods) == 0 || call.Method == "" || slices.Contains(l.Methods, call.Method)) &&
				(l.MaxRisk == "" || call.Risk == "" || rank[call.Risk] <= rank[l.MaxRisk])
			allowed, denied = allowed || fits && !g.Deny, denied || fits && g.Deny
		}
		require.Equal(t, allowed && !denied, key.RequireCall(access.RouteActions, connection, call) == nil)
		require.NoError(t, access.Principal{Kind: access.KindUser}.RequireCall(access.RouteActions, connection, call))
	})
	require.Error(t, access.Principal{Kind: access.KindAPIKey}.RequireCall(access.RouteActions, "a", access.Call{}))
}
