// Package reference prints the documents that are generated from the code: the OpenAPI document and the pages of
// docs/reference.
package reference

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"sallyport/internal/app"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
)

// apiVersion is the version that the published document carries: that of the API, which a build without a change to the
// API leaves as it is.
const apiVersion = "1"

// Document returns the OpenAPI document. It needs neither configuration nor database.
func Document() ([]byte, error) {
	return API().Document()
}

// API returns the API that Document describes. It serves nothing.
func API() *httpapi.API {
	api := httpapi.New(httpapi.Config{Version: apiVersion})
	for _, m := range app.Declared() {
		if m.Mount != nil {
			m.Mount(api)
		}
	}
	return api
}

const errorCodesIntro = `# Error codes

Generated from the code by ` + "`sallyport openapi --error-codes`" + `; do not edit.

Every error is one envelope, ` + "`" + `{"error":{"code":"…","message":"…"}}` + "`" + `. Codes are a closed set and do not change their meaning;
messages are for people and may. A code without a status of its own comes with the one that HTTP has for the case.

| Code | Status | Meaning |
|---|---|---|
`

// ErrorCodes writes docs/reference/error-codes.md: one table of every code of the API.
func ErrorCodes(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(errorCodesIntro)
	for _, c := range apperr.Codes() {
		status := "its own"
		if c.Status != 0 {
			status = strconv.Itoa(c.Status)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Code, status, c.Meaning)
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write the error codes: %w", err)
	}
	return nil
}
