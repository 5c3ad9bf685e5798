package cataloghttp

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sallyport/internal/providers/imports"
)

// The functions below are for commands that work on the database and print what the API shows.

// EncodeImport returns the wire form of an import. p is nil for one that cannot be activated.
func EncodeImport(m *imports.Import, p *imports.Preview) (json.RawMessage, error) {
	body := viewImport(m)
	if p != nil {
		body.Preview.Value = viewPreview(m, p)
	}
	return encode(body)
}

// EncodeImportSummary returns the wire form of an import in a list.
func EncodeImportSummary(m *imports.Import) (json.RawMessage, error) {
	return encode(viewImportSummary(m))
}

// EncodeActionChange returns the wire form of what an import changes about an action.
func EncodeActionChange(c *imports.ActionChange) (json.RawMessage, error) {
	return encode(viewChange(c))
}

// encode returns JSON without escapes for HTML.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode an import: %w", err)
	}
	return b.Bytes(), nil
}
