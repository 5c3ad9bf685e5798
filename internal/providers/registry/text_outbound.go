package registry

import (
	"bytes"
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

const apiIntro = `
Requests to a provider's API go below its base URL. Credentials go to the hosts listed, and to no others; ` + "`*`" + ` is one label. A
connection uses one of the modes; the first is the default. The section of a provider lists its actions with their
[risk](../../internal/providers/risk/README.md).

| Provider | Base URL | Hosts | Modes |
|---|---|---|---|
`

// outboundTable writes the table of the providers' APIs.
func outboundTable(b *bytes.Buffer, rows []Summary) {
	b.WriteString(apiIntro)
	for i := range rows {
		s := rows[i].Outbound
		if s == nil {
			continue
		}
		for _, text := range []string{"[`" + rows[i].Slug + "`](#" + rows[i].Slug + ")", quoteAll(s.allBaseURLs(), code),
			quoteAll(s.AllowedHosts, code), "`" + strings.ReplaceAll(s.ModesText(), ", ", "`, `") + "`"} {
			b.WriteString("| " + cell(text) + " ")
		}
		b.WriteString("|\n")
	}
}

// outboundSection writes the modes and settings of one provider.
func outboundSection(b *bytes.Buffer, s *OutboundSummary) {
	b.WriteString("\n| Mode | | Credentials | Documentation |\n|---|---|---|---|\n")
	for i := range s.Modes {
		m := &s.Modes[i]
		about, docs := m.title()+".", "–"
		if m.Description != "" {
			about += " " + m.Description
		}
		about = plain(about)
		if len(m.BaseURLs) > 0 {
			about += " At " + quoteAll(m.BaseURLs, code) + "."
		}
		if len(m.DefaultScopes) > 0 {
			about += " Scopes by default: " + quoteAll(m.DefaultScopes, code) + "."
		}
		if m.DocsURL != "" {
			docs = link("page", m.DocsURL)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", m.Name, cell(about), cell(m.credentialsText(code)), docs)
	}
	for i := range s.Modes {
		if m := &s.Modes[i]; m.Setup != "" {
			fmt.Fprintf(b, "\n`%s`: %s\n", m.Name, m.Setup)
		}
	}
	if len(s.Scopes) > 0 {
		b.WriteString("\n| Scope | Meaning |\n|---|---|\n")
	}
	for _, scope := range slices.Sorted(maps.Keys(s.Scopes)) {
		fmt.Fprintf(b, "| %s | %s. |\n", cell(code(scope)), cell(plain(s.Scopes[scope])))
	}
	if len(s.Config) > 0 {
		b.WriteString("\n| `connection_config` | Values | Default | Meaning |\n|---|---|---|---|\n")
	}
	for i := range s.Config {
		f := &s.Config[i]
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Name, cell(f.valuesText(code)), cell(f.defaultText(code)),
			cell(plain(f.meaning())+s.modesOf(f.Name, code)))
	}
}
