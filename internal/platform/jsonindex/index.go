// Package jsonindex reads parts of large JSON documents without building a tree of them. It checks the whole text once,
// notes where each value is, and decodes only what is asked for. A document of 13 MB costs its own size and some 16
// bytes for each value.
package jsonindex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"
)

// Kind is what a value is.
type Kind uint8

// The kinds. Absent is the kind of the zero Value.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// String names a kind for people, with an article.
func (k Kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// maxBytes is the size of the largest text that has an index.
const maxBytes = math.MaxUint32 - 1

// SyntaxError says where a text stops being JSON. Line and Column begin at 1; Column counts bytes.
type SyntaxError struct {
	Line, Column int
	Message      string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// node is a value, or the name of a member. Nodes are in the order of the text: the children of a node follow it, and a
// name is followed by its value.
type node struct {
	start, end uint32
	// next is the node that follows this one and all in it.
	next uint32
	kind Kind
	// plain is true of a string without escapes.
	plain bool
}

// Nodes are kept in chunks, because a slice that grows has its content twice for a moment.
const (
	chunkBits = 14
	chunkSize = 1 << chunkBits
)

// Index is a text with the places of its values. It is not safe for concurrent use.
type Index struct {
	text   []byte
	chunks [][]node
	count  uint32
	// names are the members of large objects in which something was looked up.
	names map[uint32]map[string]uint32
}

// Parse reads a text as RFC 8259 defines it, in UTF-8 with or without a byte order mark. depth is how many arrays and
// objects may be within each other. It keeps the text, which must not be changed. Errors are *SyntaxError.
func Parse(text []byte, depth int) (*Index, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	x := &Index{text: text, names: map[uint32]map[string]uint32{}}
	if len(text) > maxBytes {
		return nil, x.fail(0, "the text is too large")
	}
	if !utf8.Valid(text) {
		return nil, x.fail(firstInvalid(text), "the text is not UTF-8")
	}
	p := parser{x: x, text: text, depth: depth}
	at, err := p.value(p.skip(0), 0)
	if err != nil {
		return nil, err
	}
	if at = p.skip(at); at != len(text) {
		return nil, x.fail(at, "unexpected text after the end of the document")
	}
	return x, nil
}

func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}

func (x *Index) fail(at int, message string) error {
	line, column := x.place(at)
	return &SyntaxError{Line: line, Column: column, Message: message}
}

// place returns the line and column of an offset, both from 1.
func (x *Index) place(at int) (line, column int) {
	before := x.text[:min(at, len(x.text))]
	return 1 + bytes.Count(before, []byte{'\n'}), len(before) - bytes.LastIndexByte(before, '\n')
}

func (x *Index) at(i uint32) *node { return &x.chunks[i>>chunkBits][i&(chunkSize-1)] }

func (x *Index) add(n node) uint32 {
	if x.count&(chunkSize-1) == 0 {
		x.chunks = append(x.chunks, make([]node, 0, chunkSize))
	}
	last := &x.chunks[len(x.chunks)-1]
	*last = append(*last, n)
	x.count++
	return x.count - 1
}

// Root returns the value that is the document.
func (x *Index) Root() Value { return Value{x, 0} }

// Value is a value of a document. The zero Value is absent: what is asked of it is absent, too, so that paths can be
// followed without a check at each step.
type Value struct {
	x *Index
	i uint32
}

// Kind returns what the value is.
func (v Value) Kind() Kind {
	if v.x == nil {
		return Absent
	}
	return v.x.at(v.i).kind
}

// Exists reports whether the value is there. Null is.
func (v Value) Exists() bool { return v.x != nil }

// ID is the same for two values exactly if they are the same place of one document.
func (v Value) ID() uint32 { return v.i }

// Place returns the line and column at which the value begins, both from 1.
func (v Value) Place() (line, column int) {
	if v.x == nil {
		return 0, 0
	}
	return v.x.place(int(v.x.at(v.i).start))
}

// Raw returns the text of the value; nil for an absent one. It must not be changed.
func (v Value) Raw() []byte {
	if v.x == nil {
		return nil
	}
	n := v.x.at(v.i)
	return v.x.text[n.start:n.end:n.end]
}

// Text returns a string; false for any other value.
func (v Value) Text() (string, bool) {
	if v.Kind() != String {
		return "", false
	}
	return v.x.textOf(v.x.at(v.i)), true
}

// String returns a string, and an empty one for any other value.
func (v Value) String() string {
	text, _ := v.Text()
	return text
}

func (x *Index) textOf(n *node) string {
	if n.plain {
		return string(x.text[n.start+1 : n.end-1])
	}
	var text string
	if err := json.Unmarshal(x.text[n.start:n.end], &text); err != nil {
		return "" // the syntax was checked
	}
	return text
}

// Bool returns a boolean; false for any other value.
func (v Value) Bool() bool { return v.Kind() == Bool && v.Raw()[0] == 't' }

// Int returns a number without a fraction; false for any other value.
func (v Value) Int() (int64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v.Raw()), 10, 64)
	return n, err == nil
}

