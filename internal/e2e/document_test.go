package e2e_test

import (
	"bytes"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/reference"
)

const documentURL = "openapi.json"

// document is the published OpenAPI document. Its JSON is kept as parsed, for looking around in it.
type document struct {
	root     map[string]any
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

// published returns the document, read once for all tests.
func published() *document { return theDocument() }

var theDocument = sync.OnceValue(func() *document {
	text, err := reference.Document()
	if err != nil {
		panic(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	root, ok := parsed.(map[string]any)
	if !ok {
		panic("the document is no object")
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020) // the dialect of OpenAPI 3.1
	c.AssertFormat()
	if err := c.AddResource(documentURL, parsed); err != nil {
		panic(err)
	}
	return &document{root: root, compiler: c, schemas: map[string]*jsonschema.Schema{}}
})

// at returns what lies under the names, or nil.
func at(v any, names ...string) any {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// members returns an object's members; of anything else, none.
func members(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// text returns a string; of anything else, "".
func text(v any) string {
	s, _ := v.(string)
	return s
}

// resolve follows a reference to a component.
func (d *document) resolve(v any) map[string]any {
	s := members(v)
	if ref := text(s["$ref"]); ref != "" {
		return members(at(d.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
	}
	return s
}

// route returns the path template that the path of a request, prefix and all, belongs to: of several, the one with the
// fewest parameters, as the server has it.
func (d *document) route(path string) (string, bool) {
	found, known := "", false
	for _, template := range d.routes(path) {
		if !known || strings.Count(template, "{") < strings.Count(found, "{") {
			found, known = template, true
		}
	}
	return found, known
}

// routes returns every path template that fits the path of a request.
func (d *document) routes(path string) (list []string) {
	segments := strings.Split(strings.TrimPrefix(path, prefix), "/")
	for template := range members(d.root["paths"]) {
		if parts := strings.Split(template, "/"); len(parts) == len(segments) && fits(parts, segments) {
			list = append(list, template)
		}
	}
	return list
}

func fits(parts, segments []string) bool {
	for i, p := range parts {
		if !strings.HasPrefix(p, "{") && p != segments[i] {
			return false
		}
	}
	return true
}

// check compares a response with the document's description of its operation: the status is listed, and the body
// matches the schema. Responses of HTTP itself (code http_error) may come from anywhere and are not listed.
func (d *document) check(t *testing.T, a response) {
	t.Helper()
	template, ok := d.route(a.path)
	if !ok {
		return
	}
	responses := members(at(d.root, "paths", template, strings.ToLower(a.method), "responses"))
	if responses == nil || bytes.Contains(a.body, []byte(`"`+string(apperr.CodeHTTP)+`"`)) {
		return
	}
	status := strconv.Itoa(a.status)
	if responses[status] == nil && responses[status[:1]+"XX"] != nil {
		status = status[:1] + "XX"
	}
	require.Contains(t, responses, status, "%s %s: an answer that the document does not announce: %s", a.method, template,
		a.body)
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")) // none is none of those announced
	if a.method == http.MethodHead || at(responses[status], "content", "*/*") != nil && media != "application/json" {
		return
	}
	if media != "application/json" && at(responses[status], "content", media) != nil {
		return // an export or a stream of events, which its own test reads
	}
	if at(responses[status], "content", "application/json", "schema") == nil {
		require.Empty(t, a.body, "%s %s: a body that the document does not announce", a.method, template)
		return
	}
	schema := d.schema(t, "paths", template, strings.ToLower(a.method), "responses", status, "content", "application/json",
		"schema")
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	require.NoError(t, err, "%s", a.body)
	require.NoError(t, schema.Validate(body), "%s %s %s: %s", a.method, template, status, a.body)
	if code := text(at(body, "error", "code")); code != "" && a.status >= http.StatusBadRequest {
		d.checkExample(t, a.method+" "+template+" "+status, responses[status], code, text(at(body, "error", "message")))
	}
}

// checkExample compares an error with the examples of its response: one of them has its code and its message. Numbers
// differ, and a message may go on where the example ends, as with the place where a permission is missing.
func (d *document) checkExample(t *testing.T, where string, response any, code, message string) {
	t.Helper()
	if code == string(apperr.CodeSSOFailed) || code == string(apperr.CodeSSOUnavailable) {
		return // their messages say what a provider did, which can be anything
	}
	if code == string(apperr.CodeUnavailable) && strings.HasPrefix(message, "This node only sends deliveries") {
		return // a worker returns it for every path, and serves no operation
	}
	var known []string
	for _, v := range members(at(response, "content", "application/json", "examples")) {
		e := at(d.resolve(v), "value", "error")
		if text(at(e, "code")) == code {
			known = append(known, text(at(e, "message")))
		}
	}
	for _, example := range known {
		if strings.HasPrefix(withoutNumbers(message), withoutNumbers(example)) {
			return
		}
	}
	require.Contains(t, known, message, "%s: no example of %s has the message", where, code)
}

func withoutNumbers(message string) string { return numbers().ReplaceAllString(message, "0") }

var numbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+`) })

// schema compiles the schema at a place in the document.
func (d *document) schema(t *testing.T, names ...string) *jsonschema.Schema {
	t.Helper()
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	var b strings.Builder
	for _, n := range names {
		b.WriteString("/" + escape.Replace(n))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	place := b.String()
	if s := d.schemas[place]; s != nil {
		return s
	}
	s, err := d.compiler.Compile(documentURL + "#" + place)
	require.NoError(t, err)
	d.schemas[place] = s
	return s
}
