package documents_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/documents"
)

// Values are those of the core schema of YAML 1.2, as no other version has them, and a value that JSON does not have is
// the text as it is written.
func TestYAMLValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"yes":                                 `"yes"`,
		"on":                                  `"on"`,
		"n":                                   `"n"`,
		"True":                                `true`,
		"tRUE":                                `"tRUE"`,
		"~":                                   `null`,
		"Null":                                `null`,
		"2020-01-01":                          `"2020-01-01"`,
		"2020-01-01T10:00:00Z":                `"2020-01-01T10:00:00Z"`,
		"12:30:45":                            `"12:30:45"`,
		"+1":                                  `1`,
		"-0":                                  `-0`,
		"0":                                   `0`,
		"0200":                                `"0200"`,
		"00.5":                                `"00.5"`,
		"0x1F":                                `31`,
		"0o17":                                `15`,
		"0xFFFFFFFFFFFFFFFFF":                 `"0xFFFFFFFFFFFFFFFFF"`,
		"0x":                                  `"0x"`,
		"0b1":                                 `"0b1"`,
		"1_000":                               `"1_000"`,
		"12345678901234567890123":             `12345678901234567890123`,
		"1.10":                                `1.10`,
		"1.":                                  `1`,
		".5":                                  `0.5`,
		"-.5e-3":                              `-0.5e-3`,
		"1e400":                               `1e400`,
		"3463754e3540884":                     `"3463754e3540884"`,
		"1e":                                  `"1e"`,
		"1.2.3":                               `"1.2.3"`,
		".inf":                                `".inf"`,
		"-.Inf":                               `"-.Inf"`,
		".nan":                                `".nan"`,
		".":                                   `"."`,
		"-":                                   `[null]`,
		"'1'":                                 `"1"`,
		`"a\u00e9\n\x01"`:                     `"aé\n\u0001"`,
		"|\n a\n\n b\n":                       `"a\n\nb\n"`,
		">-\n a\n b\n":                        `"a b"`,
		"a\n  b":                              `"a b"`,
		"<a> & \"b\"":                         `"<a> & \"b\""`,
		"!!str 1":                             `"1"`,
		"!!int '3'":                           `3`,
		"!!float 3":                           `3`,
		"!!bool \"true\"":                     `true`,
		"!!null ''":                           `null`,
		"!!binary aGk=":                       `"aGk="`,
		"!!timestamp 2020-01-01":              `"2020-01-01"`,
		"! 12":                                `"12"`,
		"!!map {a: !!seq [1]}":                `{"a":[1]}`,
		"# c\n\n%YAML 1.2\n---\nno":           `"no"`,
		"\ufeffa":                             `"a"`,
		"{a, b: , 'c':1}":                     `{"a":null,"b":null,"c":1}`,
		"[a, b: c, ]":                         `["a",{"b":"c"}]`,
		"{\"a\":[1,{}],\"b\":\"\\/\"}":        `{"a":[1,{}],"b":"/"}`,
		"200: a":                              `{"200":"a"}`,
		"0200: a\n1e3: b":                     `{"0200":"a","1e3":"b"}`,
		"true: a\non: b":                      `{"true":"a","on":"b"}`,
		"null: a\n~: b":                       `{"null":"a","~":"b"}`,
		"2020-01-01: a":                       `{"2020-01-01":"a"}`,
		"'<<': a":                             `{"<<":"a"}`,
		"&a k: v":                             `{"k":"v"}`,
		"- &a k\n- *a : v":                    `["k",{"k":"v"}]`,
		"? a\n: b":                            `{"a":"b"}`,
		"a: 1 # c\n# d\n":                     `{"a":1}`,
		"--- a\n...\n":                        `"a"`,
		"- &a [1]\n- *a":                      `[[1],[1]]`,
		"- &a {b: 1}\n- {c: 2, <<: *a}":       `[{"b":1},{"c":2,"b":1}]`,
		"- &a {b: 1, c: 1}\n- {<<: *a, b: 2}": `[{"b":1,"c":1},{"b":2,"c":1}]`,
		"- &a {b: 1}\n- &c {b: 2, d: 2}\n- {<<: [*a, *c]}": `[{"b":1},{"b":2,"d":2},{"b":1,"d":2}]`,
		"- &a {b: 1}\n- &c {<<: *a, d: 2}\n- <<: *c":       `[{"b":1},{"d":2,"b":1},{"d":2,"b":1}]`,
		"<<: {a: 1}": `{"a":1}`,
	} {
		got, err := documents.FromYAML([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, strings.ReplaceAll(string(got), "\n", ""), text)
	}
}

