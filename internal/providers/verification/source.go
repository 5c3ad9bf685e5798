package verification

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// sourceKind is where a value of a webhook is read from. Kinds are flags, so that a place of a declaration can say
// which it takes.
type sourceKind uint16

const (
	sourceHeader   sourceKind = 1 << iota
	sourceSequence            // headers numbered from 1
	sourceQuery               // a parameter of the URL's query
	sourceJSON                // a JSON pointer into the body
	sourceItems               // a JSON pointer with * for every item of an array
	sourceMethod
	sourceItem      // a value of one item of a batch
	sourceJWT       // a claim of the token
	sourceSignature // a key of the signature's own key-value header, or the first element of its list
	sourceForm      // a field of a body that is a form
	sourceMember    // the name of a member of the body's object
	sourceItemMember
)

// The kinds of sources that places of a declaration accept.
const (
	signatureSources = sourceHeader | sourceSequence | sourceQuery | sourceJSON | sourceForm
	tokenSources     = signatureSources | sourceItems
	timestampSources = sourceHeader | sourceJSON | sourceSignature | sourceForm
	eventSources     = sourceHeader | sourceJSON | sourceForm
	typeSources      = eventSources | sourceMember
	controlSources   = sourceHeader | sourceQuery | sourceJSON | sourceForm
	handshakeSources = controlSources | sourceMethod
	batchSources     = typeSources | sourceItem | sourceItemMember
	redactSources    = sourceJSON | sourceItems | sourceForm
)

// String describes the kinds to the author of a declaration.
func (k sourceKind) String() string {
	var forms []string
	for _, form := range []struct {
		kind sourceKind
		text string
	}{
		{sourceHeader, "header:<name>"},
		{sourceSequence, "header_seq:<prefix>{1..n}"},
		{sourceQuery, "query:<name>"},
		{sourceJSON, "json:<pointer>"},
		{sourceMethod, "method"},
		{sourceItem, "item:<pointer>"},
		{sourceJWT, "jwt:<claim>"},
		{sourceSignature, "sig:<key>"},
		{sourceForm, "form:<name>"},
		{sourceMember, "member:<names>"},
		{sourceItemMember, "item_member:<names>"},
	} {
		if k&form.kind != 0 {
			forms = append(forms, form.text)
		}
	}
	return strings.Join(forms, ", ")
}

// source is one place in a webhook that holds one value.
type source struct {
	kind sourceKind
	// text is the source in its normal form, header names in lower case: "header:x-a", "json:/a", "sig:t".
	text string
	// name is the canonical header name, the query parameter or the key.
	name string
	// others are further names under which the header may come, canonical.
	others  []string
	names   []string // of a sequence, canonical, in order; of a member
	pointer pointer
	items   pattern // of a JSON pointer with *
}

// parseSource reads a source of one of the kinds; wrong says what is wrong with it.
func parseSource(s string, kinds sourceKind) (src source, wrong string) {
	kind, arg, _ := strings.Cut(s, ":")
	switch kind {
	case "header":
		src, wrong = namedHeader(arg)
	case "header_seq":
		src, wrong = sequenceSource(arg)
	case "json":
		src, wrong = jsonSource(arg, kinds)
	case "method":
		src = source{kind: sourceMethod, text: kind}
	case "item":
		src, wrong = itemSource(arg)
	case "member", "item_member":
		src, wrong = memberSource(kind, arg)
	case "form":
		if !printableText(arg) || arg == "" || len(arg) > maxHeaderName {
			return source{}, "needs the name of a form's field after form:"
		}
		src = source{kind: sourceForm, text: s, name: arg}
	case "jwt":
		src, wrong = claimSource(arg)
	case "sig":
		if !printable(arg, 32) {
			return source{}, "needs a key after sig:"
		}
		src = source{kind: sourceSignature, text: s, name: arg}
	case "query":
		if !printable(arg, maxHeaderName) {
			return source{}, "needs the name of a query parameter after query:"
		}
		src = source{kind: sourceQuery, text: s, name: arg}
	}
	if wrong == "" && src.kind&kinds == 0 {
		wrong = "must be one of " + kinds.String()
	}
	if wrong != "" {
		return source{}, wrong
	}
	return src, ""
}

func headerSource(name string) source {
	return source{kind: sourceHeader, text: "header:" + strings.ToLower(name),
		name: textproto.CanonicalMIMEHeaderKey(name)}
}

// namedHeader reads the name of a header, or several names of one header with commas between them.
func namedHeader(arg string) (source, string) {
	names := strings.Split(arg, ",")
	if len(names) > maxHeaderNames {
		return source{}, "has more names than one header can have"
	}
	var src source
	for i, name := range names {
		if !validHeaderName(name) || slices.ContainsFunc(names[:i], func(s string) bool {
			return strings.EqualFold(s, name)
		}) {
			return source{}, "is not a header name that a webhook can carry, or a list of different ones with commas " +
				"between them"
		}
		if i == 0 {
			src = headerSource(name)
			continue
		}
		src.others = append(src.others, textproto.CanonicalMIMEHeaderKey(name))
	}
	src.text = "header:" + strings.ToLower(arg)
	return src, ""
}

// headers returns the names of the headers that the source reads; nil for one that reads none.
func (s *source) headers() []string {
	switch s.kind {
	case sourceHeader:
		return append([]string{s.name}, s.others...)
	case sourceSequence:
		return s.names
	default:
		return nil
	}
}

// header looks for the header under each of its names. Only one of them may be there: the next reader might take
// another.
func (s *source) header(h http.Header) (string, presence) {
	value, state := single(h, s.name)
	for _, name := range s.others {
		other, otherState := single(h, name)
		if otherState == absent {
			continue
		}
		if state != absent {
			return "", unfit
		}
		value, state = other, otherState
	}
	return value, state
}

// place names the source to an operator.
func (s *source) place() string {
	switch s.kind {
	case sourceHeader:
		return "header " + strings.Join(s.headers(), " or ")
	case sourceSequence:
		return "header " + s.names[0]
	case sourceQuery:
		return "query parameter " + s.name
	case sourceSignature:
		return "signature header's " + s.name
	case sourceJWT:
		return "token's claim " + strings.TrimPrefix(s.text, "jwt:")
	default:
		return "body's " + s.text
	}
}

// validHeaderName accepts field names of RFC 9110 section 5.6.2, except Host, which net/http takes out of the headers.
func validHeaderName(name string) bool {
	if name == "" || len(name) > maxHeaderName || strings.EqualFold(name, "host") {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// presence is the result of looking for a value that may occur once.
type presence int

const (
	absent  presence = iota // not there, or empty
	present                 // there once
	unfit                   // there more than once, or longer than maxHeaderValue
)

// single looks for a header, by its canonical name, that may occur once. A duplicate header has no value, because the
// next reader might use the other one.
func single(h http.Header, canonical string) (string, presence) {
	values := h[canonical]
	switch {
	case len(values) == 0:
		return "", absent
	case len(values) > 1 || len(values[0]) > maxHeaderValue:
		return "", unfit
	case values[0] == "":
		return "", absent
	default:
		return values[0], present
	}
}

// printable reports whether s is 1 to limit bytes of printable ASCII without spaces.
func printable(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
