package main

import (
	"encoding/json"
	"fmt"
	"io"

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
