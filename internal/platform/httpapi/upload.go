package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
)

// octetStream is the media type of a body that is a file. The fields of the operation's JSON body are query parameters
// then.
const octetStream = "application/octet-stream"

// uploadTime is how long a file may take to arrive.
const uploadTime = 10 * time.Minute

// Upload returns the file that the request has as its body, and nil for a request whose body is JSON. It is read as it
// arrives, and may be longer than the operation accepts.
func Upload(ctx context.Context) io.Reader { return callFrom(ctx).upload }

// acceptUpload takes a body that is a file for operations with Upload, and makes a JSON body of the query parameters,
// which has the operation's rules. It returns false if it has written an error.
func (op Operation) acceptUpload(w http.ResponseWriter, r *http.Request, c *call, registry huma.Registry,
	body *huma.Schema) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if !op.Upload || err != nil || media != octetStream {
		return true
	}
	if len(r.Header.Values(keyHeader)) > 0 {
		WriteError(w, r, apperr.Invalid(apperr.Detail{Location: "header." + keyHeader, Rule: "upload",
			Message: "cannot be sent with a file, whose content it would not cover"}))
		return false
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		WriteError(w, r, apperr.HTTP(http.StatusUnsupportedMediaType, "Send the file without a Content-Encoding"))
		return false
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(query))...),
		func(value string) bool { return !utf8.ValidString(value) }) {
		WriteError(w, r, apperr.Invalid(apperr.Detail{Location: "query", Rule: "format",
			Message: "must be parameters of UTF-8 text, joined by & and escaped"}))
		return false
	}
	text, err := json.Marshal(fieldsOf(query, registry, resolveRef(registry, body)))
	if err != nil {
		WriteError(w, r, err)
		return false
	}
	_ = http.NewResponseController(w).SetReadDeadline(clock.System().Now().Add(uploadTime))
	c.upload = r.Body
	r.Body = io.NopCloser(bytes.NewReader(text))
	r.ContentLength = int64(len(text))
	r.Header.Set("Content-Type", "application/json")
	r.URL.RawQuery = ""
	return true
}

// fieldsOf returns query parameters as the fields of a body. A value that a field cannot have stays text, which its
// rules refuse.
func fieldsOf(query url.Values, registry huma.Registry, body *huma.Schema) map[string]any {
	fields := map[string]any{}
	for name, values := range query {
		var schema *huma.Schema
		if body != nil {
			schema = resolveRef(registry, body.Properties[name])
		}
		switch {
		case schema != nil && schema.Type == huma.TypeArray:
			fields[name] = slices.Clone(values)
		case schema != nil && schema.Type == huma.TypeBoolean && len(values) == 1:
			fields[name] = values[0]
			if b, err := strconv.ParseBool(values[0]); err == nil {
				fields[name] = b
			}
		case len(values) == 1:
			fields[name] = values[0]
		default:
			fields[name] = slices.Clone(values) // which no text is
		}
	}
	return fields
}

// documentUpload adds the media type to the document.
func documentUpload(ho *huma.Operation, op Operation) {
	if op.Upload {
		ho.RequestBody.Content[octetStream] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary",
			Description: "The document itself. The fields of the JSON body but `document` are query parameters then."}}
	}
}
