package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Term is one row of the glossary in CONTRIBUTING.md.
type Term struct {
	Say string   // the words to write
	Not []string // the words and phrases that they replace, in lower case
}

// Finding is one place where a text departs from the glossary.
type Finding struct {
	Path   string
	Line   int
	Advice string
}

// String returns the finding as one line.
func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Advice) }

const glossaryHeader = "| Say | Not | Meaning |\n|---|---|---|\n"

// Glossary reads the terms from the table of CONTRIBUTING.md with the columns Say, Not and Meaning. Words that the
// check looks for are in backticks; a row without any is returned without words.
func Glossary(contributing string) ([]Term, error) {
	_, table, found := strings.Cut(contributing, glossaryHeader)
	if !found {
		return nil, errors.New("no table with the columns Say, Not and Meaning")
	}
	var terms []Term
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			break
		}
		var not []string
		for _, span := range codeSpan.FindAllString(cells[1], -1) {
			not = append(not, strings.ToLower(strings.Trim(span, "`")))
		}
		terms = append(terms, Term{Say: strings.TrimSpace(cells[0]), Not: not})
	}
	return terms, nil
}

// Words returns a finding for each word that the glossary replaces, and for each sentence whose subject is a noun
// clause ("What arrives is stored"). It reads documentation, the comments of all Go files, prose in string literals and
// help tags of product code, the descriptions of the OpenAPI document, and the texts of definitions and of deploy. It
// leaves out text in backticks, and released versions in the changelog.
func Words(files []File, terms []Term) ([]Finding, error) {
	w := newWords(terms)
	for _, f := range files {
		switch {
		case f.Path == "CHANGELOG.md":
			w.markdown(f.Path, unreleased(f.Text))
		case strings.HasSuffix(f.Path, ".md"):
			w.markdown(f.Path, f.Text)
		case strings.HasSuffix(f.Path, ".go"):
			if err := w.goFile(f); err != nil {
				return nil, err
			}
		case f.Path == "openapi/openapi.json":
			if err := w.openAPI(f); err != nil {
				return nil, err
			}
		case strings.HasPrefix(f.Path, "deploy/"), strings.HasPrefix(f.Path, "definitions/"):
			w.text(f.Path, 1, blank(providersWords, f.Text))
		}
	}
	return w.findings, nil
}

// words collects findings against one glossary.
type words struct {
	avoid    *regexp.Regexp
	say      map[string]string // the replacement of each word to avoid
	findings []Finding
}

func newWords(terms []Term) *words {
	w := &words{say: map[string]string{}}
	for _, t := range terms {
		for _, word := range t.Not {
			w.say[word] = t.Say
		}
	}
	var patterns []string
	for _, word := range slices.Sorted(maps.Keys(w.say)) {
		patterns = append(patterns, strings.ReplaceAll(regexp.QuoteMeta(word), " ", `\s+`))
	}
	w.avoid = regexp.MustCompile(`(?i)\b(?:` + strings.Join(patterns, "|") + `)\b`)
	return w
}

var (
	// providersWords are types and values in a definition, which are the provider's words.
	providersWords = regexp.MustCompile(`(?m)^    known: \[[^\]]*\]$|\benum: \[[^\]]*\]`)
	codeSpan       = regexp.MustCompile("``[^`]+``|`[^`]*`")
	// A sentence begins a text, a paragraph, a list item or a table cell, or follows another. The last group is the
	// character that ends it.
	nounClause = regexp.MustCompile(`(?m)(?:\A|[.:!?]\s+|\n\s*\n\s*|^[ \t]*(?:[-*]|[0-9]+\.)\s+|\|\s*)` +
		`[*_"(]*(What|Who|Whoever|Whose|Whatever)\b[^.?!|]*(.?)`)
	// A message begins in lower case.
	nounClauseMessage = regexp.MustCompile(`\A(what|who|whoever|whose|whatever)\b[^.?!]*(.?)`)
)

// text checks prose whose first line has the given number.
func (w *words) text(path string, line int, text string) {
	text = blank(codeSpan, text)
	at := func(offset int) int { return line + strings.Count(text[:offset], "\n") }
	for _, m := range w.avoid.FindAllStringIndex(text, -1) {
		word := strings.ToLower(strings.Join(strings.Fields(text[m[0]:m[1]]), " "))
		w.findings = append(w.findings, Finding{path, at(m[0]), fmt.Sprintf("say %s, not %q", w.say[word], word)})
	}
	w.sentences(nounClause, path, at, text)
}

