package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// lines writes the outbound half among the facts of Text.
func (s *OutboundSummary) lines(line func(name, text string)) {
	line("API", strings.Join(s.allBaseURLs(), ", "))
	line("Hosts", strings.Join(s.AllowedHosts, ", "))
	line("Auth", s.ModesText())
}

// sections writes the outbound half behind the facts of Text.
func (s *OutboundSummary) sections(b *strings.Builder) {
	same := func(text string) string { return text }
	b.WriteString("\nAuthentication\n")
	for i := range s.Modes {
		m := &s.Modes[i]
		fmt.Fprintf(b, "  %s: %s\n", m.Name, m.title())
		if m.Description != "" {
			b.WriteString("      " + m.Description + "\n")
		}
		fmt.Fprintf(b, "      Credentials: %s.\n", m.credentialsText(same))
		if len(m.BaseURLs) > 0 {
			fmt.Fprintf(b, "      API: %s.\n", strings.Join(m.BaseURLs, ", "))
		}
		if len(m.DefaultScopes) > 0 {
			fmt.Fprintf(b, "      Scopes by default: %s.\n", strings.Join(m.DefaultScopes, ", "))
		}
		if len(m.Config) > 0 {
			fmt.Fprintf(b, "      Settings: %s.\n", strings.Join(m.Config, ", "))
		}
		if m.DocsURL != "" {
			b.WriteString("      " + m.DocsURL + "\n")
		}
		if m.Setup != "" {
			b.WriteString(indent(indent(indent(m.Setup))))
		}
	}
	if len(s.Scopes) > 0 {
		b.WriteString("\nScopes\n")
	}
	for _, scope := range slices.Sorted(maps.Keys(s.Scopes)) {
		fmt.Fprintf(b, "  %s: %s.\n", scope, s.Scopes[scope])
	}
	if len(s.Config) > 0 {
		b.WriteString("\nSettings of a connection (connection_config)\n")
	}
	for i := range s.Config {
		f := &s.Config[i]
		fmt.Fprintf(b, "  %s\n      %s\n      Values: %s. Default: %s.\n", f.Name, f.meaning()+s.modesOf(f.Name, same),
			f.valuesText(same),
			f.defaultText(same))
	}
}

// meaning is the description, or the title of a field without one.
func (f *FieldSummary) meaning() string {
	if f.Description == "" {
		return f.Title + "."
	}
	return f.Description
}