// Items returns the items of an array; none for any other value.
func (v Value) Items() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != Array {
			return
		}
		for i, end := v.i+1, v.x.at(v.i).next; i < end; i = v.x.at(i).next {
			if !yield(Value{v.x, i}) {
				return
			}
		}
	}
}

// Members returns the members of an object in the order of the text; none for any other value. A name that occurs twice
// comes twice.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Kind() != Object {
			return
		}
		for i, end := v.i+1, v.x.at(v.i).next; i < end; i = v.x.at(i + 1).next {
			if !yield(v.x.textOf(v.x.at(i)), Value{v.x, i + 1}) {
				return
			}
		}
	}
}

// largeObject is how many nodes an object has at least for which names are noted.
const largeObject = 512

// Get returns a member of an object: the last of those with this name, as other readers do. It is absent for any other
// value.
func (v Value) Get(name string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	own := v.x.at(v.i)
	if own.next-v.i >= largeObject {
		return v.look(name)
	}
	found := Value{}
	for i := v.i + 1; i < own.next; i = v.x.at(i + 1).next {
		if v.x.is(v.x.at(i), name) {
			found = Value{v.x, i + 1}
		}
	}
	return found
}

func (x *Index) is(n *node, name string) bool {
	if n.plain {
		return string(x.text[n.start+1:n.end-1]) == name
	}
	return x.textOf(n) == name
}

func (v Value) look(name string) Value {
	names, known := v.x.names[v.i]
	if !known {
		names = map[string]uint32{}
		for i, end := v.i+1, v.x.at(v.i).next; i < end; i = v.x.at(i + 1).next {
			names[v.x.textOf(v.x.at(i))] = i + 1
		}
		v.x.names[v.i] = names
	}
	if i, found := names[name]; found {
		return Value{v.x, i}
	}
	return Value{}
}

// Path follows members.
func (v Value) Path(names ...string) Value {
	for _, name := range names {
		v = v.Get(name)
	}
	return v
}

// Pointer follows a JSON pointer (RFC 6901) from a value. A text that is none leads to nothing.
func (v Value) Pointer(pointer string) Value {
	for pointer != "" {
		if pointer[0] != '/' {
			return Value{}
		}
		end := 1
		for end < len(pointer) && pointer[end] != '/' {
			end++
		}
		name := unescape(pointer[1:end])
		pointer = pointer[end:]
		switch v.Kind() {
		case Object:
			v = v.Get(name)
		case Array:
			v = v.item(name)
		default:
			return Value{}
		}
	}
	return v
}

func (v Value) item(name string) Value {
	at, err := strconv.ParseUint(name, 10, 32)
	if err != nil || name != strconv.FormatUint(at, 10) {
		return Value{}
	}
	for item := range v.Items() {
		if at == 0 {
			return item
		}
		at--
	}
	return Value{}
}

// unescape undoes the escapes of a JSON pointer's token.
func unescape(token string) string {
	out := make([]byte, 0, len(token))
	for i := 0; i < len(token); i++ {
		if token[i] == '~' && i+1 < len(token) && (token[i+1] == '0' || token[i+1] == '1') {
			out = append(out, "~/"[token[i+1]-'0'])
			i++
			continue
		}
		out = append(out, token[i])
	}
	return string(out)
}
