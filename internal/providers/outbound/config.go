package outbound

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/platform/secretbox"
)

var fieldName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// compileConfig checks connection_config.
func compileConfig(d ConfigFields, ps *problems) []Field {
	if len(d.names) > maxFields {
		ps.add("connection_config", "has more than %d fields", maxFields)
	}
	var out []Field
	for _, key := range d.names {
		c, path := d.byName[key], "connection_config."+key
		if !fieldName.MatchString(key) {
			ps.add(path, "must have a name of lower-case letters, digits and _, which begins with a letter")
			continue
		}
		f := Field{Name: key, Title: c.Title, Description: c.Description, Type: c.Type, Secret: c.Secret,
			Optional: c.Optional, RequiredFor: slices.Clone(c.RequiredFor), Pattern: c.Pattern, Example: c.Example,
			Enum: c.Enum, Default: c.Default,
			Suffix: c.Suffix, Source: c.Source}
		if f.Type == "" {
			f.Type = TypeString
		}
		if f.Source == "" {
			f.Source = SourceUser
		}
		compileField(&f, c.Type, path, ps)
		out = append(out, f)
	}
	return out
}

func compileField(f *Field, declared FieldType, path string, ps *problems) {
	checkTexts(path, f.Title, f.Description, true, ps)
	if len(f.Enum) > 0 {
		f.Type = TypeEnum
		if declared != "" && declared != TypeEnum {
			ps.add(path+".type", "must be left out with enum")
		}
		if len(f.Enum) > maxEntries || slices.Contains(f.Enum, "") || len(slices.Compact(slices.Sorted(slices.Values(
			f.Enum)))) != len(f.Enum) {
			ps.add(path+".enum", "needs 1 to %d different values", maxEntries)
		}
	} else if declared == TypeEnum {
		ps.add(path+".enum", "is needed with the type enum")
		f.Enum = []string{"sample"}
	}
	if !slices.Contains([]FieldType{TypeString, TypeInteger, TypeBoolean, TypeURL, TypeEnum}, f.Type) {
		ps.add(path+".type", "must be string, integer, boolean, url or enum")
		f.Type = TypeString
	}
	if !slices.Contains([]FieldSource{SourceUser, SourceRedirect, SourceTokenResponse, SourceProbe}, f.Source) {
		ps.add(path+".source", "must be user, redirect, token_response or probe")
	}
	if f.Pattern != "" && f.Type != TypeString {
		ps.add(path+".pattern", "is for strings")
		f.Pattern = ""
	}
	f.compilePattern(path, ps)
	if f.Type == TypeURL && f.Example == "" && f.Default == "" {
		ps.add(path+".example", "is needed with the type url")
		f.Example = "https://api.example.com"
	}
	if f.Suffix != "" && (f.Type != TypeString || strings.Trim(f.Suffix, "abcdefghijklmnopqrstuvwxyz0123456789-./") !=
		"") {
		ps.add(path+".suffix", "is for strings, and has lower-case letters, digits, dots, hyphens and slashes only")
	}
	if f.Secret && f.Default != "" {
		ps.add(path+".default", "cannot be that of a secret")
	}
	for what, value := range map[string]string{"default": f.Default, "example": f.Example} {
		if wrong := f.check(value); value != "" && wrong != "" {
			ps.add(path+"."+what, "%s", wrong)
		}
	}
}

// ConfigFields returns the fields of connection_config, in declared order.
func (e *Engine) ConfigFields() []Field { return slices.Clone(e.fields) }

// field returns a field of connection_config; nil without one.
func (e *Engine) field(key string) *Field {
	for i := range e.fields {
		if e.fields[i].Name == key {
			return &e.fields[i]
		}
	}
	return nil
}

// ResolveConfig checks a connection's values and adds the defaults. An empty value is none. Only values that requests
// of the mode use have to be there; those that a redirect, a token response or a probe gives may be missing, unless the
// field is required for the mode, and requests that need them are refused until they are there. An unknown mode is a
// problem.
func (e *Engine) ResolveConfig(mode string, given map[string]string) (Config, []Problem) {
	var ps problems
	out := Config{}
	m, ok := e.Mode(mode)
	if !ok {
		ps.add("mode", "is not a mode of this provider")
		return nil, ps
	}
	for i := range e.fields {
		own := e.fields[i].in(m)
		f := &own
		value := given[f.Name]
		if f.Suffix != "" {
			value = strings.TrimSuffix(value, f.Suffix)
		}
		if value == "" {
			value = f.Default
		}
		if value == "" {
			if !f.Optional && f.Source == SourceUser && slices.ContainsFunc(m.Config, func(used Field) bool {
				return used.Name == f.Name
			}) {
				ps.add("connection_config."+f.Name, "is missing")
			}
			continue
		}
		if wrong := f.check(value); wrong != "" {
			ps.add("connection_config."+f.Name, "%s", wrong)
			continue
		}
		if e.inHost[f.Name] && f.Type != TypeURL && !hostValue(f, value) {
			ps.add("connection_config."+f.Name, "must be a part of a host name: letters, digits and hyphens%s",
				f.exampleText())
			continue
		}
		out[f.Name] = secretbox.Secret(value)
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if e.field(key) == nil {
			ps.add("connection_config."+short(key), "is not a field of this provider")
		}
	}
	return out, ps
}
