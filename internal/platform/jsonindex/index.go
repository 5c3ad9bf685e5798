// Package jsonindex reads parts of large JSON documents without building a tree of them. It checks the whole text once,
// notes where each value is, and decodes only what is asked for. A document costs its text, 4 bytes for each value and
// name, and 8 more for each array and object. Of a long text, only the values of the first levels are noted.
package jsonindex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"sallyport/internal/platform/longtext"
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

// maxBytes is the size of the largest text that has an index: places of it have 28 bits.
const maxBytes = 1<<28 - 1

// SyntaxError says where a text stops being JSON. Line and Column begin at 1; Column counts bytes.
type SyntaxError struct {
	Line, Column int
	Message      string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// A node is a value, or the name of a member. Nodes are in the order of the text: the children of a node follow it, and
// a name is followed by its value. A node is a word that says where the value begins and its kind. An array or an object
// has two more words: the node that follows it and all in it, and where its text ends. Where the text of any other value
// ends is read in the text.
type word uint32

const (
	// flagBit is set for a string without escapes, and for an array or an object whose children are not noted.
	flagBit   = 1
	kindShift = 1
	kindBits  = 7
	placeBits = 4
	// leafWords and containerWords are how many words a node has.
	leafWords, containerWords = 1, 3
)

func newWord(at int, kind Kind, flag bool) word {
	w := word(at)<<placeBits | word(kind)<<kindShift //nolint:gosec // maxBytes bounds the text
	if flag {
		w |= flagBit
	}
	return w
}

func (w word) start() int { return int(w >> placeBits) }
func (w word) kind() Kind { return Kind(w >> kindShift & kindBits) }
func (w word) flag() bool { return w&flagBit != 0 }

// Words are kept in chunks, because a slice that grows has its content twice for a moment.
const (
	chunkBits = 15
	chunkSize = 1 << chunkBits
)

const (
	// longText is the length of a text from which on the children of the values at depth shutDepth are noted only while
	// they are needed, if they have more than fewWords. In a description of an API, these are the parts of an operation,
	// and of a schema that others refer to.
	longText  = 8 << 20
	shutDepth = 4
	fewWords  = 16
	// mostOpened is how many values have their children noted for the next caller.
	mostOpened = 256
)

// Index is a text with the places of its values. It is not safe for concurrent use.
type Index struct {
	text *longtext.Text
	// origin is where the text begins: after a byte order mark.
	origin int
	chunks [][]word
	count  uint32
	// hint is about how many words there will be.
	hint int
	// names are the members of large objects in which something was looked up.
	names map[uint32]map[string]uint32
	// opened are values with their children, by the last bits of their node.
	opened []opened
}

// opened is a node whose children are not noted, with an index of the value.
type opened struct {
	of uint32
	x  *Index
}

// Parse reads a text as RFC 8259 defines it, in UTF-8 with or without a byte order mark. depth is how many arrays and
// objects may be within each other. It keeps the text, which must not be changed. Errors are *SyntaxError.
func Parse(text []byte, depth int) (*Index, error) { return ParseLong(longtext.Of(text), depth) }

// ParseLong is Parse of a text that need not be in memory as a whole.
func ParseLong(text *longtext.Text, depth int) (*Index, error) {
	if text.Len() < longText {
		return parse(text, depth, -1, 0)
	}
	return parse(text, depth, shutDepth, fewWords)
}

// parse notes the children of values at the depth shut only if they have few words; of all values if it is negative.
func parse(text *longtext.Text, depth, shut int, few uint32) (*Index, error) {
	const mark = "\ufeff"
	x := &Index{text: text, hint: hint(text.Len())}
	if string(text.Slice(0, min(len(mark), text.Len()))) == mark {
		x.origin = len(mark)
	}
	if text.Len() > maxBytes {
		return nil, x.fail(x.origin, "the text is too large")
	}
	if at := text.FirstInvalid(); at >= 0 {
		return nil, x.fail(at, "the text is not UTF-8")
	}
	p := parser{x: x, size: text.Len(), depth: depth, shutDepth: shut, few: few}
	if shut >= 0 {
		x.opened = make([]opened, mostOpened)
	}
	at, err := p.value(p.skip(x.origin), 0)
	if err != nil {
		return nil, err
	}
	if at = p.skip(at); at != p.size {
		return nil, x.fail(at, "unexpected text after the end of the document")
	}
	return x, nil
}

func (x *Index) fail(at int, message string) error {
	line, column := x.place(at)
	return &SyntaxError{Line: line, Column: column, Message: message}
}

// place returns the line and column of an offset, both from 1.
func (x *Index) place(at int) (line, column int) {
	if line, column = x.text.Place(at); line == 1 {
		column -= x.origin
	}
	return line, column
}

func (x *Index) at(i uint32) word { return x.chunks[i>>chunkBits][i&(chunkSize-1)] }

func (x *Index) set(i uint32, w word) { x.chunks[i>>chunkBits][i&(chunkSize-1)] = w }

func (x *Index) add(w word) uint32 {
	if x.count&(chunkSize-1) == 0 {
		size := chunkSize
		if x.count == 0 {
			size = min(chunkSize, x.hint)
		}
		x.chunks = append(x.chunks, make([]word, 0, size))
	}
	last := &x.chunks[len(x.chunks)-1]
	*last = append(*last, w)
	x.count++
	return x.count - 1
}

// hint returns about how many words a text of a length has.
func hint(length int) int { return containerWords + length/12 }

// drop removes all words from a place on.
func (x *Index) drop(i uint32) {
	x.chunks = x.chunks[:(i+chunkSize-1)>>chunkBits]
	if rest := i & (chunkSize - 1); rest > 0 {
		last := &x.chunks[len(x.chunks)-1]
		*last = (*last)[:rest]
	}
	x.count = i
}

// open returns a value with its children.
func (v Value) open() Value {
	if v.x == nil || v.x.opened == nil {
		return v
	}
	w := v.x.at(v.i)
	if w.kind() < Array || !w.flag() {
		return v
	}
	o := &v.x.opened[v.i%mostOpened]
	if o.x == nil || o.of != v.i {
		end := v.x.end(v.i)
		o.of, o.x = v.i, &Index{text: v.x.text, origin: v.x.origin, hint: hint(end - w.start())}
		p := parser{x: o.x, size: end, depth: math.MaxInt, shutDepth: -1}
		_, _ = p.value(w.start(), 0) // it was read before
	}
	return Value{o.x, 0}
}

// next returns the node that follows a value and all in it.
func (x *Index) next(i uint32) uint32 {
	if x.at(i).kind() >= Array {
		return uint32(x.at(i + 1))
	}
	return i + leafWords
}

// end returns where the text of a value ends.
func (x *Index) end(i uint32) int {
	w := x.at(i)
	at := w.start()
	switch w.kind() {
	case Array, Object:
		return int(x.at(i + 2))
	case String:
		return x.endOfString(at+1, w.flag())
	case Number:
		for at < x.text.Len() {
			piece := x.text.From(at)
			for j, c := range piece {
				if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c|0x20 != 'e' {
					return at + j
				}
			}
			at += len(piece)
		}
		return at
	case Bool:
		if x.text.From(at)[0] == 'f' {
			return at + len("false")
		}
	}
	return at + len("null") // and true
}

// endOfString returns the end of a string with its quotation mark. at is after the first one.
func (x *Index) endOfString(at int, plain bool) int {
	for {
		piece := x.text.From(at)
		mark := bytes.IndexByte(piece, '"')
		if plain {
			if mark >= 0 {
				return at + mark + 1
			}
			at += len(piece)
			continue
		}
		if mark < 0 {
			mark = len(piece)
		}
		if escape := bytes.IndexByte(piece[:mark], '\\'); escape >= 0 {
			at += escape + 2 // the second character is not an end
			continue
		}
		if at += mark; mark < len(piece) {
			return at + 1
		}
	}
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
	return v.x.at(v.i).kind()
}

// Exists reports whether the value is there. Null is.
func (v Value) Exists() bool { return v.x != nil }

// ID is the same for two values exactly if they are the same place of one document.
func (v Value) ID() uint32 {
	if v.x == nil {
		return 0
	}
	return uint32(v.x.at(v.i).start()) //nolint:gosec // Parse bounds the text
}

// Place returns the line and column at which the value begins, both from 1.
func (v Value) Place() (line, column int) {
	if v.x == nil {
		return 0, 0
	}
	return v.x.place(v.x.at(v.i).start())
}

// Raw returns the text of the value; nil for an absent one. It must not be changed.
func (v Value) Raw() []byte {
	if v.x == nil {
		return nil
	}
	return v.x.text.Slice(v.x.at(v.i).start(), v.x.end(v.i))
}

// Text returns a string; false for any other value.
func (v Value) Text() (string, bool) {
	if v.Kind() != String {
		return "", false
	}
	return v.x.textOf(v.i), true
}

// String returns a string, and an empty one for any other value.
func (v Value) String() string {
	text, _ := v.Text()
	return text
}

func (x *Index) textOf(i uint32) string {
	w := x.at(i)
	end := x.end(i)
	if w.flag() {
		return string(x.text.Slice(w.start()+1, end-1))
	}
	var text string
	if err := json.Unmarshal(x.text.Slice(w.start(), end), &text); err != nil {
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
		v := v.open()
		for i, end := v.i+containerWords, v.x.next(v.i); i < end; i = v.x.next(i) {
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
		v := v.open()
		for i, end := v.i+containerWords, v.x.next(v.i); i < end; i = v.x.next(i + leafWords) {
			if !yield(v.x.textOf(i), Value{v.x, i + leafWords}) {
				return
			}
		}
	}
}

// largeObject is how many words an object has at least for which names are noted.
const largeObject = 640

// Get returns a member of an object: the last of those with this name, as other readers do. It is absent for any other
// value.
func (v Value) Get(name string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	v = v.open()
	end := v.x.next(v.i)
	if end-v.i >= largeObject {
		return v.look(name)
	}
	found := Value{}
	for i := v.i + containerWords; i < end; i = v.x.next(i + leafWords) {
		if v.x.is(i, name) {
			found = Value{v.x, i + leafWords}
		}
	}
	return found
}

// is reports whether a string is equal to a name.
func (x *Index) is(i uint32, name string) bool {
	w := x.at(i)
	if !w.flag() {
		return x.textOf(i) == name
	}
	return x.text.Has(w.start()+1, name, '"') && strings.IndexByte(name, '"') < 0
}

func (v Value) look(name string) Value {
	names, known := v.x.names[v.i]
	if !known {
		names = map[string]uint32{}
		for i, end := v.i+containerWords, v.x.next(v.i); i < end; i = v.x.next(i + leafWords) {
			names[v.x.textOf(i)] = i + leafWords
		}
		if v.x.names == nil {
			v.x.names = map[uint32]map[string]uint32{}
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
