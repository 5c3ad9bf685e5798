package declared_test

import (
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/declared"
)

// problems returns the problems of a declaration as text.
func problems(tb testing.TB, text string) string {
	tb.Helper()
	list, rules, found := compile(tb, text)
	require.NotEmpty(tb, found, text)
	require.Nil(tb, list)
	require.Nil(tb, rules)
	lines := make([]string, len(found))
	for i, p := range found {
		require.NotEmpty(tb, p.Message)
		lines[i] = p.Field + ": " + p.Message
	}
	return strings.Join(lines, "\n")
}

// Every mistake is reported with its field. Each case of the file is a declaration and a part of what is
// reported; act: begins an action with a title.
func TestProblems(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/problems.txt")
	require.NoError(t, err)
	cases := strings.Split(strings.TrimSpace(string(text)), "\n\n")
	require.Greater(t, len(cases), 100)
	for _, c := range cases {
		given, want, found := strings.Cut(c, "\n=> ")
		require.True(t, found, c)
		lines := strings.Split(given, "\n")
		for i, line := range lines {
			if fields, short := strings.CutPrefix(line, "act: "); short {
				lines[i] = one(fields)
			}
		}
		require.Contains(t, problems(t, strings.Join(lines, "\n")), want, given)
	}
}

// Headers of credentials, of the message and of the gateway are no inputs, in any spelling.
func TestHeadersThatAreNoInputs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Authorization", "authorization", "Cookie", "API-Key", "X-Api-Key", "X-Auth-Token",
		"X-Acme-Key",
		"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "TE", "Upgrade", "Expect", "Keep-Alive",
		"Proxy-Authorization", "Proxy-Connection", "X-Forwarded-Host", "Via", "X-HTTP-Method-Override",
		"X-Sallyport-Timeout-Ms",
		"X-Original-URL"} {
		require.Contains(t, problems(t, one("method: GET, path: /a, input: {x: {in: header, name: "+name+", type: string}}")),
			"actions.inline.act.input.x: is a header that carries credentials", name)
	}
	good(t, one("method: GET, path: /a, input: {x: {in: header, name: If-Match, type: string}}"))
}

// Statements about risk that cannot be true together are refused: of an action, of a rule, and of both.
func TestContradictoryRisks(t *testing.T) {
	t.Parallel()
	const rule, act = "risk.rules[0]: contradicts itself", "actions.inline.act.risk: contradicts itself"
	for text, want := range map[string]string{
		one("method: POST, path: /a, risk: {operation: read, flags: [moves_money]}"): act,
		one("method: POST, path: /a, risk: {level: low, operation: delete}"):         act,
		one("method: DELETE, path: /a, risk: {level: low}"):                          act,
		"risk: {rules: [{match: {path: /a}, level: low, flags: [destructive]}]}":     rule,
		"risk: {rules: [{match: {path: /a}, flags: [runs_code]}]}\n" +
			one("method: POST, path: /a, risk: {operation: read}"): act,
	} {
		require.Contains(t, problems(t, text), want, text)
	}
	good(t, one("method: DELETE, path: /a, risk: {level: low, operation: update}"))
}

// A definition that makes no requests has no actions.
func TestWithoutRequests(t *testing.T) {
	t.Parallel()
	list, rules, found := declared.Compile(&declared.Declaration{Actions: &declared.Actions{},
		Risk: &declared.Risks{}}, nil)
	require.Nil(t, list)
	require.Nil(t, rules)
	require.Len(t, found, 2)
	_, _, found = declared.Compile(&declared.Declaration{}, nil)
	require.Empty(t, found)
}

// A small file cannot make schemas of any size, by schemas that refer to each other.
func TestSchemasAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("actions:\n  schemas:\n    a0: {type: string}\n")
	for i := 1; i < 40; i++ {
		n, before := string(rune('a'+i/10))+string(rune('0'+i%10)), string(rune('a'+(i-1)/10))+string(rune('0'+(i-1)%10))
		b.WriteString("    " + n + ": {type: object, properties: {x: {ref: " + before + "}, y: {ref: " + before + "}}}\n")
	}
	require.Contains(t, problems(t, b.String()+"  inline: {act: {title: A, method: GET, path: /a, output: {ref: d9}}}\n"),
		"actions.inline.act.output: has a schema of more than 64 KiB")
	choices := strings.NewReplacer("type: object, properties: {x: ", "anyOf: [", ", y: ", ", ", "}}}",
		"}]}").Replace(b.String())
	require.Contains(t, problems(t, choices+"  inline: {act: {title: A, method: GET, path: /a, input: {x: {ref: d9}}}}\n"),
		"actions.inline.act.input: has a schema of more than 64 KiB")
}

// For any declaration nothing panics, and the schemas of what is accepted are good for a validator that is not ours.
func FuzzCompile(f *testing.F) {
	f.Add(invoices)
	f.Add(one("method: GET, path: /a, input: {x: {in: header, type: object, style: each}}"))
	f.Add(one("method: POST, path: '/a/{x}', input: {x: {type: [string, integer], enum: [1, a, null]}, " +
		"y: {anyOf: [{}, {}]}}"))
	f.Add(issues)
	f.Add("pagination: {type: link, size: n}\nrisk: {rules: [{match: {path: /**}, level: low}]}\n")
	e := engine(f)
	f.Fuzz(func(t *testing.T, text string) {
		var d declared.Declaration
		if yaml.UnmarshalWithOptions([]byte(text), &d, yaml.Strict()) != nil {
			return
		}
		list, rules, found := declared.Compile(&d, e)
		if len(found) > 0 {
			if list != nil || rules != nil {
				t.Fatal("there are actions and problems")
			}
			return
		}
		for _, a := range list {
			schema(t, a.Input)
			if a.Output != nil {
				schema(t, a.Output)
			}
			if again := rules.Stated(a.Method, a.Path, a.Name); again != nil && a.Call.Definition == nil {
				t.Fatalf("%s has no statement, but a rule matches", a.Name)
			}
		}
	})
}
