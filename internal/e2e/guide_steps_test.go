package e2e_test

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	gmtext "github.com/yuin/goldmark/text"
)

// step is one code block of a guide, as its reader sees it.
type step struct {
	language, file, text string
	needs                []string
}

var (
	codeBlock = regexp.MustCompile(`(?s)<pre><code(?: class="language-([^"]*)")?>(.*?)</code></pre>`)
	// fileName is the sentence that names the file of the block behind it.
	fileName = regexp.MustCompile(`Save this as <code>([^<]+)</code>:</p>\s*$`)
)

// steps renders a page and returns its code blocks outside lists, of one section or of all. It reads the HTML, so that
// nothing counts that the reader of the page does not see; only the needs of a block come from its source.
func steps(t *testing.T, path, section string) []step {
	t.Helper()
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	md := goldmark.New(goldmark.WithExtensions(extension.GFM))
	var page bytes.Buffer
	require.NoError(t, md.Convert(source, &page))
	sources := fences(t, md, source)
	rendered := page.String()
	blocks := codeBlock.FindAllStringSubmatchIndex(rendered, -1)
	require.Len(t, blocks, len(sources), path)

	from, to := 0, len(rendered)
	if section != "" {
		from = strings.Index(rendered, "<h2>"+section+"</h2>")
		require.NotEqual(t, -1, from, "%s has no section %s", path, section)
		if n := strings.Index(rendered[from+1:], "<h2>"); n >= 0 {
			to = from + 1 + n
		}
	}
	var out []step
	end := 0
	for i, at := range blocks {
		before := rendered[end:at[0]]
		end = at[1]
		if at[0] < from || at[0] > to || sources[i].nested {
			continue
		}
		s := step{text: html.UnescapeString(rendered[at[4]:at[5]]), needs: sources[i].needs}
		if at[2] >= 0 {
			s.language = rendered[at[2]:at[3]]
		}
		if name := fileName.FindStringSubmatch(before); name != nil {
			s.file = html.UnescapeString(name[1])
		}
		out = append(out, s)
	}
	return out
}

// fence is what the source of a code block says beyond what is rendered.
type fence struct {
	nested bool
	needs  []string
}

// fences returns the code blocks of a page in their order.
func fences(t *testing.T, md goldmark.Markdown, source []byte) []fence {
	t.Helper()
	var out []fence
	page := md.Parser().Parse(gmtext.NewReader(source))
	require.NoError(t, ast.Walk(page, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || n.Kind() != ast.KindFencedCodeBlock && n.Kind() != ast.KindCodeBlock {
			return ast.WalkContinue, nil
		}
		f := fence{nested: n.Parent().Kind() != ast.KindDocument}
		if block, ok := n.(*ast.FencedCodeBlock); ok && block.Info != nil {
			for _, word := range strings.Fields(string(block.Info.Segment.Value(source)))[1:] {
				name, value, _ := strings.Cut(word, "=")
				require.Equal(t, "needs", name, "a reader does not see %q; name a file in the text: Save this as `NAME`:", word)
				f.needs = strings.Split(value, ",")
			}
		}
		out = append(out, f)
		return ast.WalkContinue, nil
	}))
	return out
}

// A page that starts a receiver waits for it before it sends an event there: a first attempt that nothing accepts would
// let the walk wait for a retry, and show another attempt than the page does.
func TestGuidesAwaitTheirReceivers(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "guides", "*.md"))
	require.NoError(t, err)
	found := 0
	for _, path := range append(pages, filepath.Join("..", "..", "README.md")) {
		var all strings.Builder
		for _, s := range steps(t, path, "") {
			if s.language == "sh" && s.file == "" {
				all.WriteString(s.text)
			}
		}
		_, after, started := strings.Cut(all.String(), "python3 receiver.py > ")
		sent := regexp.MustCompile(`subscriptions trigger|/webhook/`).FindStringIndex(after)
		if !started || sent == nil {
			continue
		}
		found++
		require.Contains(t, after[:sent[0]], "\nuntil ", path)
	}
	require.GreaterOrEqual(t, found, 2)
}

// Every code block of a guide is run, is the output of one, or has its file named where the reader sees it, except for
// those that are only shown. The pages render to what the tests of the guides paste.
func TestGuidesAsRendered(t *testing.T) {
	t.Parallel()
	shown := []string{"ini", "console", "sql", "js", "yaml", ""}
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "guides", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, path := range append(pages, filepath.Join("..", "..", "README.md")) {
		files := 0
		for _, s := range steps(t, path, "") {
			if s.file != "" {
				files++
				require.NotContains(t, []string{"sh", "text"}, s.language, "%s: %s is a file", path, s.file)
			} else if s.language != "sh" && s.language != "text" {
				require.True(t, slices.Contains(shown, s.language), "%s: a block of %s is not named in the text before it",
					path, s.language)
			}
		}
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, strings.Count(string(source), "Save this as `"), files, "%s: a named file has no block", path)
	}
}
