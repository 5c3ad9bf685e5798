package archtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Links to missing files and headings are found, in any form and on any page.
func TestBrokenLinksFindsEachForm(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"docs/a.md:1 links to gone.md, which does not exist":              "See [it](gone.md).",
		"docs/a.md:3 links to ../gone, which does not exist":              "one\n\n[a](b.md) and [b](../gone)",
		"docs/a.md:1 links to b.png, which does not exist":                "![image](b.png \"title\")",
		"docs/a.md:1 links to gone.md#x, which does not exist":            "[it]: gone.md#x",
		"docs/a.md:1 links to b.md#none, whose heading does not exist":    "[b](b.md#none)",
		"docs/a.md:1 links to #none, whose heading does not exist":        "[here](#none)",
		"docs/a.md:1 names internal/gone/, which does not exist":          "In `internal/gone/` it is.",
		"docs/a.md:1 links to b.md#in-code, whose heading does not exist": "[b](b.md#in-code)",
	} {
		require.Equal(t, []string{want}, BrokenLinks([]File{
			{Path: "docs/a.md", Text: text},
			{Path: "docs/b.md", Text: "# B\n```sh\n# In code\n```\n"},
		}))
	}
}

// Links to files, folders, headings and other sites are right, and code is no link.
func TestBrokenLinksLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	require.Empty(t, BrokenLinks([]File{
		{Path: "README.md", Text: "[a](docs/a.md) [docs](docs/) [code](internal/x) [file](internal/x/x.go) `internal/x/` " +
			"`docs/<name>.md` `x/gone`\n"},
		{Path: "docs/a.md", Text: "# Title\n## What `Do` returns: 4 codes\n## Twice\n## Twice\n<a id=\"own\"></a>\n" +
			"[up](../README.md) [1](#title) [2](#what-do-returns-4-codes) [3](#twice-1) [4](#own)\n" +
			"[out](https://example.test/gone.md) [mail](mailto:a@example.test) `[code](gone.md)`\n" +
			"```\n[code](gone.md)\n```\n"},
		{Path: "internal/x/x.go", Text: "package x // [code](gone.md)\n"},
	}))
}
