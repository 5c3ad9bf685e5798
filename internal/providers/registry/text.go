package registry

import (
	"fmt"
	"strings"
)

// Text describes the provider for a terminal, in lines.
func (s *Summary) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n\n", s.DisplayName, s.Slug)
	line := func(name, text string) { fmt.Fprintf(&b, "%-15s %s\n", name, text) }
	same := func(text string) string { return text }
	line("Documentation", s.DocsURL)
	line("Categories", strings.Join(s.Categories, ", "))
	line("Definition", string(s.Source))
	if s.Outbound != nil {
		s.Outbound.lines(line)
	}
	w := s.Webhooks
	if w == nil {
		line("Webhooks", "none")
		if s.Outbound != nil {
			s.Outbound.sections(&b)
		}
		actionLines(&b, s.Actions)
		return b.String()
	}
	line("Scheme", w.Proof.SchemeText())
	line("Proof in", w.Proof.PlacesText(same))
	line("Signed", w.Proof.SignedText(same))
	line("Age limit", w.Proof.AgeText(same))
	line("Type", w.TypeText(same))
	if rules := w.typeRulesText(same); rules != "" {
		line("", rules)
	}
	line("Id", w.IDText(same))
	line("Removed", "from the body: "+w.RedactedText(same))
	line("Handshakes", w.HandshakeText())
	if e := s.Evidence; e != nil {
		line("Grade", string(e.Grade))
		line("Source", e.Source)
		line("", e.URL)
	}
	if len(w.Params) > 0 {
		b.WriteString("\nParameters\n")
	}
	for i := range w.Params {
		p := &w.Params[i]
		fmt.Fprintf(&b, "  %s\n      %s\n      Values: %s. Default: %s.\n", p.Name, p.Description, p.valuesText(same),
			p.defaultText(same))
	}
	if len(w.KnownTypes) > 0 {
		b.WriteString("\nKnown types\n")
		for _, t := range w.KnownTypes {
			text := t.Type
			if t.Written != t.Type {
				text += "  (" + t.Written + ")"
			}
			b.WriteString("  " + text + "\n")
		}
	}
	b.WriteString("\nSet-up\n" + indent(w.Setup))
	if s.Outbound != nil {
		s.Outbound.sections(&b)
	}
	actionLines(&b, s.Actions)
	if e := s.Evidence; e != nil && len(e.LeftOut) > 0 {
		b.WriteString("\nNot confirmed by a source of the provider's own, and so left out\n")
		for _, text := range e.LeftOut {
			b.WriteString("  - " + text + "\n")
		}
	}
	return b.String()
}

func indent(text string) string {
	var b strings.Builder
	for text := range strings.Lines(text + "\n") {
		if text != "\n" {
			b.WriteString("  ")
		}
		b.WriteString(text)
	}
	return b.String()
}