// A document that cannot be JSON is refused with the place.
func TestRefusedYAML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "line 1, column 1: the document is empty",
		"# none\n":                   "line 1, column 1: the document is empty",
		"a: 1\n---\nb: 2":            "line 2, column 1: a second document begins here: expected one alone",
		"a: 1\nb: 2\na: 3":           `line 3, column 1: the key "a" is there twice; the first one is on line 1`,
		"200: 1\n'200': 2":           `line 2, column 1: the key "200" is there twice; the first one is on line 1`,
		"{a: 1, <<: {}, <<: {}}":     "line 1, column 16: the key << is there twice; the first one is on line 1",
		"a:\n  [b]: c":               "line 2, column 3: a key is an array or an object: expected a text",
		"a: !include b.yaml":         "line 1, column 4: the tag !include is not supported",
		"!!set {a, b}":               "line 1, column 1: the tag !!set is not supported",
		"!x [a]":                     "line 1, column 1: the tag !x is not supported",
		"!x k: v":                    "line 1, column 1: the tag !x is not supported",
		"!!int x":                    `line 1, column 1: "x" does not fit its tag !!int`,
		"a: *b":                      "line 1, column 4: malformed YAML: unknown anchor 'b' referenced",
		"&a [*a]":                    "line 1, column 5: the alias *a contains itself",
		"&a {b: {c: *a}}":            "line 1, column 12: the alias *a contains itself",
		"&a {<<: *a}":                "line 1, column 9: << merges an object into itself, or too many within each other",
		"<<: a":                      "line 1, column 5: << expects an object or a list of objects",
		"a: 'b":                      "line 1, column 6: malformed YAML: while scanning a quoted scalar: found",
		"a: [b":                      "line 2, column 1: malformed YAML: while parsing a flow sequence: did not",
		"a: b: c":                    "line 1, column 5: malformed YAML: mapping values are not allowed in this context",
		"a:\n\t- b":                  "line 2, column 1: malformed YAML: while scanning for the next token: found character",
		"a\xff":                      "line 1, column 2: the text is not UTF-8",
		"\xff\xfea\x00":              "line 1, column 1: the text is not UTF-8",
		"a:\n  b\x01":                "line 2, column 4: a control character",
		"%TAG !a! x\n--- !a!b":       "line 1, column 1: the directive %TAG is not supported",
		"a\n---\n%TAG !a! x\n---\nb": "line 3, column 1: the directive %TAG is not supported",
	} {
		_, err := documents.FromYAML([]byte(text))
		var problem *documents.Problem
		require.ErrorAs(t, err, &problem, text)
		require.ErrorContains(t, err, want)
	}
}

