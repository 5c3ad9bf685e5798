package jsonindex

import (
	"encoding/json"
	"iter"
	"math"
	"strconv"
	"strings"
)

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
	x := v.x
	end := x.next(v.i)
	if end-v.i >= largeObject {
		return v.look(name)
	}
	found := Value{}
	for i := v.i + containerWords; i < end; i = x.next(i + leafWords) {
		if w := x.at(i); w.flag() && x.text.Has(w.start()+1, name, '"') && strings.IndexByte(name, '"') < 0 ||
			!w.flag() && x.textOf(i) == name {
			found = Value{x, i + leafWords}
		}
	}
	return found
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
