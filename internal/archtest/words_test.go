package archtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// contributing is a page with a glossary: words to look for, advice without any, and text after the table.
const contributing = "# Contributing\n\n" + glossaryHeader +
	"| response | `answer` `answers` | from a server |\n" +
	"| permanently | `for good` | |\n" +
	"| signature | code | |\n" +
	"\n| `not` | `in the glossary` | |\n"

func findWords(t *testing.T, path, text string) []string {
	t.Helper()
	terms, err := Glossary(contributing)
	require.NoError(t, err)
	findings, err := Words([]File{{Path: path, Text: text}}, terms)
	require.NoError(t, err)
	var lines []string
	for _, f := range findings {
		lines = append(lines, f.String())
	}
	return lines
}

// The glossary that people read is the one that the check enforces.
func TestGlossaryReadsTheTable(t *testing.T) {
	t.Parallel()
	terms, err := Glossary(contributing)
	require.NoError(t, err)
	require.Equal(t, []Term{
		{Say: "response", Not: []string{"answer", "answers"}},
		{Say: "permanently", Not: []string{"for good"}},
		{Say: "signature"},
	}, terms)
	_, err = Glossary("# Contributing\n")
	require.Error(t, err)
}

// Every kind of text that people read is checked, and the finding names the line.
func TestWordsFindsEachKindOfText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, text, want string }{
		"package comment": {"p/a.go", "// Package p answers.\npackage p\n", `p/a.go:1: say response, not "answers"`},
		"exported function": {"p/a.go", "package p\n\n// F is an\n// answer.\nfunc F() {}\n",
			`p/a.go:4: say response, not "answer"`},
		"exported method": {"p/a.go", "package p\n\ntype T struct{}\n\n// F answers.\nfunc (*T) F() {}\n",
			`p/a.go:5: say response, not "answers"`},
		"field of an exported type": {"p/a.go", "package p\n\ntype T struct {\n\tA int // the answer\n}\n",
			`p/a.go:4: say response, not "answer"`},
		"method of an exported interface": {"p/a.go", "package p\n\ntype T interface {\n\t// F answers.\n\tF()\n}\n",
			`p/a.go:4: say response, not "answers"`},
		"exported constant in a group": {"p/a.go", "package p\n\nconst (\n\tA = 1 // the answer\n)\n",
			`p/a.go:4: say response, not "answer"`},
		"private function": {"p/a.go", "package p\n\n// f answers.\nfunc f() {}\n",
			`p/a.go:3: say response, not "answers"`},
		"comment in a body": {"p/a.go", "package p\n\nfunc f() {\n\tg() // the answer\n}\n",
			`p/a.go:4: say response, not "answer"`},
		"test": {"p/a_test.go", "package p\n\n// What is sent is stored.\nfunc TestA() {}\n",
			`p/a_test.go:3: name the subject: a sentence does not begin with "What"`},
		"error message": {"p/a.go", "package p\n\nvar err = errors.New(\"no answer came\")\n",
			`p/a.go:3: say response, not "answer"`},
		"phrase over two literals": {"p/a.go", "package p\n\nvar s = \"it ended for \" +\n\t\"good\"\n",
			`p/a.go:3: say permanently, not "for good"`},
		"phrase over two lines": {"p/a.go", "// Package p ends for\n// good.\npackage p\n",
			`p/a.go:1: say permanently, not "for good"`},
		"help text": {"p/a.go", "package p\n\ntype t struct {\n\ta int `help:\"Wait for an answer.\"`\n}\n",
			`p/a.go:4: say response, not "answer"`},
		"description of a field": {"p/a.go", "package p\n\ntype t struct {\n\ta int `json:\"a\" doc:\"The Answer.\"`\n}\n",
			`p/a.go:4: say response, not "answer"`},
		"OpenAPI": {"openapi/openapi.json", "{\n  \"description\": \"An \\\"answer\\\".\"\n}\n",
			`openapi/openapi.json:2: say response, not "answer"`},
		"page": {"docs/a.md", "# A\n\nAn answer.\n", `docs/a.md:3: say response, not "answer"`},
		"changelog": {"CHANGELOG.md", "## Unreleased\n\nAn answer.\n\n## 1\n\nAn answer.\n",
			`CHANGELOG.md:3: say response, not "answer"`},
		"alert rule": {"deploy/a.yml", "summary: an answer\n", `deploy/a.yml:1: say response, not "answer"`},
		"text next to values": {"definitions/a.yaml", "a: {enum: [no-answer], description: The answer.}\n",
			`definitions/a.yaml:1: say response, not "answer"`},
		"noun clause": {"docs/a.md", "It comes. What comes is stored.\n",
			`docs/a.md:1: name the subject: a sentence does not begin with "What"`},
		"noun clause in a list": {"docs/a.md", "- Who comes is let in.\n",
			`docs/a.md:1: name the subject: a sentence does not begin with "Who"`},
		"noun clause in a message": {"p/a.go", "package p\n\nvar err = errors.New(\"what came is too long\")\n",
			`p/a.go:3: name the subject: a sentence does not begin with "what"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []string{c.want}, findWords(t, c.path, c.text))
		})
	}
}

// Code, quotations, questions and the strings of tests stay as they are, or the check would be switched off.
func TestWordsLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, text string }{
		"identifier":         {"p/a.go", "package p\n\nvar answer, s = 1, \"answer\"\n"},
		"query":              {"p/a.go", "package p\n\nconst q = `SELECT answer FROM answers`\n"},
		"import":             {"p/a.go", "package p\n\nimport \"answer\"\n"},
		"message of a test":  {"p/a_test.go", "package p\n\nvar err = errors.New(\"no answer came\")\n"},
		"code span":          {"docs/a.md", "The field `answer`, and [its page](answer.md).\n"},
		"code block":         {"docs/a.md", "```sh\nanswer\n```\n"},
		"part of a word":     {"docs/a.md", "An answerphone.\n"},
		"heading":            {"docs/a.md", "## What is sent\n\n| What | Who |\n|---|---|\n| a | b |\n"},
		"question":           {"docs/a.md", "What is sent? All of it.\n"},
		"example in OpenAPI": {"openapi/openapi.json", "{\n  \"example\": \"answer\"\n}\n"},
		"released":           {"CHANGELOG.md", "## Unreleased\n\n## 1\n\nAn answer.\n"},
		"provider's types":   {"definitions/a.yaml", "    known: [call.answered,\n      call.no-answer]\n"},
		"provider's values":  {"definitions/a.yaml", "a: {type: string, enum: [answered,\n  no-answer]}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, findWords(t, c.path, c.text))
		})
	}
}
