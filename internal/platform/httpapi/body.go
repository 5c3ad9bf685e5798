package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/suggest"
)

// bodySchema returns the schema of an operation's JSON body, or nil.
func bodySchema(op *huma.Operation) *huma.Schema {
	if op.RequestBody == nil {
		return nil
	}
	if m := op.RequestBody.Content["application/json"]; m != nil {
		return m.Schema
	}
	return nil
}

// maxEmptyBody is the maximum length of a body that counts as empty.
const maxEmptyBody = 64

// strayBody returns the error of a body that is sent to an operation without a body. An empty object is allowed,
// because some clients send one with every POST.
func strayBody(w http.ResponseWriter, r *http.Request) []apperr.Detail {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body, whole := readWhole(w, r, maxEmptyBody)
	if text := string(bytes.TrimSpace(body)); whole && (text == "" || text == "{}") {
		return nil
	}
	return []apperr.Detail{{Location: "body", Rule: "no_body", Message: "the operation takes no body"}}
}

// observedBody passes a body to its observer after it has been read to its end. Huma reads it, with limits of size and
// time.
type observedBody struct {
	io.ReadCloser
	read    bytes.Buffer
	observe func([]byte)
}

// Read reads from the body.
func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Write(p[:n])
	if errors.Is(err, io.EOF) && b.observe != nil {
		b.observe(b.read.Bytes())
		b.observe = nil
	}
	return n, err
}

// inspection finds errors of a body that encoding/json and Huma accept: null for a field that cannot be null, a
// duplicate member, of which one would be ignored, and text that is not Unicode, which would be changed (RFC 7493
// sections 2.1 and 2.3). It also names the field that is probably meant by an unknown one, which Huma only refuses.
type inspection struct {
	body       []byte
	decoder    *json.Decoder
	registry   huma.Registry
	at         []byte // the location
	holder     holder
	guesses    int // how many unknown fields were compared with the known ones
	violations []apperr.Detail
}

// holder is the object that has the present one as a member.
type holder struct {
	schema *huma.Schema
	member string
}

// inspectBody returns the errors of a body. It returns none for a body that is not JSON, which Huma rejects.
func inspectBody(body []byte, registry huma.Registry, schema *huma.Schema) []apperr.Detail {
	if !json.Valid(body) {
		return nil
	}
	i := inspection{body: body, decoder: json.NewDecoder(bytes.NewReader(body)), registry: registry, at: []byte("body")}
	i.decoder.UseNumber()
	i.value(schema)
	return i.violations
}

func (i *inspection) violation(rule, message string) {
	if len(i.violations) < maxDetails {
		location := string(i.at[:min(len(i.at), maxLocation+1)])
		i.violations = append(i.violations, apperr.Detail{Location: location, Rule: rule, Message: message})
	}
}

// value inspects one value. schema is nil if any value is allowed.
func (i *inspection) value(schema *huma.Schema) {
	schema = resolveRef(i.registry, schema)
	token, whole := i.token()
	switch token {
	case json.Delim('{'):
		i.members(schema)
	case json.Delim('['):
		i.items(schema)
	case nil:
		if !nullable(i.registry, schema) {
			i.violation("not_null", "must not be null")
		}
	default:
		if !whole {
			i.violation("text", "must be Unicode text")
		}
	}
}

// token returns the next token, and whether it is the original and not a replacement for invalid text.
func (i *inspection) token() (token json.Token, whole bool) {
	start := i.decoder.InputOffset()
	token, err := i.decoder.Token()
	if err != nil {
		return json.Delim(0), true // impossible: the body is valid
	}
	if s, ok := token.(string); ok && strings.ContainsRune(s, utf8.RuneError) {
		return token, isUnicode(i.body[start:i.decoder.InputOffset()])
	}
	return token, true
}

func (i *inspection) members(schema *huma.Schema) {
	seen := map[string]bool{}
	outer, held := len(i.at), i.holder
	for i.decoder.More() {
		token, whole := i.token()
		name, _ := token.(string)
		i.at = append(append(i.at, '.'), name...)
		switch {
		case !whole:
			i.violation("text", "the name must be Unicode text")
		case seen[name]:
			i.violation("duplicate", "the field occurs twice")
		default:
			i.unknown(schema, name)
		}
		seen[name] = true
		i.holder = holder{schema, name}
		i.value(member(schema, name))
		i.at, i.holder = i.at[:outer], held
	}
	i.token() // the closing brace
}

