package verification

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

func jsonSource(arg string, kinds sourceKind) (source, string) {
	src := source{kind: sourceJSON, text: "json:" + arg}
	if kinds&sourceItems != 0 && hasStar(arg) {
		p, err := parsePattern(arg)
		if err != nil {
			return source{}, err.Error()
		}
		src.kind, src.items = sourceItems, p
		return src, ""
	}
	p, err := parsePointer(arg)
	if err != nil {
		return source{}, err.Error()
	}
	src.pointer = p
	return src, ""
}

// itemSource reads a pointer into an item; the empty one is the item itself.
func itemSource(arg string) (source, string) {
	src := source{kind: sourceItem, text: "item:" + arg}
	if arg == "" {
		return src, ""
	}
	p, err := parsePointer(arg)
	if err != nil {
		return source{}, err.Error()
	}
	src.pointer = p
	return src, ""
}

// memberSource reads the names that a member may have, with commas between them.
func memberSource(kind, arg string) (source, string) {
	src := source{kind: sourceMember, text: kind + ":" + arg, names: strings.Split(arg, ",")}
	if kind == "item_member" {
		src.kind = sourceItemMember
	}
	if len(src.names) > maxEntries || slices.ContainsFunc(src.names, func(name string) bool {
		return !printable(name, maxHeaderName)
	}) {
		return source{}, "needs 1 to 64 names of members after " + kind + ":, with commas between them"
	}
	return src, ""
}

// inBody reports whether the value stands in the body.
func (s *source) inBody() bool {
	switch s.kind {
	case sourceJSON, sourceItems, sourceForm, sourceItem, sourceMember, sourceItemMember:
		return true
	default:
		return false
	}
}

// claimSource reads the name of a claim or a JSON pointer into the claims.
func claimSource(arg string) (source, string) {
	path := arg
	if !strings.HasPrefix(arg, "/") {
		path = "/" + strings.ReplaceAll(strings.ReplaceAll(arg, "~", "~0"), "/", "~1")
	}
	p, err := parsePointer(path)
	if err != nil || arg == "" {
		return source{}, "needs a claim or a JSON pointer after jwt:"
	}
	return source{kind: sourceJWT, text: "jwt:" + arg, pointer: p}, ""
}

// sequenceSource reads "<prefix>-{1..n}".
func sequenceSource(arg string) (source, string) {
	prefix, bounds, _ := strings.Cut(arg, "{1..")
	last, closed := strings.CutSuffix(bounds, "}")
	n, err := strconv.Atoi(last)
	if !closed || err != nil || n < 1 || n > maxSequence || !validHeaderName(prefix) {
		return source{}, "must be header_seq:<prefix>{1..n} with n at most 100"
	}
	src := source{kind: sourceSequence, text: "header_seq:" + strings.ToLower(arg)}
	for i := range n {
		src.names = append(src.names, textproto.CanonicalMIMEHeaderKey(prefix+strconv.Itoa(i+1)))
	}
	return src, ""
}
