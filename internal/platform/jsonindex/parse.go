package jsonindex

import "fmt"

// parser notes the values of a text, which is UTF-8.
type parser struct {
	x     *Index
	text  []byte
	depth int
}

// skip returns the place of the next byte that is no white space.
func (p *parser) skip(at int) int {
	for at < len(p.text) {
		switch p.text[at] {
		case ' ', '\t', '\n', '\r':
			at++
		default:
			return at
		}
	}
	return at
}

// value notes the value at a place, and returns the place after it.
func (p *parser) value(at, depth int) (int, error) {
	if at == len(p.text) {
		return 0, p.x.fail(at, "the document ends in the middle of a value")
	}
	switch c := p.text[at]; {
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
	//nolint:gosec // Parse bounds the text
	i := p.x.add(node{start: uint32(at), end: uint32(end), kind: kind, plain: plain})
	p.x.at(i).next = i + 1
	return end, nil
}

func (p *parser) word(at int, word string, kind Kind) (int, error) {
	if end := at + len(word); end <= len(p.text) && string(p.text[at:end]) == word {
		return p.leaf(at, end, kind, false)
	}
	return 0, p.x.fail(at, "expected a value")
}

// number is as RFC 8259, section 6 has it.
func (p *parser) number(at int) (int, error) {
	end := at
	if p.text[end] == '-' {
		end++
	}
	whole := p.digits(end)
	if whole == end || p.text[end] == '0' && whole > end+1 {
		return 0, p.x.fail(at, "malformed number")
	}
	end = whole
	if end < len(p.text) && p.text[end] == '.' {
		after := p.digits(end + 1)
		if after == end+1 {
			return 0, p.x.fail(at, "malformed number")
		}
		end = after
	}
	if end < len(p.text) && (p.text[end] == 'e' || p.text[end] == 'E') {
		end++
		if end < len(p.text) && (p.text[end] == '+' || p.text[end] == '-') {
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
	for at < len(p.text) && p.text[at] >= '0' && p.text[at] <= '9' {
		at++
	}
	return at
}

// quoted notes a string.
func (p *parser) quoted(at int) (int, error) {
	plain := true
	for i := at + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '"':
			return p.leaf(at, i+1, String, plain)
		case c < ' ':
			return 0, p.x.fail(i, "a control character in a string")
		case c == '\\':
			plain = false
			length := p.escape(i)
			if length == 0 {
				return 0, p.x.fail(i, "malformed escape in a string")
			}
			i += length - 1
		}
	}
	return 0, p.x.fail(at, "a string without an end")
}

// escape returns the length of the escape at a place; 0 for a malformed one.
func (p *parser) escape(at int) int {
	if at+1 >= len(p.text) {
		return 0
	}
	switch p.text[at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if at+6 > len(p.text) {
			return 0
		}
		for _, c := range p.text[at+2 : at+6] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
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
	return p.x.add(node{start: uint32(at), kind: kind}), nil //nolint:gosec // Parse bounds the text
}

// shut notes the end of an array or an object.
func (p *parser) shut(i uint32, end int) int {
	n := p.x.at(i)
	n.end, n.next = uint32(end), p.x.count //nolint:gosec // Parse bounds the text
	return end
}

func (p *parser) array(at, depth int) (int, error) {
	own, err := p.open(at, depth, Array)
	if err != nil {
		return 0, err
	}
	at = p.skip(at + 1)
	if at < len(p.text) && p.text[at] == ']' {
		return p.shut(own, at+1), nil
	}
	for {
		if at, err = p.value(at, depth+1); err != nil {
			return 0, err
		}
		at = p.skip(at)
		switch {
		case at < len(p.text) && p.text[at] == ',':
			at = p.skip(at + 1)
		case at < len(p.text) && p.text[at] == ']':
			return p.shut(own, at+1), nil
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
	if at < len(p.text) && p.text[at] == '}' {
		return p.shut(own, at+1), nil
	}
	for {
		if at >= len(p.text) || p.text[at] != '"' {
			return 0, p.x.fail(at, "expected the name of a member in quotes")
		}
		if at, err = p.quoted(at); err != nil {
			return 0, err
		}
		if at = p.skip(at); at >= len(p.text) || p.text[at] != ':' {
			return 0, p.x.fail(at, "expected a colon after the name of a member")
		}
		if at, err = p.value(p.skip(at+1), depth+1); err != nil {
			return 0, err
		}
		at = p.skip(at)
		switch {
		case at < len(p.text) && p.text[at] == ',':
			at = p.skip(at + 1)
		case at < len(p.text) && p.text[at] == '}':
			return p.shut(own, at+1), nil
		default:
			return 0, p.x.fail(at, "expected a comma or the end of an object")
		}
	}
}
