package verification

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// param is a checked Param.
type param struct {
	Param
	pattern *regexp.Regexp
}

// compileParams checks the declared parameters.
func compileParams(declared []Param) ([]param, problems) {
	var fs problems
	if len(declared) > maxParams {
		fs.add("params", ruleLimit, "has more than %d entries", maxParams)
		return nil, fs
	}
	seen := map[string]bool{}
	out := make([]param, 0, len(declared))
	for i, d := range declared {
		field := at("params", i)
		if !validParamName(d.Name) {
			fs.add(field+".name", ruleFormat, "must be a lower-case letter followed by at most 39 of a-z, 0-9 and _")
		}
		if seen[d.Name] {
			fs.add(field+".name", ruleUnique, "is declared twice: %q", d.Name)
		}
		seen[d.Name] = true
		p, wrong := compileParam(field, d)
		fs = append(fs, wrong...)
		out = append(out, p)
	}
	return out, fs
}

func compileParam(field string, d Param) (param, problems) {
	var fs problems
	p := param{Param: d}
	p.Enum = slices.Clone(d.Enum)
	if strings.TrimSpace(d.Description) == "" || len(d.Description) > maxText {
		fs.add(field+".description", ruleRequired, "must describe the purpose of the parameter, in at most %d bytes", maxText)
	}
	switch {
	case (len(d.Enum) > 0) == (d.Pattern != ""):
		fs.add(field, ruleCoherent, "needs either enum or pattern")
	case len(d.Enum) > maxEntries:
		fs.add(field+".enum", ruleLimit, "has more than %d entries", maxEntries)
	case d.Pattern != "":
		re, err := regexp.Compile(`\A(?:` + d.Pattern + `)\z`)
		if err != nil || len(d.Pattern) > maxText {
			fs.add(field+".pattern", ruleFormat, "is not a regular expression (RE2) of at most %d bytes", maxText)
		} else {
			p.pattern = re
		}
	}
	for i, v := range d.Enum {
		if v == "" || !validParamText(v) || slices.Index(d.Enum, v) != i {
			fs.add(at(field+".enum", i), ruleFormat,
				"must be printable ASCII of at most %d bytes, not empty, without {param:, and no other's equal", maxParamValue)
		}
	}
	if len(fs) > 0 {
		return p, fs
	}
	if d.Required && d.Default != "" {
		fs.add(field, ruleCoherent, "has a default, so it cannot be required")
	}
	if d.Default != "" {
		if rule, _ := p.check(d.Default); rule != "" {
			fs.add(field+".default", rule, "is not a value that the parameter accepts")
		}
	}
	if d.Example != "" {
		if rule, _ := p.check(d.Example); rule != "" {
			fs.add(field+".example", rule, "is not a value that the parameter accepts")
		}
	}
	if d.Pattern != "" && d.Default == "" && d.Example == "" {
		fs.add(field+".example", ruleRequired, "is required if there is a pattern and no default")
	}
	return p, fs
}

// check returns the rule that a value breaks and what to say about it, or nothing. The value is not quoted.
func (p *param) check(value string) (rule, message string) {
	switch {
	case value == "" && !p.Required && p.Default == "":
		return "", ""
	case value == "":
		return ruleRequired, "must not be empty"
	case !validParamText(value):
		return ruleFormat, fmt.Sprintf("must be printable ASCII of at most %d bytes", maxParamValue)
	case len(p.Enum) > 0 && !slices.Contains(p.Enum, value):
		return ruleEnum, "must be one of: " + strings.Join(p.Enum, ", ")
	case p.pattern != nil && !p.pattern.MatchString(value):
		return rulePattern, "must have the documented form, such as " + cmp.Or(p.Example, p.Default)
	default:
		return "", ""
	}
}

// sample is a value with which the declaration is checked when a connection has to give one.
func (p *param) sample() string {
	switch {
	case p.Default != "" || !p.Required:
		return p.Default
	case p.Example != "":
		return p.Example
	default:
		return p.Enum[0]
	}
}

// alternatives are the other values known from the declaration itself.
func (p *param) alternatives() []string {
	if p.Example != "" {
		return append([]string{p.Example}, p.Enum...)
	}
	return p.Enum
}

func validParamName(name string) bool {
	if name == "" || len(name) > 40 || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

func validParamText(value string) bool {
	return len(value) <= maxParamValue && printableText(value)
}

// printableText reports whether a text is printable ASCII, spaces included, that mentions no parameter.
func printableText(value string) bool {
	if strings.Contains(value, paramOpen) {
		return false
	}
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return true
}
