package registry

import (
	"maps"
	"slices"
	"strings"
)

// show turns the parameters in a text of a definition into what people read: <name>.
func show(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{param:")
		out.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return out.String()
		}
		out.WriteString("<" + name + ">")
		text = after
	}
}

// each describes the proofs of a group one after the other, and a single one alone.
func (s *ProofSummary) each(describe func(*ProofSummary) string) string {
	group, word := s.AnyOf, " or "
	if s.AllOf != nil {
		group, word = s.AllOf, " and "
	}
	if group == nil {
		return describe(s)
	}
	var parts []string
	for i := range group {
		part := group[i].each(describe)
		if group[i].AnyOf != nil || group[i].AllOf != nil {
			part = "(" + part + ")"
		}
		parts = append(parts, part)
	}
	if len(slices.Compact(slices.Clone(parts))) == 1 {
		return parts[0]
	}
	return strings.Join(parts, word)
}

// SchemeText names the scheme with its algorithms, such as "hmac sha256".
func (s *ProofSummary) SchemeText() string {
	return s.each(func(p *ProofSummary) string {
		return strings.TrimSpace(p.Scheme + " " + showAll(p.Algorithms))
	})
}

// PlacesText names the places of the signature, token or secret.
func (s *ProofSummary) PlacesText(quote func(string) string) string {
	return s.each(func(p *ProofSummary) string {
		if len(p.Signatures) == 0 {
			return "none"
		}
		return quoteAll(p.Signatures, quote)
	})
}

// SignedText describes the parts that the signature covers.
func (s *ProofSummary) SignedText(quote func(string) string) string {
	return s.each(func(p *ProofSummary) string {
		var parts []string
		if len(p.Signed) > 0 {
			parts = append(parts, quoteAll(p.Signed, quote))
		}
		if p.BodyHash != "" {
			parts = append(parts, "the body by its hash in "+quote(show(p.BodyHash)))
		}
		switch {
		case p.Scheme == "jwt":
			parts = append([]string{"the token"}, parts...)
		case len(parts) == 0:
			return "nothing"
		}
		text := strings.Join(parts, ", and ")
		if p.BodyUnsigned {
			text += "; not the body"
		}
		return text
	})
}

// singleUses returns the places of values that are used once.
func (s *ProofSummary) singleUses() []string {
	var list []string
	if s.SingleUse != "" {
		list = append(list, s.SingleUse)
	}
	for _, group := range [][]ProofSummary{s.AnyOf, s.AllOf} {
		for i := range group {
			list = append(list, group[i].singleUses()...)
		}
	}
	return list
}

// AgeText describes the maximum age of a webhook.
func (s *ProofSummary) AgeText(quote func(string) string) string {
	return s.each(func(p *ProofSummary) string {
		text := "none"
		if strings.Contains(p.MaxAgeS, "{param:") {
			text = quote(show(p.MaxAgeS)) + " s"
		} else if p.MaxAgeS != "" {
			text = p.MaxAgeS + " s"
		}
		switch {
		case p.Scheme == "jwt" && p.MaxAgeS == "":
			text = "the token's exp"
		case p.Timestamp != "" && !p.TimestampSigned:
			text += " (timestamp not signed)"
		case strings.Contains(p.Timestamp, "{param:"):
			text += " by " + quote(show(p.Timestamp))
		}
		return text
	})
}

// TypeText describes the source of the type.
func (w *WebhooksSummary) TypeText(quote func(string) string) string {
	return w.derivation(w.Types, func(b *BatchSummary) []SourceSummary { return b.Types }, quote)
}

// IDText describes the source of the id, and whether it is signed.
func (w *WebhooksSummary) IDText(quote func(string) string) string {
	text := w.derivation(w.IDs, func(b *BatchSummary) []SourceSummary { return b.IDs }, quote)
	if list := w.Proof.singleUses(); len(list) > 0 {
		for i := range list {
			list[i] = quote(show(list[i]))
		}
		text += "; used once: " + strings.Join(list, " or ")
	}
	if w.BodiesUnique {
		text += "; bodies are unique"
	}
	return text
}

func quotedList(list []string, quote func(string) string) string {
	quoted := make([]string, len(list))
	for i, text := range list {
		quoted[i] = quote(show(text))
	}
	return strings.Join(quoted, " and ")
}

func (w *WebhooksSummary) derivation(list []SourceSummary, ofBatch func(*BatchSummary) []SourceSummary,
	quote func(string) string) string {
	var parts []string
	if w.Batch != nil {
		if items := ofBatch(w.Batch); len(items) > 0 {
			parts = append(parts, "each of "+quotedList(w.Batch.Items, quote)+": "+sourcesText(items, quote))
		}
	}
	if len(list) > 0 {
		parts = append(parts, sourcesText(list, quote))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "; else ")
}

func sourcesText(list []SourceSummary, quote func(string) string) string {
	parts := make([]string, len(list))
	none := len(list) > 1 && !slices.ContainsFunc(list, func(s SourceSummary) bool { return s.Signed })
	for i, s := range list {
		parts[i] = quote(show(s.From))
		if !s.Signed && !none {
			parts[i] += " (not signed)"
		}
	}
	text := strings.Join(parts, ", else ")
	if none {
		text += " (none of them signed)"
	}
	return text
}

// RedactedText names the values that are removed from the body.
func (w *WebhooksSummary) RedactedText(quote func(string) string) string {
	if len(w.Redacted) == 0 {
		return "nothing"
	}
	return quoteAll(w.Redacted, quote)
}

// HandshakeText lists the handshakes.
func (w *WebhooksSummary) HandshakeText() string {
	if len(w.Handshakes) == 0 {
		return "none"
	}
	parts := make([]string, len(w.Handshakes))
	for i, h := range w.Handshakes {
		parts[i] = strings.Join(h.Methods, ", ") + " " + string(h.Kind)
		if h.Signed {
			parts[i] += " (signed)"
		}
	}
	return strings.Join(parts, "; ")
}

func quoteAll(list []string, quote func(string) string) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = quote(show(s))
	}
	return strings.Join(parts, ", ")
}

func showAll(list []string) string {
	return quoteAll(list, func(s string) string { return s })
}

// typeRulesText describes how the types of events differ from what the provider writes; empty if they do not.
func (w *WebhooksSummary) typeRulesText(quote func(string) string) string {
	var parts []string
	for _, separator := range w.TypeSeparators {
		parts = append(parts, quote(string(separator))+" becomes a dot")
	}
	for _, written := range slices.Sorted(maps.Keys(w.TypeMap)) {
		parts = append(parts, quote(written)+" becomes "+quote(w.TypeMap[written]))
	}
	return strings.Join(parts, ", ")
}

// knownTypesText lists the types that the provider is known to send, as events have them.
func (w *WebhooksSummary) knownTypesText(quote func(string) string) string {
	types := make([]string, len(w.KnownTypes))
	for i, t := range w.KnownTypes {
		types[i] = quote(t.Type)
	}
	slices.Sort(types)
	return strings.Join(types, ", ")
}
