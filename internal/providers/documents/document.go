// Package documents reads published descriptions of APIs into actions. Documents are foreign input. See README.md.
package documents

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/platform/longtext"
	"sallyport/internal/providers/actions"
)

// Limits of documents.
const (
	// MaxBytes is the size of the largest document.
	MaxBytes = 64 << 20
	// MaxOperations is how many operations a document has at most.
	MaxOperations = 50_000
	// maxDepth is how many arrays and objects are within each other at most.
	maxDepth = 500
	// maxSchema is the size of the largest schema of an action, in bytes. Larger ones lose their deepest parts.
	maxSchema = 64 << 10
)

// Format is how a document describes an API.
type Format string

// The formats.
const (
	OpenAPI30 Format = "openapi-3.0"
	OpenAPI31 Format = "openapi-3.1"
	Swagger2  Format = "swagger-2.0"
	Discovery Format = "google-discovery"
)

// Problem says why a document, or a part of it, cannot be read. Line and Column are those of its text, from 1; 0 where
// they are not known.
type Problem struct {
	Line, Column int
	Message      string
}

// Error implements error.
func (p *Problem) Error() string {
	switch {
	case p.Line == 0:
		return p.Message
	case p.Column == 0:
		return fmt.Sprintf("line %d: %s", p.Line, p.Message)
	}
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Message)
}

// Document is a description of an API. It is not safe for concurrent use.
type Document struct {
	Format Format
	// Title and Version are the API's; empty where the document has none.
	Title, Version string
	root           jsonindex.Value
	// isYAML is true of a document that was converted, so that columns are not those of its text.
	isYAML bool
	// patterns are the regular expressions that were seen, and whether they can be used.
	patterns map[string]bool
	// names are those of definitions by the place of their schema, and fragments their texts.
	names     map[uint32]string
	taken     map[string]bool
	fragments map[fragmentKey]*fragment
	// spare is the memory of a schema that was written, for the next one.
	spare []byte
	// graphql is nil for other formats.
	graphql *gqlSchema
	// carriers are the parameters with credentials; nil before they are needed.
	carriers *credentialNames
	// located counts the operations whose places were looked for.
	located int
	// urls are the URLs of its servers; nil before they are needed.
	urls []string
	// steps is how many parts of schemas were looked at to find pages.
	steps int
}

// Open reads a document in JSON. Errors are *Problem.
func Open(text []byte) (*Document, error) { return open(longtext.Of(text)) }

func open(text *longtext.Text) (*Document, error) {
	if text.Len() > MaxBytes {
		return nil, &Problem{Message: fmt.Sprintf("the document has more than %d MiB", MaxBytes>>20)}
	}
	x, err := jsonindex.ParseLong(text, maxDepth)
	if err != nil {
		var syntax *jsonindex.SyntaxError
		if errors.As(err, &syntax) {
			return nil, &Problem{syntax.Line, syntax.Column, syntax.Message}
		}
		return nil, &Problem{Message: err.Error()}
	}
	if root := x.Root(); root.Get("__schema").Exists() || root.Path("data", "__schema").Exists() {
		return OpenGraphQL(text.Bytes())
	}
	d := &Document{root: x.Root(), patterns: map[string]bool{}, names: map[uint32]string{},
		taken: map[string]bool{}, fragments: map[fragmentKey]*fragment{}}
	if d.Format, err = formatOf(d.root); err != nil {
		return nil, err
	}
	info := d.root.Get("info")
	if d.Format == Discovery {
		info = d.root
	}
	d.Title, d.Version = line(info.Get("title"), maxTitle), short(versionOf(info.Get("version")), maxTitle)
	return d, nil
}

