package verification

import (
	"slices"
	"strings"
)

// pattern is a JSON pointer in which * stands for every item of an array: "/value/*/clientState". The pointer is cut at
// its stars.
type pattern []pointer

func hasStar(s string) bool { return slices.Contains(strings.Split(s, "/"), "*") }

// parsePattern reads a pattern with at least one star.
func parsePattern(s string) (pattern, error) {
	p, err := parsePointer(s)
	if err != nil {
		return nil, err
	}
	out := pattern{{}}
	for _, ref := range p.refs {
		if ref == "*" {
			out = append(out, pointer{})
			continue
		}
		last := &out[len(out)-1]
		last.refs = append(last.refs, ref)
	}
	return out, nil
}

// each visits what the pattern names in a document, in order; found is false where the value, or an array on the way to
// it, is not there, as nothing is in a document that is not valid JSON. It returns false when there are more than
// limit.
func (p pattern) each(doc []byte, limit int, visit func(raw []byte, found bool)) bool {
	return p.walk(doc, &limit, visit)
}

func (p pattern) walk(doc []byte, room *int, visit func([]byte, bool)) bool {
	raw, found := p[0].lookup(doc)
	if len(p) == 1 || !found || raw[0] != '[' {
		if *room--; *room < 0 {
			return false
		}
		visit(raw, found && len(p) == 1)
		return true
	}
	return items(raw, func(item []byte) bool { return p[1:].walk(item, room, visit) })
}

// everywhere visits what the pattern names, in no order and, of members with the same name, in all of them. In a
// document that is not valid JSON it visits nothing.
func (p pattern) everywhere(doc []byte, visit func(raw []byte)) {
	var found [][]byte
	s := scanner{data: doc, visit: func(raw []byte) { found = append(found, raw) }}
	s.space()
	if _, ok := s.value(0, p[0].refs, true); !ok {
		return
	}
	if s.space(); s.pos != len(doc) {
		return
	}
	for _, raw := range found {
		switch {
		case len(p) == 1:
			visit(raw)
		case raw[0] == '[':
			items(raw, func(item []byte) bool {
				p[1:].everywhere(item, visit)
				return true
			})
		}
	}
}

// items visits the items of a scanned array until visit returns false, which it then returns.
func items(array []byte, visit func(item []byte) bool) bool {
	s := scanner{data: array, pos: 1}
	for s.space(); s.pos < len(array) && array[s.pos] != ']'; s.space() {
		item, ok := s.value(0, nil, true)
		if !ok || !visit(item) {
			return false
		}
		s.space()
		s.next(',')
	}
	return true
}

// all returns what the pattern names; ok is false where there are more than limit or anything is not there.
func (p pattern) all(doc []byte, limit int) (values [][]byte, ok bool) {
	complete := true
	ok = p.each(doc, limit, func(raw []byte, found bool) {
		complete = complete && found
		values = append(values, raw)
	})
	return values, ok && complete
}
