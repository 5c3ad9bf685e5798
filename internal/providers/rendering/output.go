package rendering

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"sallyport/internal/platform/jsonindex"
)

// maxOutputDepth is how deep the JSON of a response may be nested.
const maxOutputDepth = 1000

// Decompress returns a body without the content codings gzip and deflate (RFC 9110, section 8.4), which a provider may
// use unasked. The second result is true if it was cut at the limit in bytes, as a body is that was cut before. A
// coding that cannot be undone is an error.
func Decompress(header http.Header, body []byte, cut bool, limit int) ([]byte, bool, error) {
	if len(body) == 0 {
		return body, cut, nil // a response without a body, such as 204, may name a coding all the same
	}
	coding := strings.ToLower(strings.TrimSpace(header.Get("Content-Encoding")))
	var r io.Reader
	var err error
	switch coding {
	case "", "identity":
		return body, cut, nil
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		r, err = zlib.NewReader(bytes.NewReader(body))
	default:
		return nil, cut, errCoding
	}
	if err != nil {
		return nil, cut, fmt.Errorf("%w: %w", errCoding, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case len(plain) > limit:
		return plain[:limit], true, nil
	case err != nil && cut && errors.Is(err, io.ErrUnexpectedEOF):
		return plain, true, nil
	case err != nil:
		return nil, cut, fmt.Errorf("%w: %w", errCoding, err)
	}
	return plain, cut, nil
}

var errCoding = errors.New("the content coding of the response cannot be undone")

// Output returns the body of a response as a JSON value: JSON as it is, another text as an object of content_type and
// text, other bytes as one of content_type and base64, and null for an empty body. A body that was cut is a text or
// bytes, also if it was JSON.
func Output(contentType string, body []byte, cut bool) json.RawMessage {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = ""
	}
	if len(bytes.TrimSpace(body)) == 0 && !cut {
		return json.RawMessage("null")
	}
	if !cut && (isJSON(kind) || kind == "") {
		text := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff"))) // a byte order mark is no JSON (RFC 8259)
		if _, err := jsonindex.Parse(text, maxOutputDepth); err == nil {
			return text
		}
	}
	if kind == "" {
		kind = typeBytes
	}
	out := []byte(`{"content_type":`)
	out = append(out, quote(kind)...)
	if cut {
		body = trimRune(body)
	}
	if utf8.Valid(body) && !isBinary(kind) {
		out = append(out, `,"text":`...)
		out = append(out, quote(string(body))...)
	} else {
		out = append(out, `,"base64":"`...)
		out = base64.StdEncoding.AppendEncode(out, body)
		out = append(out, '"')
	}
	return append(out, '}')
}

// trimRune removes the beginning of a character that was cut.
func trimRune(b []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// isBinary reports whether content of a media type is bytes, although it may look like text.
func isBinary(kind string) bool {
	for _, family := range []string{"image/", "audio/", "video/", "font/"} {
		if strings.HasPrefix(kind, family) && kind != "image/svg+xml" {
			return true
		}
	}
	return kind == "application/pdf" || kind == "application/zip"
}