func formatOf(root jsonindex.Value) (Format, error) {
	if root.Kind() != jsonindex.Object {
		return "", problemAt(root, "expected an object, not "+root.Kind().String())
	}
	openapi, swagger, kind := root.Get("openapi"), root.Get("swagger"), root.Get("kind")
	switch version := versionOf(openapi); {
	case strings.HasPrefix(version, "3.0"):
		return OpenAPI30, nil
	case strings.HasPrefix(version, "3.1"):
		return OpenAPI31, nil
	case openapi.Exists():
		return "", problemAt(openapi, "the version of OpenAPI must be 3.0 or 3.1")
	case swagger.Exists() && versionOf(swagger) != "2.0":
		return "", problemAt(swagger, "the version of Swagger must be 2.0")
	case swagger.Exists():
		return Swagger2, nil
	case kind.String() == discoveryKind && root.Get("discoveryVersion").String() != "v1":
		return "", problemAt(kind, "the version of Google Discovery must be v1")
	case kind.String() == discoveryKind:
		return Discovery, nil
	default:
		return "", &Problem{Message: "the document has none of openapi, swagger, __schema and the kind " +
			discoveryKind + ", so it is no description of an API that can be read"}
	}
}

// versionOf returns a version. Documents in YAML often have it without quotes, so that it is a number.
func versionOf(v jsonindex.Value) string {
	if v.Kind() == jsonindex.Number {
		return string(v.Raw())
	}
	return line(v, maxTitle)
}

func problemAt(v jsonindex.Value, message string) *Problem {
	at, column := v.Place()
	return &Problem{at, column, message}
}

// Result is an operation of a document: an action, or the reason why there is none.
type Result struct {
	Action *actions.Action
	// Method and Path name the operation, and Left is why it was left out; nil if it was not. Of a GraphQL schema, they
	// are query, mutation or subscription, and the name of the field.
	Method, Path string
	Left         *Problem
	// Notes say what of its description the action does not have.
	Notes []string
}

// operation is a place in a document that describes an operation.
type operation struct {
	method, path string
	// item is the path's and own the operation's.
	item, own jsonindex.Value
	// id is what the operation is called in words, and name the name of its action.
	id, name string
	// of distinguishes it from others with its name.
	of string
	// tag groups it where it has no tags of its own.
	tag string
	// reserved are names in the path whose values are several segments.
	reserved []string
	// left says why it becomes no action; empty if it does.
	left string
}

// methods are the members of a path that are operations.
func methods() []string {
	return []string{"get", "put", "post", "delete", "patch", "head", "options", "trace", "query"}
}

// Operations returns the operations of the document in its order. Each is read when it is asked for, and nothing of it
// is kept but the definitions that it shares with others. The error is a *Problem of the document as a whole; there is
// none after the first operation.
func (d *Document) Operations() (iter.Seq[Result], error) {
	if d.graphql != nil {
		return d.graphql.operations()
	}
	list, problem := d.find()
	if problem != nil && d.isYAML {
		problem = problem.withoutColumn()
	}
	if problem != nil {
		return nil, problem
	}
	return func(yield func(Result) bool) {
		for i := range list {
			r := d.read(&list[i])
			if d.isYAML {
				r.Left = r.Left.withoutColumn()
			}
			if !yield(r) {
				return
			}
		}
	}, nil
}

// find lists the operations with their names. Names that two have get a part that distinguishes them.
func (d *Document) find() ([]operation, *Problem) {
	list, problem := d.list()
	if problem != nil {
		return nil, problem
	}
	count := map[string]int{}
	for i := range list {
		count[list[i].name]++
	}
	taken := map[string]bool{}
	for i := range list {
		o := &list[i]
		if count[o.name] > 1 {
			o.name = actions.Distinct(o.name, o.method, o.of)
		}
		if taken[o.name] && o.left == "" {
			o.left = "another operation of the document has the same name, method and path"
		}
		taken[o.name] = true
	}
	return list, nil
}