// units are those of quantities in names of fields, also ones that no field has.
var units = []string{ //nolint:gochecknoglobals // a constant list
	"ms", "millis", "milliseconds", "s", "sec", "secs", "seconds", "min", "minutes", "hours", "days", "bytes", "kb", "mb",
}

// maxSuggestions limits the unknown names of one request that are compared with known ones.
const maxSuggestions = 10

// unknown reports a member that the object does not have, if one that it has is probably meant.
func (i *inspection) unknown(object *huma.Schema, name string) {
	if object == nil || object.AdditionalProperties != false || object.Properties[name] != nil ||
		i.guesses == maxSuggestions {
		return
	}
	i.guesses++
	known := slices.Sorted(maps.Keys(object.Properties))
	question := suggest.Question(name, known, nil)
	if other := otherUnit(name, known); question == "" && other != "" {
		question = ". Did you mean " + other + "?"
	}
	if outside := i.holder.member + "_" + name; question == "" && i.holder.schema != nil &&
		i.holder.schema.Properties[outside] != nil { // such as webhook_secret for secret in webhook
		question = ". Did you mean " + outside + ", outside of " + i.holder.member + "?"
	}
	if question != "" {
		i.violation("unknown_field", "the field is unknown"+question)
	}
}

// otherUnit returns the known name of the same quantity in another unit, such as timeout_ms for timeout_seconds; empty
// if there is none.
func otherUnit(name string, known []string) string {
	quantity := func(name string) string {
		if at := strings.LastIndexByte(name, '_'); at > 0 && slices.Contains(units, name[at+1:]) {
			return name[:at]
		}
		return ""
	}
	stem := cmp.Or(quantity(name), name)
	for _, other := range known {
		if quantity(other) == stem {
			return other
		}
	}
	return ""
}

func (i *inspection) items(schema *huma.Schema) {
	var each *huma.Schema
	if schema != nil {
		each = schema.Items
	}
	outer := len(i.at)
	for n := 0; i.decoder.More(); n++ {
		i.at = append(strconv.AppendInt(append(i.at, '['), int64(n), 10), ']')
		i.value(each)
		i.at = i.at[:outer]
	}
	i.token() // the closing bracket
}

func resolveRef(registry huma.Registry, s *huma.Schema) *huma.Schema {
	for s != nil && s.Ref != "" {
		s = registry.SchemaFromRef(s.Ref)
	}
	return s
}

// member returns the schema of an object's member. It returns nil if any value is allowed or the member is unknown.
func member(object *huma.Schema, name string) *huma.Schema {
	if object == nil {
		return nil
	}
	if s, ok := object.Properties[name]; ok {
		return s
	}
	s, _ := object.AdditionalProperties.(*huma.Schema) // otherwise a bool
	return s
}

func nullable(registry huma.Registry, s *huma.Schema) bool {
	if s = resolveRef(registry, s); s == nil || s.Nullable || s.Type == "null" {
		return true
	}
	for _, alternatives := range [][]*huma.Schema{s.AnyOf, s.OneOf} {
		for _, a := range alternatives {
			if nullable(registry, a) {
				return true
			}
		}
		if len(alternatives) > 0 {
			return false
		}
	}
	return s.Type == ""
}

// isUnicode reports whether a string of valid JSON is UTF-8 without unpaired surrogates.
func isUnicode(quoted []byte) bool {
	if !utf8.Valid(quoted) {
		return false
	}
	for {
		_, after, found := bytes.Cut(quoted, []byte{'\\'})
		switch {
		case !found:
			return true
		case after[0] != 'u':
			quoted = after[1:]
			continue
		}
		quoted = after[5:]
		first := codeUnit(after[1:5])
		if !utf16.IsSurrogate(first) {
			continue
		}
		if !bytes.HasPrefix(quoted, []byte(`\u`)) || utf16.DecodeRune(first, codeUnit(quoted[2:6])) == utf8.RuneError {
			return false
		}
		quoted = quoted[6:]
	}
}

// codeUnit returns the UTF-16 code unit of four hexadecimal digits.
func codeUnit(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil {
		return utf8.RuneError // impossible: the string is valid
	}
	return rune(n)
}
