// Package corpus reads many descriptions of APIs as an import does, and says which of their operations become actions.
package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/longtext"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/risk"
)

// Options say what Read does.
type Options struct {
	// Path is a document, or a folder with documents, in JSON or YAML.
	Path string
	// Every is N where every Nth schema is compiled by an independent validator; 0 for none.
	Every int
	// Formats is N where every Nth action is written in every format of tools and checked against its rules; 0 for none.
	Formats int
	// Slowest is how many of the slowest documents are listed.
	Slowest int
}

// corpus is the outcome of all documents.
type corpus struct {
	clk       clock.Clock
	every     int
	documents int
	refused   map[string]int
	actions   int
	left      map[string]int
	notes     map[string]int
	levels    map[risk.Level]int
	// twice are names that two actions of a document have, and long those above their limit.
	twice, long     int
	checked, broken int
	firstBroken     string
	formats         formats
	times           []timed
}

type timed struct {
	path  string
	bytes int64
	took  time.Duration
}

var errNoDocuments = errors.New("there are no documents")

// Read reads the documents and prints which of their operations become actions.
func Read(ctx context.Context, stdout io.Writer, o Options) error {
	c := corpus{clk: clock.System(), every: o.Every, refused: map[string]int{}, left: map[string]int{},
		notes: map[string]int{}, levels: map[risk.Level]int{}, formats: newFormats(clock.System(), o.Formats)}
	err := filepath.WalkDir(o.Path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if entry.IsDir() || !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(path)) {
			return nil
		}
		return c.read(path)
	})
	if err != nil {
		return fmt.Errorf("read the documents: %w", err)
	}
	if c.documents+len(c.refused) == 0 {
		return errNoDocuments
	}
	return c.print(stdout, o.Slowest)
}

func (c *corpus) read(path string) error {
	text, err := readFile(path)
	if err != nil {
		return fmt.Errorf("read a document: %w", err)
	}
	begin := c.clk.Now()
	d, err := documents.OpenAny(text)
	if err != nil {
		c.refused[err.Error()]++
		return nil //nolint:nilerr // it is counted
	}
	list, err := d.Operations()
	if err != nil {
		c.refused[err.Error()]++
		return nil //nolint:nilerr // it is counted
	}
	c.documents++
	names := map[string]bool{}
	var checking time.Duration
	for r := range list {
		switch {
		case r.Left != nil:
			c.left[r.Left.Message]++
		default:
			c.actions++
			if names[r.Action.Name] {
				c.twice++
			}
			names[r.Action.Name] = true
			if len(r.Action.Name) > actions.MaxName ||
				len(actions.ToolName(filepath.Base(path), r.Action.Name, r.Method, r.Path)) > actions.MaxName {
				c.long++
			}
			c.levels[risk.Assess(&r.Action.Call).Level]++
			for _, n := range r.Notes {
				c.notes[kindOf(n)]++
			}
			if c.every > 0 && c.actions%c.every == 0 {
				before := c.clk.Now()
				c.check(path, &r)
				checking += c.clk.Now().Sub(before)
			}
			if o := &c.formats; o.every > 0 && c.actions%o.every == 0 {
				before := c.clk.Now()
				o.check(path, &r)
				checking += c.clk.Now().Sub(before)
			}
		}
	}
	c.times = append(c.times, timed{path, int64(text.Len()), c.clk.Now().Sub(begin) - checking})
	return nil
}

func readFile(path string) (*longtext.Text, error) {
	file, err := os.Open(path) //nolint:gosec // the user names it
	if err != nil {
		return nil, err //nolint:wrapcheck // read says what failed
	}
	defer func() { _ = file.Close() }() // nothing was written
	text := new(longtext.Text)
	_, err = io.Copy(text, file)
	return text, err //nolint:wrapcheck // read says what failed
}

// kindOf returns a note without what it names.
func kindOf(note string) string {
	for _, kind := range []string{"the reference ", "the schema "} {
		if strings.HasPrefix(note, kind) {
			_, rest, _ := strings.Cut(strings.TrimPrefix(note, kind), " ")
			return kind + "… " + rest
		}
	}
	return note
}

// check has the schemas of an action read by a validator that is not ours.
func (c *corpus) check(path string, r *documents.Result) {
	for _, schema := range [][]byte{r.Action.Input, r.Action.Output} {
		if schema == nil {
			continue
		}
		c.checked++
		if err := compile(schema); err != nil {
			c.broken++
			if c.firstBroken == "" {
				c.firstBroken = fmt.Sprintf("%s: %s %s: %v", path, r.Method, r.Path, err)
			}
		}
	}
}

func compile(schema []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("schema.json", v); err != nil {
		return fmt.Errorf("add the schema: %w", err)
	}
	if _, err := compiler.Compile("schema.json"); err != nil {
		return fmt.Errorf("compile the schema: %w", err)
	}
	return nil
}

func (c *corpus) print(w io.Writer, slowest int) error {
	left := sum(c.left)
	total := max(1, c.actions+left)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var took time.Duration
	for _, one := range c.times {
		took += one.took
	}
	_, _ = fmt.Fprintf(t, "documents read\t%d of %d in %v\n", c.documents, c.documents+sum(c.refused),
		took.Round(time.Millisecond))
	_, _ = fmt.Fprintf(t, "operations\t%d, of which %d (%.2f %%) became actions\n", total, c.actions,
		100*float64(c.actions)/float64(total))
	_, _ = fmt.Fprintf(t, "names\t%d that two actions of a document have, %d that are too long\n", c.twice, c.long)
	if c.every > 0 {
		_, _ = fmt.Fprintf(t, "schemas\t%d checked, %d not valid %s\n", c.checked, c.broken, c.firstBroken)
	}
	c.formats.report(t)
	for _, level := range risk.Levels() {
		_, _ = fmt.Fprintf(t, "risk %s\t%d\n", level, c.levels[level])
	}
	for _, group := range []struct {
		title string
		count map[string]int
	}{{"refused", c.refused}, {"left out", c.left}, {"note", c.notes}} {
		for _, reason := range sorted(group.count) {
			_, _ = fmt.Fprintf(t, "%s\t%d: %s\n", group.title, group.count[reason], reason)
		}
	}
	slices.SortFunc(c.times, func(a, b timed) int { return int(b.took - a.took) })
	for _, one := range c.times[:min(slowest, len(c.times))] {
		_, _ = fmt.Fprintf(t, "slow\t%v for %.1f MB: %s\n", one.took.Round(time.Millisecond), float64(one.bytes)/1e6,
			one.path)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the figures: %w", err)
	}
	return nil
}

func sum(count map[string]int) (n int) {
	for _, c := range count {
		n += c
	}
	return n
}

// sorted returns the keys, the most frequent first.
func sorted(count map[string]int) []string {
	var keys []string
	for key := range count {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	return keys
}