// list returns the operations with the names that they have alone.
func (d *Document) list() ([]operation, *Problem) {
	if d.Format == Discovery {
		return d.listMethods()
	}
	paths := d.root.Get("paths")
	if paths.Exists() && paths.Kind() != jsonindex.Object {
		return nil, problemAt(paths, "paths must be an object, not "+paths.Kind().String())
	}
	var list []operation
	for path, item := range paths.Members() {
		if ref := item.Get("$ref"); ref.Kind() == jsonindex.String && !d.resolve(item).Exists() {
			list = append(list, operation{method: anyMethod, path: path, of: path, own: item,
				name: actions.Name("", anyMethod, path),
				left: "the reference " + quote(ref.String()) + " leads to nothing in the document, and references out of it are " +
					"not followed"})
			continue
		}
		item = d.resolve(item)
		for method, own := range item.Members() {
			if !isMethod(method) || own.Kind() != jsonindex.Object {
				continue
			}
			if len(list) == MaxOperations {
				return nil, tooMany(own)
			}
			o := operation{method: strings.ToUpper(method), path: path, of: path, item: item, own: own,
				id: own.Get("operationId").String()}
			o.name = actions.Name(o.id, o.method, path)
			list = append(list, o)
		}
	}
	return list, nil
}

// anyMethod stands for the methods of a path that is described elsewhere.
const anyMethod = "ANY"

func tooMany(v jsonindex.Value) *Problem {
	return problemAt(v, fmt.Sprintf("the document has more than %d operations", MaxOperations))
}

func isMethod(name string) bool {
	for _, m := range methods() {
		if name == m {
			return true
		}
	}
	return false
}

// maxReferences is how many references may lead to each other.
const maxReferences = 32

// resolve follows references within the document. One that leads to nothing there is absent.
func (d *Document) resolve(v jsonindex.Value) jsonindex.Value {
	for range maxReferences {
		ref := v.Get("$ref")
		if ref.Kind() != jsonindex.String {
			return v
		}
		v = d.target(ref.String())
	}
	return jsonindex.Value{}
}

// target returns what a reference names; absent for one that leads out of the document.
func (d *Document) target(ref string) jsonindex.Value {
	if d.Format == Discovery {
		return d.root.Get("schemas").Get(ref)
	}
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		return jsonindex.Value{}
	}
	if fragment == "" {
		return d.root
	}
	return d.root.Pointer(unescapeURI(fragment))
}

// unescapeURI undoes the escapes of a fragment, as far as they are well-formed.
func unescapeURI(fragment string) string {
	if !strings.Contains(fragment, "%") {
		return fragment
	}
	var out strings.Builder
	for i := 0; i < len(fragment); i++ {
		if fragment[i] == '%' && i+2 < len(fragment) {
			if high, low := digit(fragment[i+1]), digit(fragment[i+2]); high >= 0 && low >= 0 {
				out.WriteByte(byte(high<<4 | low)) //nolint:gosec // two digits are a byte
				i += 2
				continue
			}
		}
		out.WriteByte(fragment[i])
	}
	return out.String()
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	default:
		return -1
	}
}

// Limits of texts, in bytes.
const (
	maxTitle       = 200
	maxDescription = 4096
	maxTag         = 100
	maxTags        = 20
)

// line returns a text on one line, without control characters.
func line(v jsonindex.Value, limit int) string {
	return short(strings.Join(strings.Fields(printable(v.String())), " "), limit)
}

// prose returns a text of several lines.
func prose(v jsonindex.Value, limit int) string {
	return short(strings.TrimSpace(printable(strings.ReplaceAll(v.String(), "\r\n", "\n"))), limit)
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || isBidi(r) {
			return -1
		}
		return r
	}, text)
}

// isBidi reports whether a character changes the direction of text, so that what is shown is not what is there.
func isBidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f
}

// short cuts a text at a character, and shows that it was cut.
func short(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return strings.TrimSpace(text[:end]) + "…"
}

// OpenAny reads a document of any format: JSON, YAML, or a GraphQL schema as text. A document in JSON is never in
// memory as a whole. Errors are *Problem.
func OpenAny(text *longtext.Text) (*Document, error) {
	// A beginning says all about a document that has a value in it; otherwise, all of it is needed.
	if beginning := text.From(0); Sniff(beginning) == JSON && bytes.ContainsAny(beginning, `"[}`) {
		return open(text)
	}
	switch all := text.Bytes(); Sniff(all) {
	case YAML:
		return OpenYAML(all)
	case Other:
		return OpenGraphQL(all)
	default:
		return open(text)
	}
}
