package rendering

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strings"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/actions"
)

// MaxFileBytes is how large a file in an input may be.
const MaxFileBytes = 10 << 20

const (
	typeJSON      = "application/json"
	typeForm      = "application/x-www-form-urlencoded"
	typeMultipart = "multipart/form-data"
	typeBytes     = "application/octet-stream"
)

// isJSON reports whether a media type is JSON.
func isJSON(mediaType string) bool {
	return mediaType == typeJSON || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

// writeBody returns the body, and sets its content type; nil for a request without one.
func (r *renderer) writeBody() ([]byte, error) {
	kind := r.action.Body.ContentType
	switch {
	case kind == "" && r.action.Body.GraphQL == "":
		return nil, nil
	case r.action.Body.GraphQL != "":
		r.contentType = typeJSON
		return r.graphQL()
	case r.whole.Exists():
		return r.writeWhole(kind)
	case len(r.members) == 0 && !r.action.Body.Required:
		return nil, nil
	}
	r.contentType = kind
	switch {
	case isJSON(kind):
		return objectOf(r.members), nil
	case kind == typeForm:
		return r.form()
	case strings.HasPrefix(kind, "multipart/"):
		return r.multipart()
	default:
		return objectOf(r.members), nil
	}
}

// objectOf writes members as an object of JSON. Values stay as they were given.
func objectOf(list []member) []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range list {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(quote(m.parameter.Name))
		out.WriteByte(':')
		out.Write(m.value.Raw())
	}
	out.WriteByte('}')
	return out.Bytes()
}

// quote writes a text as JSON.
func quote(text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		return []byte(`""`) // a string is always encoded
	}
	return quoted
}

// graphQL writes the operation with its variables.
func (r *renderer) graphQL() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(`{"query":`)
	out.Write(quote(r.action.Body.GraphQL))
	out.WriteString(`,"variables":`)
	out.Write(objectOf(r.members))
	out.WriteByte('}')
	return out.Bytes(), nil
}

// form writes the members as a form.
func (r *renderer) form() ([]byte, error) {
	values := url.Values{}
	for _, m := range r.members {
		if m.value.Kind() == jsonindex.Null { // which removes a value at providers that take forms
			values.Add(m.parameter.Name, "")
			continue
		}
		if err := addPairs(m.parameter, m.value, values.Add); err != nil {
			return nil, err
		}
	}
	return []byte(values.Encode()), nil
}

// multipart writes the members as parts (RFC 7578).
func (r *renderer) multipart() ([]byte, error) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for _, m := range r.members {
		if err := writePart(w, m.parameter, m.value); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write a multipart body: %w", err)
	}
	r.contentType = mime.FormatMediaType(r.action.Body.ContentType, map[string]string{"boundary": w.Boundary()})
	return out.Bytes(), nil
}

func writePart(w *multipart.Writer, p *actions.Parameter, v jsonindex.Value) error {
	switch f, isFile, err := fileOf(p, v); {
	case err != nil:
		return err
	case isFile:
		return writeFile(w, p.Name, f)
	}
	if v.Kind() == jsonindex.Array && !p.JSON {
		for item := range v.Items() {
			if err := writePart(w, p, item); err != nil {
				return err
			}
		}
		return nil
	}
	if v.Kind() == jsonindex.Object { // RFC 7578 has no form for it, and OpenAPI writes JSON
		part, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {disposition(p.Name, "")}, "Content-Type": {typeJSON}})
		if err == nil {
			_, err = part.Write(v.Raw())
		}
		return err //nolint:wrapcheck // a buffer does not fail
	}
	text, err := scalar(p, v)
	if err != nil {
		return err
	}
	return w.WriteField(p.Name, text) //nolint:wrapcheck // a buffer does not fail
}

func writeFile(w *multipart.Writer, name string, f *file) error {
	filename := f.name
	if filename == "" {
		filename = "file"
	}
	part, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {disposition(name, filename)}, "Content-Type": {f.contentType}})
	if err == nil {
		_, err = part.Write(f.content)
	}
	return err //nolint:wrapcheck // a buffer does not fail
}

// disposition returns the header of a part. Quotes and line ends in names are escaped as browsers do.
func disposition(name, filename string) string {
	escape := strings.NewReplacer("\\", "\\\\", `"`, "%22", "\r", "%0D", "\n", "%0A")
	out := `form-data; name="` + escape.Replace(name) + `"`
	if filename != "" {
		out += `; filename="` + escape.Replace(filename) + `"`
	}
	return out
}

// file is a file in an input.
type file struct {
	content           []byte
	name, contentType string
}

// fileOf reads a file: an object of base64, filename and content_type, and no other.
func fileOf(p *actions.Parameter, v jsonindex.Value) (*file, bool, error) {
	if v.Kind() != jsonindex.Object || v.Get("base64").Kind() != jsonindex.String {
		return nil, false, nil
	}
	for name := range v.Members() {
		if name != "base64" && name != "filename" && name != "content_type" {
			return nil, false, nil
		}
	}
	f := &file{name: v.Get("filename").String(), contentType: v.Get("content_type").String()}
	text := v.Get("base64").String()
	if base64.StdEncoding.DecodedLen(len(text)) > MaxFileBytes+base64.StdEncoding.DecodedLen(4) {
		return nil, true, &InputError{join(p.Property, "base64"), "is larger than 10 MiB"}
	}
	var err error
	if f.content, err = base64.StdEncoding.DecodeString(text); err != nil {
		if f.content, err = base64.RawStdEncoding.DecodeString(text); err != nil {
			return nil, true, &InputError{join(p.Property, "base64"), "must be base64 (RFC 4648, section 4)"}
		}
	}
	if len(f.content) > MaxFileBytes {
		return nil, true, &InputError{join(p.Property, "base64"), "is larger than 10 MiB"}
	}
	switch {
	case f.contentType == "":
		f.contentType = typeBytes
	case !validMediaType(f.contentType):
		return nil, true, &InputError{join(p.Property, "content_type"), "must be a media type such as image/png"}
	}
	return f, true, nil
}

func validMediaType(text string) bool {
	kind, _, err := mime.ParseMediaType(text)
	return err == nil && strings.Contains(kind, "/")
}

// writeWhole writes a value that is the whole body.
func (r *renderer) writeWhole(kind string) ([]byte, error) {
	p := r.wholeParameter()
	switch f, isFile, err := fileOf(p, r.whole); {
	case err != nil:
		return nil, err
	case isFile:
		if r.contentType = f.contentType; r.whole.Get("content_type").String() == "" && !isJSON(kind) {
			r.contentType = kind
		}
		return f.content, nil
	}
	r.contentType = kind
	switch text, isText := r.whole.Text(); {
	case isJSON(kind):
		return r.whole.Raw(), nil
	case isText:
		return []byte(text), nil
	case kind == typeForm && r.whole.Kind() == jsonindex.Object:
		values := url.Values{}
		for name, one := range r.whole.Members() {
			member := actions.Parameter{Property: p.Property, Name: name, Explode: true}
			if err := addPairs(&member, one, values.Add); err != nil {
				return nil, err
			}
		}
		return []byte(values.Encode()), nil
	default:
		return r.whole.Raw(), nil
	}
}

func (r *renderer) wholeParameter() *actions.Parameter {
	for i := range r.action.Parameters {
		if p := &r.action.Parameters[i]; p.Place == actions.AsBody {
			return p
		}
	}
	return &actions.Parameter{}
}
