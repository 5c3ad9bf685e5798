// Package jsonindex reads parts of large JSON documents without building a tree of them. It checks the whole text once,
// notes where each value is, and decodes only what is asked for. A document costs its text, 4 bytes for each value and
// name, and 8 more for each array and object. Of a long text, only the values of the first levels are noted.
package jsonindex

import (
	"bytes"
	"fmt"

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
// a name is followed by its value. A node is a word that says where the value begins and its kind. An array or an
// object has two more words: the node that follows it and all in it, and where its text ends. Where the text of any
// other value ends is read in the text.
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
		if x.text.From(at)[0] == 't' {
			return at + len("true")
		}
		return at + len("false")
	default:
		return at + len("null")
	}
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
