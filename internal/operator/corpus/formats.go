package corpus

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/actions/toolformat"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/risk"
)

// formats are actions as tools.
type formats struct {
	clk     clock.Clock
	every   int
	outcome map[toolformat.Format]*outcome
}

// outcome is that of one format.
type outcome struct {
	tools, refused, strict, renamed int
	bytes, largest                  int
	took, slowest                   time.Duration
	notes, broken                   map[string]int
	first                           string
}

func newFormats(clk clock.Clock, every int) formats {
	f := formats{clk, every, map[toolformat.Format]*outcome{}}
	for _, name := range toolformat.Formats() {
		f.outcome[name] = &outcome{notes: map[string]int{}, broken: map[string]int{}}
	}
	return f
}

// check writes an action in every format, and checks each definition against the rules of its reader.
func (f *formats) check(path string, r *documents.Result) {
	provider := "p" + filepath.Base(filepath.Dir(path))
	name := actions.ToolName(slug(provider), r.Action.Name, r.Method, r.Path)
	tool := &toolformat.Tool{Name: name, Action: r.Action, Risk: risk.Assess(&r.Action.Call)}
	for _, format := range toolformat.Formats() {
		o := f.outcome[format]
		begin := f.clk.Now()
		d, err := toolformat.Render(format, tool)
		took := f.clk.Now().Sub(begin)
		o.tools++
		o.took += took
		o.slowest = max(o.slowest, took)
		if err != nil {
			o.breaks(path, r, err.Error())
			continue
		}
		o.count(d)
		for _, violation := range violations(d) {
			o.breaks(path, r, violation)
		}
	}
}

// slug makes a slug of a file's name.
func slug(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

func (o *outcome) count(d *toolformat.Definition) {
	o.bytes += len(d.JSON)
	o.largest = max(o.largest, len(d.JSON))
	if d.Strict {
		o.strict++
	}
	if len(d.Names) > 0 {
		o.renamed++
	}
	for _, n := range d.Notes {
		o.notes[n]++
	}
}

func (o *outcome) breaks(path string, r *documents.Result, violation string) {
	if len(o.broken) == 0 {
		o.first = fmt.Sprintf("%s: %s %s: %s", path, r.Method, r.Path, violation)
	}
	if o.broken[violation] > 0 || len(o.broken) < 100 {
		o.broken[violation]++
	}
	o.refused++
}

// violations returns which rules a definition breaks, and whether a validator that is not ours reads its schema.
func violations(d *toolformat.Definition) []string {
	lines := toolformat.Violations(d.Format, d.JSON)
	var parts struct {
		Input      json.RawMessage `json:"inputSchema"`
		Output     json.RawMessage `json:"outputSchema"`
		Anthropic  json.RawMessage `json:"input_schema"`
		Parameters json.RawMessage `json:"parameters"`
	}
	if err := json.Unmarshal(d.JSON, &parts); err != nil {
		return append(lines, err.Error())
	}
	if d.Format == toolformat.Gemini {
		return lines
	}
	for _, schema := range []json.RawMessage{parts.Input, parts.Output, parts.Anthropic, parts.Parameters} {
		if schema == nil {
			continue
		}
		if err := compile(schema); err != nil {
			lines = append(lines, err.Error())
		}
	}
	return lines
}

func (f *formats) report(w io.Writer) {
	if f.every == 0 {
		return
	}
	for _, format := range toolformat.Formats() {
		o := f.outcome[format]
		n := max(1, o.tools)
		_, _ = fmt.Fprintf(w, "tools %s\t%d, %d violations, %d strict, %d with other names, %d bytes on average, %d at "+
			"most, %v on average, %v at most\n", format, o.tools, o.refused, o.strict, o.renamed, o.bytes/n, o.largest,
			(o.took / time.Duration(n)).Round(time.Microsecond), o.slowest.Round(time.Microsecond))
		for _, group := range []struct {
			title string
			count map[string]int
		}{{"violation", o.broken}, {"note", o.notes}} {
			for _, reason := range sorted(group.count) {
				_, _ = fmt.Fprintf(w, "%s %s\t%d: %s\n", group.title, format, group.count[reason], reason)
			}
		}
		if o.first != "" {
			_, _ = fmt.Fprintf(w, "first %s\t%s\n", format, o.first)
		}
	}
}
