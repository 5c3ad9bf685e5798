package documents

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// scalarKind is what a plain scalar is.
type scalarKind uint8

const (
	isString scalarKind = iota
	isNull
	isBool
	isInteger
	isFloat
)

const quotedStyles = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// scalar returns the JSON of a scalar, or a text that is a string. The message says why it has no form.
func scalar(n *yaml.Node) (text string, isText bool, message string) {
	if n.Style&yaml.TaggedStyle == 0 {
		if n.Style&quotedStyles != 0 || n.Tag == "!" {
			return n.Value, true, ""
		}
		text, kind := plain(n.Value)
		return text, kind == isString, ""
	}
	text, kind := plain(n.Value)
	var fits bool
	switch n.Tag {
	case "!!str", "!!binary", "!!timestamp": // the last two have no form in JSON but their text
		return n.Value, true, ""
	case "!!null":
		fits = kind == isNull
	case "!!bool":
		fits = kind == isBool
	case "!!int":
		fits = kind == isInteger
	case "!!float":
		fits = kind == isInteger || kind == isFloat
	default:
		return "", false, "the tag " + short(printable(n.Tag), maxTag) + " is not supported"
	}
	if !fits {
		return "", false, short(printable(strconv.Quote(n.Value)), maxTag) + " does not fit its tag " + n.Tag
	}
	return text, false, ""
}

// keyOf returns the name of a member: its key as it is written.
func keyOf(key *yaml.Node) (name, message string) {
	n := behind(key)
	if n.Kind != yaml.ScalarNode {
		return "", "a key is an array or an object: expected a text"
	}
	if _, _, message := scalar(n); message != "" {
		return "", message
	}
	return n.Value, ""
}

// isMerge reports whether a key merges the members of other objects, which YAML 1.1 had and many documents use.
func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Style&quotedStyles == 0 &&
		(key.Style&yaml.TaggedStyle == 0 || key.Tag == "!!merge") && key.Tag != "!"
}

// plain returns the JSON of a plain scalar by the core schema of YAML 1.2, section 10.3.2; its text for a string.
func plain(text string) (string, scalarKind) {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return "null", isNull
	case "true", "True", "TRUE":
		return "true", isBool
	case "false", "False", "FALSE":
		return "false", isBool
	}
	if c := text[0]; c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') {
		return text, isString
	}
	return number(text)
}

// number returns the JSON of a number. Those that JSON does not have are strings, and so is one that begins with a
// zero, because readers of YAML do not agree about its value, or has so many digits that it is rather an id.
func number(text string) (string, scalarKind) {
	if base, digits := based(text); base != 0 {
		if n, err := strconv.ParseUint(digits, base, 64); err == nil {
			return strconv.FormatUint(n, 10), isInteger
		}
		return text, isString
	}
	rest, sign := strings.TrimPrefix(text, "+"), ""
	if rest == text {
		if rest = strings.TrimPrefix(text, "-"); rest != text {
			sign = "-"
		}
	}
	whole, rest := cutDigits(rest)
	kind, fraction, exponent := isInteger, "", ""
	if after, found := strings.CutPrefix(rest, "."); found {
		kind = isFloat
		fraction, rest = cutDigits(after)
	}
	if whole == "" && fraction == "" || len(whole) > 1 && whole[0] == '0' || !isMeasuredNumber(text) {
		return text, isString
	}
	if rest != "" {
		if exponent = rest; !isExponent(rest) {
			return text, isString
		}
		kind = isFloat
	}
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction + exponent, kind
}

// based returns the base and the digits of a number in hexadecimal or octal; 0 for any other.
func based(text string) (int, string) {
	if digits, found := strings.CutPrefix(text, "0x"); found {
		return 16, digits
	}
	if digits, found := strings.CutPrefix(text, "0o"); found {
		return 8, digits
	}
	return 0, ""
}

func cutDigits(text string) (digits, rest string) {
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	return text[:end], text[end:]
}

func isExponent(text string) bool {
	if text[0] != 'e' && text[0] != 'E' {
		return false
	}
	text = text[1:]
	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	digits, rest := cutDigits(text)
	return digits != "" && rest == ""
}
