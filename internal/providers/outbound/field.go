package outbound

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/internal/platform/secretbox"
)

// Field is a value that a connection may have: one of connection_config, or a credential of a mode. It has what a form
// needs.
type Field struct {
	Name        string
	Title       string
	Description string
	Type        FieldType
	Secret      bool
	Optional    bool
	// RequiredFor names the modes in which a user has to give a value all the same.
	RequiredFor []string
	// Pattern is the RE2 expression of the whole value; empty for any.
	Pattern string
	Example string
	Enum    []string
	Default string
	Suffix  string
	Source  FieldSource
	// Multiline values, such as keys in PEM, have line breaks.
	Multiline bool
	// Minted values come from the provider's token endpoint, and no one enters them. They may be given for a token that
	// was made elsewhere.
	Minted bool

	pattern *regexp.Regexp
}

// Schema returns the JSON Schema (2020-12) of fields that a form asks for. It has every constraint but Type url, which
// is the format uri.
func Schema(fields []Field) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range fields {
		f := &fields[i]
		p := map[string]any{"type": "string", "title": f.Title}
		add := func(key, value string) {
			if value != "" {
				p[key] = value
			}
		}
		add("description", f.Description)
		add("default", f.Default)
		if f.Pattern != "" {
			p["pattern"] = anchored(f.Pattern)
		}
		if f.Example != "" {
			p["examples"] = []string{f.Example}
		}
		switch f.Type {
		case TypeEnum:
			p["enum"] = slices.Clone(f.Enum)
		case TypeURL:
			p["format"] = "uri"
		case TypeInteger:
			p["pattern"] = integerPattern
		case TypeBoolean:
			p["enum"] = []string{"true", "false"}
		default:
		}
		if f.Secret {
			p["writeOnly"] = true
		}
		properties[f.Name] = p
		if !f.Optional && !f.Minted && f.Default == "" && (f.Source == SourceUser || f.Source == "") {
			required = append(required, f.Name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

const integerPattern = "^-?(0|[1-9][0-9]{0,17})$"

func anchored(pattern string) string { return "^(?:" + pattern + ")$" }

// check returns a clause about a value that is given; empty if it is accepted.
func (f *Field) check(value string) string {
	limit := maxCredential
	if f.Source != "" {
		limit = maxConfigValue
	}
	switch {
	case len(value) > limit:
		return "is longer than " + strconv.Itoa(limit) + " bytes"
	case !utf8.ValidString(value):
		return "is not UTF-8"
	case !f.Multiline && hasControl(value), f.Multiline && hasControl(strings.NewReplacer("\n", "", "\r", "", "\t",
		"").Replace(value)):
		return "has a line break or another control character"
	}
	switch f.Type {
	case TypeEnum:
		if !slices.Contains(f.Enum, value) {
			return "must be one of " + strings.Join(f.Enum, ", ")
		}
	case TypeURL:
		u, wrong := parseURL(value)
		if wrong == "" && (u.RawQuery != "" || u.ForceQuery) {
			wrong = "must not have a query"
		}
		return wrong
	case TypeInteger:
		if _, err := strconv.ParseInt(value, 10, 64); err != nil || value[0] == '+' ||
			len(strings.TrimPrefix(value, "-")) > 1 && strings.TrimPrefix(value, "-")[0] == '0' {
			return "must be a whole number"
		}
	case TypeBoolean:
		if value != "true" && value != "false" {
			return "must be true or false"
		}
	default:
		if f.pattern != nil && !f.pattern.MatchString(value) {
			return "does not have the form of this value" + f.exampleText()
		}
	}
	return ""
}

func (f *Field) exampleText() string {
	if f.Example == "" {
		return ""
	}
	return ", such as " + f.Example
}

// requiredFor reports whether connections of a mode need a value from a user.
func (f *Field) requiredFor(m *Mode) bool { return slices.Contains(f.RequiredFor, m.Name) }

// in returns the field as connections of a mode have it.
func (f *Field) in(m *Mode) Field {
	out := *f
	if f.requiredFor(m) {
		out.Optional, out.Default, out.Source = false, "", SourceUser
	}
	return out
}

// sample returns a value with which templates are checked when the definition is loaded.
func (f *Field) sample() string {
	switch {
	case f.Default != "":
		return f.Default
	case f.Example != "":
		return f.Example
	case f.Type == TypeEnum:
		return f.Enum[0]
	case f.Type == TypeInteger:
		return "1"
	case f.Type == TypeBoolean:
		return "true"
	default:
		return "sample"
	}
}

// compilePattern checks the pattern of a field with its example and default.
func (f *Field) compilePattern(path string, ps *problems) {
	if f.Pattern == "" {
		return
	}
	pattern, err := regexp.Compile(`\A(?:` + f.Pattern + `)\z`)
	if err != nil || len(f.Pattern) > maxText {
		ps.add(path+".pattern", "must be an RE2 expression of at most %d bytes", maxText)
		return
	}
	f.pattern = pattern
	if f.Example == "" && f.Default == "" {
		ps.add(path+".example", "is needed with a pattern")
	}
}

// checkTexts checks title and description.
func checkTexts(path, title, description string, required bool, ps *problems) {
	switch {
	case title == "" && required:
		ps.add(path+".title", "must say what the field is, in 1 to %d characters", maxTitle)
	case !isLine(title, maxTitle):
		ps.add(path+".title", "must be one line of at most %d characters without spaces around it", maxTitle)
	}
	if !isLine(description, maxDescription) {
		ps.add(path+".description", "must be one line of at most %d characters without spaces around it", maxDescription)
	}
}

func isLine(s string, limit int) bool {
	return strings.TrimSpace(s) == s && utf8.RuneCountInString(s) <= limit &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Config are the values of a connection's connection_config, with defaults, as ResolveConfig returns them. All of them
// are secrets to the printer, because some are.
type Config map[string]secretbox.Secret
