package actions_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
)

// The beginning of a description is on one line, ends with a word, and is short.
func TestShorten(t *testing.T) {
	t.Parallel()
	require.Empty(t, actions.Shorten(" \n "))
	require.Equal(t, "One line of two.", actions.Shorten("One line\n\tof  two."))
	long := actions.Shorten(strings.Repeat("word ", 100))
	require.LessOrEqual(t, len(long), 160)
	require.True(t, strings.HasSuffix(long, "word…"), long)
	require.Empty(t, actions.Shorten(strings.Repeat("x", 200)))
}

// Actions are chosen by name, by tag, or by method and path.
func TestIsChosen(t *testing.T) {
	t.Parallel()
	of := actions.Subject{Name: "get_invoice", Method: "GET", Path: "/v1/invoices/{invoice}/lines.json",
		Tags: []string{"Billing", "Invoices & more"}}
	for choice, want := range map[string]bool{
		"get_*": true, "list_*": false, "*": true,
		"tag:billing": true, "tag:BILLING": true, "tag:bill": false, "tag:bill*": true, "tag:*&*": true, "tag:x*": false,
		"GET /v1/invoices/{id}/lines.json": true, "GET /v1/invoices/{}/lines.json": true,
		"POST /v1/invoices/{id}/lines.json": false, "* /v1/invoices/**": true, "GET /v1/invoices/*/lines.*": true,
		"GET /v1/invoices/*": false, "GET /v1/*": false, "GET /**": true, "GET /**/lines.json": true,
		"GET /**/invoices/**/lines.json": true, "GET /v1/**/{id}/**/lines.json/**": true, "GET /v1/**/x": false,
		"GET /v1/invoices": false, "GET /v1/invoices/{id}/lines": false, "GET /V1/**": false, "GET /": false,
		"GET /v1/inv/**": false, "GET /v1/inv*/**": true, "GET /**/**/lines.json": true,
		"GET /v1/invoices/x/lines.json": false,
	} {
		require.Empty(t, actions.CheckChoice(choice), choice)
		require.Equal(t, want, actions.IsChosen([]string{"no", choice}, nil, of), choice)
		require.Equal(t, !want, actions.IsChosen(nil, []string{choice}, of), choice)
	}
	require.True(t, actions.IsChosen(nil, nil, of))
	require.False(t, actions.IsChosen([]string{"get_*"}, []string{"tag:billing"}, of), "what is excluded stays out")
	require.True(t, actions.IsChosen([]string{"GET /v1/a/**"}, nil, actions.Subject{Method: "GET", Path: "/v1/a"}))
	for _, base := range []string{"", "/"} { // an action at the base URL itself
		require.True(t, actions.IsChosen([]string{"POST /"}, nil, actions.Subject{Method: "POST", Path: base}))
		require.True(t, actions.IsChosen([]string{"POST /**"}, nil, actions.Subject{Method: "POST", Path: base}))
	}
	for choice, want := range map[string]string{
		"": "must not be empty; must be a pattern of names", "Get": "must be a pattern of names of actions",
		"get-x": "must be a pattern of names of actions", "tag:": "must have a tag directly after tag:",
		"tag: x": "must have a tag directly after tag:", "tag:a\nb": "must be text without control characters",
		"/v1":     "must have a method before the path, or * for any, such as * /v1/invoices/**",
		"get /v1": "must begin with a method in capitals", "TRACE /v1": "must begin with a method in capitals",
		"GET v1": "must have a path that begins with /", "GET  /v1": "must have a path that begins with /",
		"GET /a b": "must have a path without blanks", "GET /a**": "must have ** as a whole segment",
		"GET /{a": "must close each brace", "GET /{{a}}": "must close each brace", "GET /a}": "must close each brace",
		"GET /" + strings.Repeat("a", 300): "must be at most 300 bytes", "GET /\xff": "must be text without",
	} {
		require.Contains(t, actions.CheckChoice(choice), want, choice)
	}
}

// A pattern of paths takes time that grows with its length, not with the ways in which it could match.
func FuzzChoice(f *testing.F) {
	f.Add("GET /"+strings.Repeat("**/a/", 50), "/"+strings.Repeat("a/", 500))
	f.Add("tag:*a*a*a*b", strings.Repeat("a", 5000))
	f.Add("* /{x}/**", "/{y/{")
	f.Fuzz(func(_ *testing.T, choice, path string) {
		if actions.CheckChoice(choice) == "" {
			actions.IsChosen([]string{choice}, nil, actions.Subject{Name: path, Method: "GET", Path: path, Tags: []string{path}})
		}
	})
}

// Patterns choose actions by their whole names.
func TestMatchName(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string][]string{"get_a": {"get_a"}, "get_*": {"get_", "get_a_b"}, "*": {"", "x"},
		"*_a": {"_a", "get_a"}, "g*t_*_b": {"get_x_b", "gt__b"}} {
		for _, name := range names {
			require.True(t, actions.MatchName(pattern, name), "%s %s", pattern, name)
		}
	}
	for pattern, name := range map[string]string{"get_a": "get_ab", "get_*": "xget_a", "*_a": "_ab", "a*a": "a", "": "a"} {
		require.False(t, actions.MatchName(pattern, name), "%s %s", pattern, name)
	}
}
