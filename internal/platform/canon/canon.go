// Package canon writes JSON in one canonical form, so that two texts have the same bytes exactly if they mean the same.
//
// The form is that of RFC 8785, except that a number is never rounded: one that a double does not have exactly is
// written with all its digits. RFC 8785 would write 9007199254740993 as 9007199254740992.
package canon

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"sallyport/internal/platform/jsonindex"
)

// Append appends the canonical form of a value. Of a name that occurs twice in an object only the last counts; callers
// refuse such objects before.
func Append(out []byte, v jsonindex.Value) []byte {
	switch v.Kind() {
	case jsonindex.Object:
		return appendObject(out, v)
	case jsonindex.Array:
		out = append(out, '[')
		first := true
		for item := range v.Items() {
			if !first {
				out = append(out, ',')
			}
			first = false
			out = Append(out, item)
		}
		return append(out, ']')
	case jsonindex.String:
		text, _ := v.Text()
		return appendString(out, text)
	case jsonindex.Number:
		return appendNumber(out, string(v.Raw()))
	default:
		return append(out, bytes.TrimSpace(v.Raw())...)
	}
}

func appendObject(out []byte, v jsonindex.Value) []byte {
	members := map[string]jsonindex.Value{}
	var names []string
	for name, member := range v.Members() {
		if _, twice := members[name]; !twice {
			names = append(names, name)
		}
		members[name] = member
	}
	slices.SortFunc(names, compareUTF16)
	out = append(out, '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendString(out, name), ':')
		out = Append(out, members[name])
	}
	return append(out, '}')
}

// compareUTF16 compares texts by their UTF-16 code units, as section 3.2.3 wants.
func compareUTF16(a, b string) int {
	if isASCII(a) && isASCII(b) {
		return strings.Compare(a, b)
	}
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendString writes a string as section 3.2.2.2 wants: only what must be escaped is.
func appendString(out []byte, text string) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	for i := range len(text) {
		switch c := text[i]; c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, `\b`...)
		case '\f':
			out = append(out, `\f`...)
		case '\n':
			out = append(out, `\n`...)
		case '\r':
			out = append(out, `\r`...)
		case '\t':
			out = append(out, `\t`...)
		default:
			if c < ' ' {
				out = append(out, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
				continue
			}
			out = append(out, c)
		}
	}
	return append(out, '"')
}

// decimal is a number as digits · 10^exponent. The digits have no zero at either end; there are none of zero.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

func parseDecimal(text string) decimal {
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	d.exponent, _ = strconv.Atoi(exponent) // as callers have bounded it; none is 0
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.exponent -= len(fraction)
	d.digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(d.digits, "0")
	d.exponent += len(d.digits) - len(trimmed)
	if d.digits = trimmed; trimmed == "" {
		return decimal{}
	}
	return d
}

// appendNumber writes a number as ECMAScript writes the double that equals it (section 3.2.2.3), or with all its digits
// if there is no such double.
func appendNumber(out []byte, text string) []byte {
	d := parseDecimal(text)
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) {
		short := appendDouble(nil, f)
		if parseDecimal(string(short)) == d {
			return append(out, short...)
		}
	}
	if d.negative {
		out = append(out, '-')
	}
	out = append(out, d.digits...)
	if d.exponent != 0 {
		out = append(append(out, 'e'), strconv.Itoa(d.exponent)...)
	}
	return out
}

// appendDouble writes a double as Number::toString of ECMA-262 does.
func appendDouble(out []byte, f float64) []byte {
	if f == 0 {
		return append(out, '0')
	}
	if size := math.Abs(f); size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64)
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	sign, number := exponent[:1], strings.TrimLeft(exponent[1:], "0")
	return append(out, mantissa+"e"+sign+number...)
}
