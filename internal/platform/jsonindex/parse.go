package jsonindex

import "fmt"

// parser notes the values of a text, which is UTF-8.
type parser struct {
	x *Index
	// piece is a piece of the text, which begins at base.
	piece      []byte
	base, size int
	depth      int
	// shutDepth is the depth at which the children of values are not kept if they have more words than few; negative for
	// none.
	shutDepth int
	few       uint32
}

// byte returns the byte at a place; 0, which is nowhere in JSON, after the end.
func (p *parser) byte(at int) byte {
	if i := at - p.base; uint(i) < uint(len(p.piece)) { // a negative one is a large one
		return p.piece[i]
	}
	return p.load(at)
}

func (p *parser) load(at int) byte {
	p.piece, p.base = p.x.text.From(at), at
	if len(p.piece) == 0 {
		return 0
	}
	return p.piece[0]
}

// skip returns the place of the next byte that is no white space.
func (p *parser) skip(at int) int {
	for {
		switch p.byte(at) {
		case ' ', '\t', '\n', '\r':
			at++
		default:
			return at
		}
	}
}

// value notes the value at a place, and returns the place after it.
func (p *parser) value(at, depth int) (int, error) {
	if at == p.size {
		return 0, p.x.fail(at, "the document ends in the middle of a value")
	}
	switch c := p.byte(at); {
	case c == '{':
		return p.object(at, depth)
	case c == '[':
		return p.array(at, depth)
	case c == '"':
		return p.quoted(at)
	case c == '-' || c >= '0' && c <= '9':
		return p.number(at)
	case c == 't':
		return p.word(at, "true", Bool)
	case c == 'f':
		return p.word(at, "false", Bool)
	case c == 'n':
		return p.word(at, "null", Null)
	default:
		return 0, p.x.fail(at, "expected a value")
	}
}

func (p *parser) leaf(at, end int, kind Kind, plain bool) (int, error) {
	p.x.add(newWord(at, kind, plain))
	return end, nil
}

func (p *parser) word(at int, word string, kind Kind) (int, error) {
	for i := range len(word) {
		if p.byte(at+i) != word[i] {
			return 0, p.x.fail(at, "expected a value")
		}
	}
	return p.leaf(at, at+len(word), kind, false)
}

// number is as RFC 8259, section 6 has it.
func (p *parser) number(at int) (int, error) {
	end := at
	if p.byte(end) == '-' {
		end++
	}
	isZero := p.byte(end) == '0'
	whole := p.digits(end)
	if whole == end || isZero && whole > end+1 {
		return 0, p.x.fail(at, "malformed number")
	}
	end = whole
	if p.byte(end) == '.' {
		after := p.digits(end + 1)
		if after == end+1 {
			return 0, p.x.fail(at, "malformed number")
		}
		end = after
	}
	if p.byte(end)|0x20 == 'e' {
		end++
		if c := p.byte(end); c == '+' || c == '-' {
			end++
		}
		after := p.digits(end)
		if after == end {
			return 0, p.x.fail(at, "malformed number")
		}
		end = after
	}
	return p.leaf(at, end, Number, false)
}

func (p *parser) digits(at int) int {
	for c := p.byte(at); c >= '0' && c <= '9'; c = p.byte(at) {
		at++
	}
	return at
}

// quoted notes a string.
func (p *parser) quoted(at int) (int, error) {
	plain := true
	for i := at + 1; i < p.size; {
		_ = p.byte(i)
		rest := p.piece[i-p.base:]
		n := 0
		for n < len(rest) && rest[n] != '"' && rest[n] != '\\' && rest[n] >= ' ' {
			n++
		}
		if i += n; n == len(rest) {
			continue
		}
		switch rest[n] {
		case '"':
			return p.leaf(at, i+1, String, plain)
		case '\\':
			plain = false
			length := p.escape(i)
			if length == 0 {
				return 0, p.x.fail(i, "malformed escape in a string")
			}
			i += length
		default:
			return 0, p.x.fail(i, "a control character in a string")
		}
	}
	return 0, p.x.fail(at, "a string without an end")
}

// escape returns the length of the escape at a place; 0 for a malformed one.
func (p *parser) escape(at int) int {
	switch p.byte(at + 1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		for i := at + 2; i < at+6; i++ {
			if c := p.byte(i); (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return 0
			}
		}
		return 6
	default:
		return 0
	}
}

// open notes an array or an object, whose end is not known yet.
func (p *parser) open(at, depth int, kind Kind) (uint32, error) {
	if depth >= p.depth {
		return 0, p.x.fail(at, fmt.Sprintf("more than %d arrays and objects within each other", p.depth))
	}
	i := p.x.add(newWord(at, kind, false))
	p.x.add(0)
	p.x.add(0)
	return i, nil
}

// shut notes the end of an array or an object.
func (p *parser) shut(i uint32, end, depth int) int {
	if depth == p.shutDepth && p.x.count-i > p.few {
		p.x.drop(i + containerWords)
		p.x.set(i, p.x.at(i)|flagBit)
	}
	p.x.set(i+1, word(p.x.count))
	p.x.set(i+2, word(end)) //nolint:gosec // maxBytes bounds the text
	return end
}

func (p *parser) array(at, depth int) (int, error) {
	own, err := p.open(at, depth, Array)
	if err != nil {
		return 0, err
	}
	at = p.skip(at + 1)
	if p.byte(at) == ']' {
		return p.shut(own, at+1, depth), nil
	}
	for {
		if at, err = p.value(at, depth+1); err != nil {
			return 0, err
		}
		at = p.skip(at)
		switch {
		case p.byte(at) == ',':
			at = p.skip(at + 1)
		case p.byte(at) == ']':
			return p.shut(own, at+1, depth), nil
		default:
			return 0, p.x.fail(at, "expected a comma or the end of an array")
		}
	}
}

func (p *parser) object(at, depth int) (int, error) {
	own, err := p.open(at, depth, Object)
	if err != nil {
		return 0, err
	}
	at = p.skip(at + 1)
	if p.byte(at) == '}' {
		return p.shut(own, at+1, depth), nil
	}
	for {
		if p.byte(at) != '"' {
			return 0, p.x.fail(at, "expected the name of a member in quotes")
		}
		if at, err = p.quoted(at); err != nil {
			return 0, err
		}
		if at = p.skip(at); p.byte(at) != ':' {
			return 0, p.x.fail(at, "expected a colon after the name of a member")
		}
		if at, err = p.value(p.skip(at+1), depth+1); err != nil {
			return 0, err
		}
		at = p.skip(at)
		switch {
		case p.byte(at) == ',':
			at = p.skip(at + 1)
		case p.byte(at) == '}':
			return p.shut(own, at+1, depth), nil
		default:
			return 0, p.x.fail(at, "expected a comma or the end of an object")
		}
	}
}
