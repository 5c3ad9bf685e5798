package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

const (
	// gap separates two columns.
	gap = "  "
	// minWidth is the width below which no column is shortened.
	minWidth = 12
	// ellipsis ends a shortened cell.
	ellipsis = "…"
)

// Screen describes the output of a table. The zero value is a file or a pipe, which gets full cells without colours.
type Screen struct {
	// Width is the number of columns; 0 means no limit.
	Width  int
	Colour bool
}

// ScreenOf returns the Screen of w. environ, in the form of os.Environ, turns colours off with any value of NO_COLOR
// (no-color.org) or with TERM=dumb.
func ScreenOf(w io.Writer, environ []string) Screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Screen{}
	}
	s := Screen{Colour: true}
	for _, v := range environ {
		if name, value, _ := strings.Cut(v, "="); name == "NO_COLOR" && value != "" || v == "TERM=dumb" {
			s.Colour = false
		}
	}
	if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = columns
	}
	return s
}

// Tone is the colour of a cell on a screen with colours.
type Tone int

// The tones.
const (
	Plain Tone = iota
	Good
	Busy
	Bad
)

// code returns the tone's SGR parameter (ECMA-48, section 8.3.117).
func (t Tone) code() string {
	switch t {
	case Good:
		return "32"
	case Busy:
		return "33"
	case Bad:
		return "31"
	case Plain:
	}
	return ""
}

// Paint returns text in a tone, if the screen has colours.
func (s Screen) Paint(t Tone, text string) string {
	if code := t.code(); s.Colour && code != "" {
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	return text
}

// Column is one column of a table.
type Column struct {
	Title string
	// Fixed keeps cells from being shortened, because ids are copied.
	Fixed bool
	// Tone returns the tone for the text of a cell; nil colours no cell.
	Tone func(cell string) Tone
}

// Table writes rows in aligned columns under a heading. It escapes cells with Inline. On a narrow screen it shortens
// the widest columns that are not fixed.
type Table struct {
	w       io.Writer
	screen  Screen
	columns []Column
	rows    [][]string
	widths  []int
	begun   bool
}

// NewTable returns a Table on w.
func NewTable(w io.Writer, screen Screen, columns ...Column) *Table {
	return &Table{w: w, screen: screen, columns: columns, widths: make([]int, len(columns))}
}

// Row adds a row and drops cells beyond the columns.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.columns))
	for i := range min(len(row), len(cells)) {
		row[i] = Inline(cells[i])
	}
	t.rows = append(t.rows, row)
}

// Flush writes the rows since the last Flush; the first one writes the heading too. Columns never become narrower, so
// that a long table can be written in parts.
func (t *Table) Flush() error {
	t.fit()
	var b strings.Builder
	if !t.begun {
		t.begun = true
		titles := make([]string, len(t.columns))
		for i, c := range t.columns {
			titles[i] = c.Title
		}
		t.line(&b, titles, false)
	}
	for _, row := range t.rows {
		t.line(&b, row, t.screen.Colour)
	}
	t.rows = nil
	if _, err := io.WriteString(t.w, b.String()); err != nil {
		return fmt.Errorf("print a table: %w", err)
	}
	return nil
}

// fit sets the widths of columns: that of the widest cell, within the width of the screen.
func (t *Table) fit() {
	widths := make([]int, len(t.columns))
	total := len(gap) * (len(widths) - 1)
	for i, c := range t.columns {
		widths[i] = max(cells(c.Title), t.widths[i])
		for _, row := range t.rows {
			widths[i] = max(widths[i], cells(row[i]))
		}
		total += widths[i]
	}
	for over := total - t.screen.Width; t.screen.Width > 0 && over > 0; over-- {
		widest := -1
		for i, c := range t.columns {
			if !c.Fixed && widths[i] > max(minWidth, cells(c.Title), t.widths[i]) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	t.widths = widths
}

func (t *Table) line(b *strings.Builder, row []string, colour bool) {
	last := len(row) - 1
	for last > 0 && row[last] == "" {
		last--
	}
	for i, cell := range row[:last+1] {
		cell = shorten(cell, t.widths[i])
		pad := t.widths[i] - cells(cell)
		if tone := t.columns[i].Tone; tone != nil {
			cell = Screen{Colour: colour}.Paint(tone(row[i]), cell)
		}
		b.WriteString(cell)
		if i < last {
			b.WriteString(strings.Repeat(" ", pad) + gap)
		}
	}
	b.WriteByte('\n')
}

// shorten cuts s to n columns of the screen.
func shorten(s string, n int) string {
	if cells(s) <= n {
		return s
	}
	used := 0
	for i, r := range s {
		if used += runeCells(r); used > n-1 {
			return s[:i] + ellipsis
		}
	}
	return s
}

// cells returns the number of screen columns of s.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

// runeCells returns the number of screen columns of a character: none for combining characters, two for wide ones
// (UAX #11).
func runeCells(r rune) int {
	if r < 0x80 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	case width.Neutral, width.EastAsianAmbiguous, width.EastAsianNarrow, width.EastAsianHalfwidth:
	}
	return 1
}