// A text that would take too much memory or time, as it is or with its aliases expanded, is refused with the place.
func TestYAMLIsBounded(t *testing.T) {
	t.Parallel()
	var laughs, merges strings.Builder
	laughs.WriteString("a0: &a0 [" + strings.Repeat("lol,", 100) + "]\n")
	merges.WriteString("a0: &a0 {}\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10))
		fmt.Fprintf(&merges, "a%d: &a%d {<<: [%s]}\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10))
	}
	long := "a: &a " + strings.Repeat("x", 1<<20) + "\nb:\n" + strings.Repeat("- *a\n", 70)
	const values = "the document has more than 5000000 values with its aliases expanded"
	for _, c := range []struct{ text, want string }{
		{laughs.String(), values},
		{merges.String(), values},
		{long, "line 66, column 3: the document has more than 64 MiB as JSON, with its aliases expanded"},
		{strings.Repeat("[", 501), "line 1, column 501: more than 500 arrays and objects within each other"},
		{strings.Repeat("- ", 501), "more than 500 arrays and objects within each other"},
		{strings.Repeat("- ", 300) + strings.Repeat("[", 300) + strings.Repeat("]", 300),
			"line 1, column 801: more than 500 arrays and objects within each other"},
		{"[" + strings.Repeat(",", 1_250_000), "line 1, column 1250001: the document has more than 2500000 values, which " +
			"are too many to read from YAML: convert it to JSON"},
		{strings.Repeat(" ", documents.MaxBytes+1), "the document has more than 64 MiB"},
	} {
		got, err := documents.FromYAML([]byte(c.text))
		require.Nil(t, got)
		require.ErrorContains(t, err, c.want)
	}
}

// A problem of a document in YAML has the line of the YAML: after texts of several lines and comments, and where the
// value comes from an alias.
func TestProblemsHaveTheLineOfTheYAML(t *testing.T) {
	t.Parallel()
	d, err := documents.OpenYAML([]byte(`# A comment.
openapi: 3.1
info:
  title: >
    An
    API
  version: 1.20

x-shared: &shared
  deprecated: true
  x-sallyport-risk: harmless
paths:
  /a:
    get: *shared
  /b:
    get: {responses: {200: {description: fine}}}
    post:
      <<: *shared
      x-sallyport-risk:
        level: none
    ? put
    : x-sallyport-risk: harmless
`))
	require.NoError(t, err)
	require.Equal(t, documents.OpenAPI31, d.Format)
	require.Equal(t, "1.20", d.Version)
	list, err := d.Operations()
	require.NoError(t, err)
	lines := map[string]int{}
	for r := range list {
		if r.Left != nil {
			require.Zero(t, r.Left.Column)
			lines[r.Method+" "+r.Path] = r.Left.Line
		}
	}
	require.Equal(t, map[string]int{"GET /a": 14, "POST /b": 20, "PUT /b": 22}, lines)
	for text, want := range map[string]string{
		"a: 1":                   "the document has none of openapi",
		"\n\n- a":                "line 3: expected an object, not an array",
		"swagger: 2.0\n\na: [":   "line 4, column 1: malformed YAML",
		"a: 1\nopenapi:\n   4.0": "line 3: the version of OpenAPI must be 3.0 or 3.1",
	} {
		_, err := documents.OpenYAML([]byte(text))
		require.ErrorContains(t, err, want)
	}
	d, err = documents.OpenYAML([]byte("swagger: 2.0\n\npaths: []"))
	require.NoError(t, err)
	_, err = d.Operations()
	require.EqualError(t, err, "line 3: paths must be an object, not an array")
}

// The notation of a document follows from its beginning.
func TestSniff(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]documents.Syntax{
		" \n{\"a\":1}":                       documents.JSON,
		"\ufeff{}":                           documents.JSON,
		"[":                                  documents.JSON,
		"{\n\n  \"a\"":                       documents.JSON,
		"{":                                  documents.JSON,
		"{openapi: 3.0.0}":                   documents.YAML,
		"{ # a comment\n a: 1}":              documents.YAML,
		"{ pets { name } }":                  documents.Other,
		"openapi: 3.0.0":                     documents.YAML,
		"# a comment\n\n---\nopenapi: 3":     documents.YAML,
		"%YAML 1.2\n---\n":                   documents.YAML,
		"\"swagger\": '2.0'":                 documents.YAML,
		"'info':\r\n  title: x":              documents.YAML,
		"x-key with blanks:":                 documents.YAML,
		"type Query { a: Int }":              documents.Other,
		"# a comment\ntype Query {\n a: Int": documents.Other,
		"\"\"\"\nA: text\n\"\"\"\nschema {":  documents.Other,
		"\"A: text\"\nscalar A":              documents.Other,
		"extend type A @key(fields: \"a\")":  documents.Other,
		"union A = B":                        documents.Other,
		"<html>":                             documents.Other,
		"":                                   documents.Other,
		"# only":                             documents.Other,
	} {
		require.Equal(t, want, documents.Sniff([]byte(text)), text)
	}
}

// Any text is converted to JSON or refused with a problem, and JSON has the lines of the YAML at most.
func FuzzFromYAML(f *testing.F) {
	for _, text := range []string{"a: &a [1, ~]\nb: *a\n<<: {c: d}", "- |\n x\n- >-\n y\n-\n  ? a\n  : !!str 1",
		"{a: \"\\u00e9\", 'b': }",
		"%YAML 1.1\n---\n# c\na: b\n...\n", "&a [*a]", "a:\n\n  # c\n  - b # d\n", "? - a\n: b", "!!binary aGk=",
		"\"\\ud800\"",
		"a: b\r\nc: |+\r\n  d\r\n", "- &a a\n- *a : b", "a: 0x1\nb: 1_0\nc: .inf\nd: 0o7\ne: -1.e5"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		documents.Sniff(text)
		converted, err := documents.FromYAML(text)
		if err != nil {
			var problem *documents.Problem
			require.ErrorAs(t, err, &problem)
			require.NotContains(t, problem.Message, "cannot be read: internal")
			return
		}
		var compact, same bytes.Buffer
		require.NoError(t, json.Compact(&compact, converted), string(converted))
		again, err := documents.FromYAML(converted)
		if err == nil && !bytes.ContainsAny(converted, "\u0085\u2028\u2029\ufeff") { // JSON that means the same in YAML
			require.NoError(t, json.Compact(&same, again))
			require.Equal(t, compact.String(), same.String())
		}
	})
}
