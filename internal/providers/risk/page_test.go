package risk_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/risk"
)

const page = "../../../docs/reference/risk.md"

// The reference page shows the words of the rules and no others, and the shares that the rules reach.
func TestPage(t *testing.T) {
	t.Parallel()
	require.Empty(t, risk.WordsTwice())
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	want := between(t, string(text), "words", risk.WordTable())
	want = between(t, want, "shares", shares(t))
	compareFile(t, page, want)
}

// between replaces the text between the marks of a generated part.
func between(t *testing.T, text, name, part string) string {
	t.Helper()
	begin, end := "<!-- generated "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, found := strings.Cut(text, begin)
	require.True(t, found, "%s has no part %s", page, name)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found, "the part %s of %s has no end", name, page)
	return before + begin + "\n" + part + "\n" + end + after
}

// shares is the table of shares of the page.
func shares(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Operations | Level as labelled | As labelled or higher | Operation as labelled |\n" +
		"|---|---|---|---|\n")
	for _, set := range labelSets() {
		all := readLabels(t, "testdata/"+set.name+".tsv")
		for _, trusted := range []bool{false, true} {
			s, _ := measure(all, trusted)
			document := "document not trusted"
			if trusted {
				document = "trusted"
			}
			fmt.Fprintf(&b, "| %d of %s, %s | %s | %s | %s |\n", s.of, set.of, document, share(s.exact, s.of),
				share(s.of-s.lower, s.of), share(s.operation, s.of))
		}
	}
	b.WriteString("\n| Flag | Found on | Right where set | |\n|---|---|---|---|\n")
	all := []labelled{}
	for _, set := range labelSets() {
		all = append(all, readLabels(t, "testdata/"+set.name+".tsv")...)
	}
	s, _ := measure(all, false)
	for _, f := range judged {
		c := s.flags[f]
		fmt.Fprintf(&b, "| `%s` | %s | %s | labelled on %d, set on %d, both on %d |\n", f, share(c.both, c.both+c.missed),
			share(c.both, c.both+c.only), c.both+c.missed, c.both+c.only, c.both)
	}
	return b.String()
}
