package verification

import (
	"net/http"
	"net/textproto"
	"strings"
)

// sourceKind is where a value of a delivery is read from.
type sourceKind int

const (
	sourceHeader    sourceKind = iota + 1
	sourceJSON                 // a JSON pointer into the body
	sourceSignature            // a key of the signature's own key-value header
)

// source is one place in a delivery that holds one value.
type source struct {
	kind sourceKind
	// text is the source in its normal form, header names in lower case: "header:x-a", "json:/a", "sig:t".
	text string
	// name is the canonical header name or the key.
	name    string
	pointer pointer
}

// parseSource reads "header:<name>", "json:<pointer>" or "sig:<key>". The empty string says what is wrong when ok is false.
func parseSource(s string) (src source, wrong string) {
	kind, arg, found := strings.Cut(s, ":")
	if !found {
		return source{}, "must be header:<name>, json:<pointer> or sig:<key>"
	}
	switch kind {
	case "header":
		if !validHeaderName(arg) {
			return source{}, "is not a header name that a delivery can carry"
		}
		return headerSource(arg), ""
	case "json":
		p, err := parsePointer(arg)
		if err != nil {
			return source{}, err.Error()
		}
		return source{kind: sourceJSON, text: "json:" + arg, pointer: p}, ""
	case "sig":
		if !printable(arg, 32) {
			return source{}, "needs a key after sig:"
		}
		return source{kind: sourceSignature, text: "sig:" + arg, name: arg}, ""
	default:
		return source{}, "must be header:<name>, json:<pointer> or sig:<key>"
	}
}

func headerSource(name string) source {
	return source{kind: sourceHeader, text: "header:" + strings.ToLower(name), name: textproto.CanonicalMIMEHeaderKey(name)}
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

// presence is what became of looking for a header that may stand once.
type presence int

const (
	absent  presence = iota // not there, or empty
	present                 // there once
	unfit                   // there more than once, or longer than maxHeaderValue
)

// single looks for a header, by its canonical name, that may stand once. A header that stands twice has no value: whoever
// reads it next might take the other one.
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