func (w *words) sentences(pattern *regexp.Regexp, path string, at func(int) int, text string) {
	for _, m := range pattern.FindAllStringSubmatchIndex(text, -1) {
		if text[m[4]:m[5]] != "?" {
			w.findings = append(w.findings, Finding{path, at(m[2]),
				fmt.Sprintf("name the subject: a sentence does not begin with %q", text[m[2]:m[3]])})
		}
	}
}

var (
	fence      = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	title      = regexp.MustCompile(`(?m)^#.*$|^\|.*\|(?:\n\|[-:|]+\|$)`)
	question   = regexp.MustCompile(`\b(?:What|Who|Whose)\b`)
)

// markdown checks a page without its code blocks. Headings and the headers of tables may begin as they like.
func (w *words) markdown(path, text string) {
	text = blank(linkTarget, blank(codeSpan, blank(fence, text)))
	text = title.ReplaceAllStringFunc(text, func(s string) string { return blank(question, s) })
	w.text(path, 1, text)
}

// unreleased returns a changelog up to the first version that was released.
func unreleased(changelog string) string {
	sections := regexp.MustCompile(`(?m)^## `).FindAllStringIndex(changelog, 2)
	if len(sections) < 2 {
		return changelog
	}
	return changelog[:sections[1][0]]
}

var description = regexp.MustCompile(`^\s*"(?:description|summary|title)": (".*?"),?$`)

// openAPI checks the document's descriptions, each of which is on a line of its own.
func (w *words) openAPI(f File) error {
	for i, line := range strings.Split(f.Text, "\n") {
		match := description.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		var text string
		if err := json.Unmarshal([]byte(match[1]), &text); err != nil {
			return fmt.Errorf("%s:%d: %w", f.Path, i+1, err)
		}
		w.text(f.Path, i+1, strings.ReplaceAll(text, "\n", " "))
	}
	return nil
}

// goFile checks the comments of a file and, in product code, string literals that hold prose and the tags that become
// help texts and descriptions.
func (w *words) goFile(f File) error {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, f.Path, f.Text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", f.Path, err)
	}
	line := func(n ast.Node) int { return fset.Position(n.Pos()).Line }
	for _, group := range parsed.Comments {
		w.text(f.Path, line(group), commentText(group))
	}
	if !isProductGo(f.Path) {
		return nil
	}
	tags := map[*ast.BasicLit]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag != nil {
				tags[n.Tag] = true
				tag := reflect.StructTag(unquoted(n.Tag))
				for _, key := range []string{"help", "doc", "derived"} {
					w.text(f.Path, line(n.Tag), tag.Get(key))
				}
			}
		case *ast.BinaryExpr:
			if text, ok := concatenation(n); ok {
				w.literal(f.Path, line(n), text)
				return false
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && !tags[n] {
				w.literal(f.Path, line(n), unquoted(n))
			}
		}
		return true
	})
	return nil
}

var (
	prose = regexp.MustCompile(`[a-z,;:.] [a-zA-Z%]|^ | $`)
	query = regexp.MustCompile(`\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|FROM|WHERE|VALUES|ORDER BY|JOIN|SET)\b`)
)

// literal checks a string of product code where it is prose, which SQL and single words are not.
func (w *words) literal(path string, line int, text string) {
	if !prose.MatchString(text) || query.MatchString(text) {
		return
	}
	w.text(path, line, text)
	at := func(int) int { return line }
	w.sentences(nounClauseMessage, path, at, blank(codeSpan, text))
}

// concatenation returns the text of a sum of string literals, in which "…" stands for every other operand. It reports
// false where no operand is a literal.
func concatenation(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "…", false
		}
		left, first := concatenation(e.X)
		right, second := concatenation(e.Y)
		return left + right, first || second
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return unquoted(e), true
		}
	}
	return "…", false
}

// commentText returns the text of a comment with its lines where they are.
func commentText(g *ast.CommentGroup) string {
	var lines []string
	for _, c := range g.List {
		lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), " "))
	}
	return strings.Join(lines, "\n")
}

// unquoted returns the value of a string literal, which the parser has accepted.
func unquoted(literal *ast.BasicLit) string {
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return text
}

// blank overwrites what the pattern finds with spaces, so that lines and columns stay.
func blank(pattern *regexp.Regexp, text string) string {
	return pattern.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, s)
	})
}
