package terminal_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/terminal"
)

// For any input of a stranger, no control sequence reaches the terminal, and plain text stays as it was.
func TestNothingSteersTheTerminal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte {
			return []byte(s)
		})).Draw(t, "s"))
		for _, r := range terminal.Inline(s) {
			require.True(t, unicode.IsPrint(r), "%q", r)
		}
		for _, r := range terminal.Text(s) {
			require.True(t, unicode.IsPrint(r) || r == '\n' || r == '\t', "%q", r)
		}
	})
	for in, want := range map[string]string{
		"issues.opened":        "issues.opened",
		"Zoë 日本":               "Zoë 日本",
		"a\x1b[2Jb":            `a\x1b[2Jb`,
		"a\r\n\tb":             `a\r\n\tb`,
		"\u009b31m\u202e\xff�": `\u009b31m\u202e\xff�`,
		"\U000e0041":           `\U000e0041`,
	} {
		require.Equal(t, want, terminal.Inline(in))
	}
	require.Equal(t, "a\n\tb"+`\x1b`, terminal.Text("a\n\tb\x1b"))
}

// JSON means the same after the escapes as before them.
func TestJSONKeepsItsValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var before bytes.Buffer
		e := json.NewEncoder(&before)
		e.SetEscapeHTML(false)
		in := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "value")
		require.NoError(t, e.Encode(in))
		after := terminal.JSON(before.Bytes())
		for _, r := range string(after) {
			require.True(t, r == '\n' || unicode.IsPrint(r), "%q", r)
		}
		var one, two map[string]string
		require.NoError(t, json.Unmarshal(before.Bytes(), &one))
		require.NoError(t, json.Unmarshal(after, &two))
		require.Equal(t, one, two)
	})
	require.JSONEq(t, `"\u009b\u202e\udb40\udc41"`, string(terminal.JSON([]byte("\"\u009b\u202e\U000e0041\""))))
}

func table(screen terminal.Screen, rows ...[]string) string {
	var b strings.Builder
	t := terminal.NewTable(&b, screen, terminal.Column{Title: "ID", Fixed: true}, terminal.Column{Title: "TYPE"},
		terminal.Column{Title: "STATUS", Tone: func(s string) terminal.Tone {
			return map[string]terminal.Tone{"dead": terminal.Bad, "ok": terminal.Good, "busy": terminal.Busy}[s]
		}}, terminal.Column{Title: "NOTE"})
	for _, r := range rows {
		t.Row(r...)
	}
	if err := t.Flush(); err != nil {
		return err.Error()
	}
	return b.String()
}

// To a file a table is complete and plain, so that what reads it misses nothing.
func TestTableInFull(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	require.Equal(t, ""+
		"ID    TYPE           STATUS  NOTE\n"+
		"0001  issues.opened  dead    a\\x1b[31m"+long+"\n"+
		"2     日本語         ok\n",
		table(terminal.Screen{}, []string{"0001", "issues.opened", "dead", "a\x1b[31m" + long},
			[]string{"2", "日本語", "ok", ""}))
}

// On a screen every line fits, ids stay whole, and only the text of a status has a colour.
func TestTableOnAScreen(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("f", 36)
	out := table(terminal.Screen{Width: 80, Colour: true},
		[]string{id, strings.Repeat("type.", 20), "dead", strings.Repeat("日本", 30)}, []string{id, "short", "other", "n"})
	require.Contains(t, out, "  \x1b[31mdead\x1b[0m    ")
	plain := strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(out)
	require.NotContains(t, plain, "\x1b")
	lines := strings.Split(strings.TrimSuffix(plain, "\n"), "\n")
	require.Len(t, lines, 3)
	for _, line := range lines {
		require.LessOrEqual(t, len([]rune(line))+strings.Count(line, "日")+strings.Count(line, "本"), 80, line)
	}
	require.Equal(t, 2, strings.Count(plain, "…"))
	require.Equal(t, 2, strings.Count(plain, id))

	// Where even that does not help, lines are longer rather than columns unreadable.
	require.Contains(t, table(terminal.Screen{Width: 20}, []string{id, strings.Repeat("t", 30), "dead", "n"}),
		id+"  ttttttttttt…  dead")
}

// A long table is written in parts under one heading.
func TestTableInParts(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	tab := terminal.NewTable(&b, terminal.Screen{Width: 60}, terminal.Column{Title: "A"}, terminal.Column{Title: "B"})
	tab.Row("first", "1")
	require.NoError(t, tab.Flush())
	tab.Row("x", "2", "dropped")
	require.NoError(t, tab.Flush())
	require.Equal(t, "A      B\nfirst  1\nx      2\n", b.String())
}

// A file that is no terminal has no width and no colours, regardless of the variables.
func TestScreenOfAFile(t *testing.T) {
	t.Parallel()
	require.Equal(t, terminal.Screen{}, terminal.ScreenOf(&strings.Builder{}, nil))
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	require.Equal(t, terminal.Screen{}, terminal.ScreenOf(f, []string{"TERM=xterm"}))
	require.NoError(t, f.Close())
}
