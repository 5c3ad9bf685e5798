package registry_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/registry"
)

// lint returns the problems of a definition with one action, and the line that each is at.
func lint(t *testing.T, action string, o registry.LintOptions) []string {
	t.Helper()
	text := minimal + "base_url: https://api.acme.example\nallowed_hosts: [api.acme.example]\n" +
		"auth: [{mode: bearer, docs_url: https://acme.example/docs}]\n" +
		"actions:\n  inline:\n    " + action + "\n"
	checked, problems, err := registry.Lint(folder("acme.yaml", text), o)
	require.NoError(t, err)
	require.Equal(t, 1, checked)
	var out []string
	for _, p := range problems {
		require.Equal(t, "acme.yaml", p.File)
		require.Equal(t, strings.Count(text, "\n"), p.Line, p.String())
		out = append(out, p.Field+": "+p.Message)
	}
	return out
}

// own are options for an operator's definition.
func own(t *testing.T) registry.LintOptions {
	t.Helper()
	builtin, err := registry.Builtin()
	require.NoError(t, err)
	return registry.LintOptions{Builtin: builtin}
}

// A definition that can be loaded is read as a reviewer does: risks that method and words contradict, risks that are
// lowered without a reason, and inputs that no one explains.
func TestLintReviews(t *testing.T) {
	t.Parallel()
	const at = "actions.inline."
	for action, want := range map[string]string{
		"act: {title: Act, method: DELETE, path: /a, risk: {operation: read}}":                 at + "act.risk.operation: is read, and DELETE makes a change; say in risk.reason",
		"act: {title: Act, method: PUT, path: /a, risk: {operation: read}}":                    at + "act.risk.operation: is read, and PUT makes a change; say",
		"act: {title: Act, method: GET, path: /a, risk: {operation: update}}":                  at + "act.risk.operation: is update, and GET only reads; say",
		"delete_a: {title: Delete it, method: POST, path: /a/delete, risk: {operation: read}}": at + "delete_a.risk.operation: is read, and the words of the call delete; say",
		"create_a: {title: Make it, method: POST, path: /a, risk: {operation: read}}":          at + "create_a.risk.operation: is read, and the name of the action says that it makes a change; say",
		"list_a: {title: List them, method: POST, path: /a/list, risk: {operation: create}}":   at + "list_a.risk.operation: is create, and the name of the action says that it reads; say",
		"delete_a: {title: Delete it, method: DELETE, path: /a, risk: {level: medium}}":        at + "delete_a.risk: is medium, and without it the call is judged high (",
		"create_refund: {title: Refund, method: POST, path: /refunds, risk: {level: high}}":    at + "create_refund.risk: is high, and without it the call is judged critical (",
		"act: {title: Act, method: GET, path: '/a/{id}', input: {id: {type: string}}}":         at + "act.input.id: has no description",
	} {
		found := lint(t, action, own(t))
		require.Len(t, found, 1, action)
		require.True(t, strings.HasPrefix(found[0], want), "%s\n%s", found[0], want)
	}
	for _, action := range []string{
		"act: {title: Act, method: PUT, path: /a, risk: {operation: read, reason: It searches.}}",
		"act: {title: Act, method: GET, path: /a, risk: {operation: update, reason: It marks the message as read.}}",
		"search_a: {title: Search, method: POST, path: /a/search, risk: {operation: read}}",
		"delete_a: {title: Delete it, method: DELETE, path: /a, risk: {level: medium, reason: It can be restored.}}",
		"create_refund: {title: Refund, method: POST, path: /refunds, risk: {level: critical}}",
		"delete_a: {title: Delete it, method: DELETE, path: /a}",
	} {
		require.Empty(t, lint(t, action, own(t)), action)
	}
}

// A built-in definition needs more: the provider's page, a group, and a risk that people have judged.
func TestLintReviewsWhatShips(t *testing.T) {
	t.Parallel()
	found := strings.Join(lint(t, "act: {title: Act, method: POST, path: /a}", registry.LintOptions{}), "\n")
	require.Contains(t, found, "actions.inline.act.docs_url: must name the provider's page about the action")
	require.Contains(t, found, "actions.inline.act.tags: must group the action")
	require.Contains(t, found, "actions.inline.act.risk: must state the risk of a call that may change something")
	require.Empty(t, lint(t, "act: {title: Act, method: POST, path: /a, tags: [things], docs_url: \"https://acme.example/a\", "+
		"risk: {operation: create}}", registry.LintOptions{}))
}

// A comparison with something else is asked about good ones only, and its findings have their lines.
func TestLintCompares(t *testing.T) {
	t.Parallel()
	asked := 0
	o := own(t)
	text := strings.TrimSuffix(everyAction, "\n")
	line := func(part string) int { return strings.Count(text[:strings.Index(text, part)], "\n") + 1 }
	o.Compare = func(*registry.Provider) []registry.Finding {
		asked++
		return []registry.Finding{{Field: "actions.inline.list_things.input.page.type", Message: "differs"},
			{Field: "actions.inline.list_things.input.gone", Message: "is gone"}}
	}
	_, problems, err := registry.Lint(folder("acme.yaml", text), o)
	require.NoError(t, err)
	require.Equal(t, 1, asked)
	lines := map[string]int{}
	for _, p := range problems {
		lines[p.Field] = p.Line
	}
	require.Equal(t, line("        page:\n          type: integer")+1, lines["actions.inline.list_things.input.page.type"])
	require.Equal(t, line("      input:\n        page:"), lines["actions.inline.list_things.input.gone"], "the nearest line")
	_, problems, err = registry.Lint(folder("acme.yaml", strings.Replace(text, "  style: deep", "  style: dep", 1)), o)
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Equal(t, 1, asked)
}
