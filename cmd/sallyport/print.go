package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

// printJSON writes v as indented JSON.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// printTable writes rows in aligned columns; the first row is the heading.
func printTable(w io.Writer, rows [][]string) error {
	columns := make([]terminal.Column, len(rows[0]))
	for i, title := range rows[0] {
		columns[i] = terminal.Column{Title: title}
	}
	t := terminal.NewTable(w, terminal.Screen{}, columns...)
	for _, r := range rows[1:] {
		t.Row(r...)
	}
	return t.Flush()
}

// table begins a table on standard output.
func (e *env) table(columns ...terminal.Column) *terminal.Table {
	return terminal.NewTable(e.stdout, terminal.ScreenOf(e.stdout, e.environ), columns...)
}

// tableChunk is the number of rows of a long table that are read before they are printed.
const tableChunk = 250

// list prints a list as rows does.
func (e *env) list(ctx context.Context, c *apiclient.Client, r apiclient.Request, p paging, asJSON bool, noun string,
	t *terminal.Table, add func(t *terminal.Table, row json.RawMessage) error,
) error {
	_, err := e.rows(ctx, c, r, p, asJSON, noun, t, add)
	return err
}

// rows prints the rows of a list, in a table that add fills or as one JSON array, and returns their number. noun names
// the rows.
func (e *env) rows(ctx context.Context, c *apiclient.Client, r apiclient.Request, p paging, asJSON bool, noun string,
	t *terminal.Table, add func(t *terminal.Table, row json.RawMessage) error,
) (n int, err error) {
	if p.Limit < 1 {
		return 0, usageError("--limit must be at least 1")
	}
	array := jsonArray{w: e.stdout}
	more, err := c.Each(ctx, r, p.limit(), func(row json.RawMessage) error {
		n++
		if asJSON {
			return array.add(row)
		}
		if err := add(t, row); err != nil {
			return err
		}
		if n%tableChunk == 0 {
			return t.Flush()
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	if asJSON {
		err = array.end()
	} else {
		err = t.Flush()
	}
	if err == nil && more {
		e.note("There are more %s. --limit shows more, --all shows all.", noun)
	}
	return n, err
}

// jsonArray writes an array of JSON values one by one, formatted as printJSON formats a whole array.
type jsonArray struct {
	w io.Writer
	n int
}

func (a *jsonArray) add(value json.RawMessage) error {
	lead := ",\n  "
	if a.n == 0 {
		lead = "[\n  "
	}
	a.n++
	var b bytes.Buffer
	b.WriteString(lead)
	if err := json.Indent(&b, terminal.JSON(value), "  ", "  "); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return a.write(b.Bytes())
}

func (a *jsonArray) end() error {
	if a.n == 0 {
		return a.write([]byte("[]\n"))
	}
	return a.write([]byte("\n]\n"))
}

func (a *jsonArray) write(b []byte) error {
	if _, err := a.w.Write(b); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// printRaw writes one JSON value of the API.
func printRaw(w io.Writer, value json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, terminal.JSON(value), "", "  "); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	b.WriteByte('\n')
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// printFields writes names and values in two columns and leaves out values that are empty.
func (e *env) printFields(fields [][2]string) error {
	width := 0
	for _, f := range fields {
		width = max(width, len(f[0]))
	}
	for _, f := range fields {
		if f[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(e.stdout, "%-*s  %s\n", width, f[0], terminal.Inline(f[1])); err != nil {
			return err
		}
	}
	return nil
}
