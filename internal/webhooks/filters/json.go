package filters

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

const (
	// maxValues is how many members and items of a body a filter may read: its memory for an event stays within some
	// megabytes, however large the event is.
	maxValues = 100_000
	// maxScanned is how many bytes of JSON a filter may look through, counting every level that it opens again.
	maxScanned = 64 << 20
	// maxText is the longest text of a body that a filter reads, in bytes.
	maxText = 256 << 10
)

var (
	errTooLarge = errors.New("the body is too large for what the filter reads of it")
	errTooLong  = errors.New("a text of the body is longer than 256 KiB")
	// errNotOpened is the error of a filter that needs more opened than the filters before it have left.
	errNotOpened = errors.New("the filters of all subscriptions read too much of the body")
)

// document is JSON that is opened as far as filters look into it. It is valid UTF-8 and valid JSON: ingest has checked
// it.
type document struct {
	text []byte
	root *value
	// filter counts the filters that have read the body. Each pays for all that it reads, also for what one before it has
	// opened, so that its result does not depend on the others.
	filter          int
	values, scanned int
	// openable is that of the event.
	openable *int64
	// kept is how many values are in memory.
	kept int
	// failed is set when a limit was exceeded. Later values are worthless: CEL's operators may have treated the error as a
	// value.
	failed error
}

func newDocument(text []byte, openable *int64) *document {
	d := &document{text: bytes.TrimSpace(text), openable: openable}
	d.begin()
	return d
}

// begin gives the next filter the whole of what one may read.
func (d *document) begin() {
	if d.root == nil || d.kept > maxValues {
		d.root, d.kept = &value{document: d, raw: d.text}, 0
	}
	d.filter++
	d.values, d.scanned, d.failed = maxValues, maxScanned, nil
}

// value is one JSON value as it is in the body. Its CEL value is computed when it is first used, and that of its
// members only when they are.
type value struct {
	document *document
	raw      []byte
	known    ref.Val
	// children is how many members or items the value has, once known, and paid the last filter that has paid for it.
	children, paid int
}

// object and array are CEL's own map and list, and know how many bytes of JSON they stand for.
type object struct {
	traits.Mapper
	// names are the names of the members in the order of the body. A map of Go has no order, and what a loop costs and
	// finds first must not differ from one time to the next.
	names []string
	size  int
}

// Iterator goes over the names.
func (o object) Iterator() traits.Iterator { return types.NewStringList(adapter{}, o.names).Iterator() }

type array struct {
	traits.Lister
	size int
}

// cel returns the value. Integers that fit are int, all other numbers double.
func (v *value) cel() ref.Val {
	d := v.document
	if d.failed != nil {
		return types.WrapErr(d.failed)
	}
	if v.paid != d.filter {
		v.paid = d.filter
		if err := d.pay(len(v.raw), v.children); err != nil {
			return d.fail(err)
		}
	}
	if v.known == nil {
		opened := v.open()
		if d.failed != nil {
			return opened
		}
		v.known = opened
	}
	return v.known
}

// pay counts what a filter has read.
func (d *document) pay(scanned, values int) error {
	d.scanned -= scanned
	d.values -= values
	if d.scanned < 0 || d.values < 0 {
		return errTooLarge
	}
	return nil
}

func (v *value) open() ref.Val {
	if left := v.document.openable; left != nil {
		if *left < int64(len(v.raw)) {
			return v.document.fail(errNotOpened)
		}
		*left -= int64(len(v.raw))
	}
	switch v.raw[0] {
	case '{':
		names, members, err := v.members()
		if err != nil {
			return v.document.fail(err)
		}
		return object{types.NewStringInterfaceMap(adapter{}, members), names, len(v.raw)}
	case '[':
		items, err := v.items()
		if err != nil {
			return v.document.fail(err)
		}
		return array{types.NewDynamicList(adapter{}, items), len(v.raw)}
	case '"':
		if len(v.raw) > maxText+2 {
			return v.document.fail(errTooLong)
		}
		return types.String(text(v.raw))
	case 't':
		return types.True
	case 'f':
		return types.False
	case 'n':
		return types.NullValue
	default:
		return number(v.raw)
	}
}

func (d *document) fail(err error) ref.Val {
	d.failed = err
	return types.WrapErr(err)
}

// text decodes a JSON string. Halves of surrogate pairs become U+FFFD.
func text(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	// It is valid JSON, so this does not fail.
	_ = json.Unmarshal(raw, &s)
	return s
}

// number decodes a JSON number. One beyond the range of a double is infinite.
func number(raw []byte) ref.Val {
	if !bytes.ContainsAny(raw, ".eE") {
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return types.Int(n)
		}
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !math.IsInf(f, 0) {
		return types.WrapErr(err) // cannot be: the body is valid
	}
	return types.Double(f)
}

// members returns the members of an object. Of those of the same name the last counts.
func (v *value) members() (names []string, members map[string]any, err error) {
	members = map[string]any{}
	var name string
	err = v.each(func(isName bool, raw []byte) {
		if isName {
			name = text(raw)
			return
		}
		if _, again := members[name]; !again {
			names = append(names, name)
		}
		members[name] = &value{document: v.document, raw: raw}
	})
	return names, members, err
}

func (v *value) items() ([]any, error) {
	found := []any{}
	err := v.each(func(_ bool, raw []byte) { found = append(found, &value{document: v.document, raw: raw}) })
	return found, err
}

// each calls fn with the values of an object or array in their order, of an object's member first with the name.
func (v *value) each(fn func(isName bool, raw []byte)) error {
	v.children = 0
	isObject := v.raw[0] == '{'
	isName := isObject
	for rest := v.raw[1:]; ; {
		rest = bytes.TrimLeft(rest, " \t\r\n,:")
		if rest[0] == '}' || rest[0] == ']' {
			return nil
		}
		n := span(rest)
		switch {
		case isName && n > maxText+2:
			return errTooLong
		case !isName:
			v.children++
			v.document.kept++
			if err := v.document.pay(0, 1); err != nil {
				return err
			}
		}
		fn(isName, rest[:n])
		rest = rest[n:]
		isName = isObject && !isName
	}
}

// span returns the length of the JSON value that the text begins with.
func span(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case '"':
			i += stringSpan(text[i:]) - 1
		case ' ', '\t', '\r', '\n', ',', ':':
			continue
		default:
			i += scalarSpan(text[i:]) - 1
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(text)
}

// stringSpan returns the length of the string that the text begins with, quotes included.
func stringSpan(text []byte) int {
	for i := 1; ; i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return len(text)
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// scalarSpan returns the length of the number or literal that the text begins with.
func scalarSpan(text []byte) int {
	if n := bytes.IndexAny(text, ",]} \t\r\n"); n >= 0 {
		return n
	}
	return len(text)
}

// adapter turns what an event holds into CEL's values.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (adapter) NativeToValue(v any) ref.Val {
	if v, ok := v.(*value); ok {
		return v.cel()
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}
