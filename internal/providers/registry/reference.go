package registry

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

const referenceIntro = `# Providers

The built-in definitions, generated from ` + "[`definitions/`](../../definitions) by `sallyport providers reference`" + `; do not edit.
A folder with your own definitions adds to them: [Add a provider](../guides/add-a-provider.md).

The table uses the terms of [the format](../../internal/providers/verification/README.md#the-format):

- **Signed** is the part that the signature covers. If it does not cover the body, anyone with one webhook can send any body.
- **Age limit** is the maximum age of a webhook, by its timestamp. Without a limit, only the id prevents the replay of an old webhook.
- **Type** and **Id** are the sources of an event's type and id. Anyone who replays a webhook can change the parts that are not signed.
  Without an id each webhook is a new event, unless the provider's bodies are unique: then the same type and body within an hour is a
  duplicate. The connection's ` + "`dedupe_window_seconds`" + ` sets the time, for any provider. A value that is *used once* makes a webhook a
  duplicate of the one that used it first.
- **Removed from the body** are secrets that prove a webhook, or would prove further ones. They are ` + "`[redacted]`" + ` in
  what is stored and forwarded, also in ` + "`raw`" + `, so that no receiver can verify the provider's signature over such a body.
- **Known types** are those that the provider documents, or that its packages name. It may send more. A family such as
  ` + "`slash_command.*`" + ` stands for all types that begin so.
- **Handshakes** are the provider's checks of the URL: ` + "`echo`" + ` returns a value, ` + "`hmac`" + ` signs one, ` + "`secret`" + ` contains the
  webhook secret, ` + "`fixed`" + ` is always the same. A signed handshake gets a response only if its signature is valid.
- **Grade** ` + "`vector`" + `: a test verifies a webhook that the provider published, or that its own SDK signed or accepted.
  ` + "`documented`" + `: the webhook was made from the provider's documentation. The source is linked.
- ` + "`<name>`" + ` stands for a parameter of the connection.

%d providers with webhooks, %d of them of grade ` + "`vector`" + `.

| Provider | Scheme | Signed | Age limit | Type | Id | Handshakes | Grade | Source |
|---|---|---|---|---|---|---|---|---|
`

// Reference writes docs/reference/providers.md: the features and the set-up of each provider of a registry.
func Reference(w io.Writer, r *Registry) error {
	var b bytes.Buffer
	var rows []Summary
	webhooks, vectors, apis := 0, 0, 0
	for _, p := range r.List() {
		s := p.Summary()
		if s.Outbound != nil {
			apis++
		}
		if s.Webhooks == nil && s.Outbound == nil {
			continue
		}
		rows = append(rows, s)
		if s.Webhooks == nil {
			continue
		}
		webhooks++
		if s.Evidence != nil && s.Evidence.Grade == GradeVector {
			vectors++
		}
	}
	fmt.Fprintf(&b, referenceIntro, webhooks, vectors)
	for i := range rows {
		if rows[i].Webhooks != nil {
			row(&b, &rows[i])
		}
	}
	if apis > 0 {
		outboundTable(&b, rows)
	}
	for i := range rows {
		section(&b, &rows[i])
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write the reference of providers: %w", err)
	}
	return nil
}

func row(b *bytes.Buffer, s *Summary) {
	w, grade, source := s.Webhooks, "–", "–"
	if e := s.Evidence; e != nil {
		grade, source = string(e.Grade), link(e.Source, e.URL)
	}
	for _, text := range []string{
		"[`" + s.Slug + "`](#" + s.Slug + ")", w.Proof.SchemeText(), w.Proof.SignedText(code), w.Proof.AgeText(code),
		w.TypeText(code), w.IDText(code), w.HandshakeText(), grade, source,
	} {
		b.WriteString("| " + cell(text) + " ")
	}
	b.WriteString("|\n")
}

func section(b *bytes.Buffer, s *Summary) {
	w := s.Webhooks
	fmt.Fprintf(b, "\n## %s\n\n%s (%s).", s.Slug, plain(s.DisplayName), link("documentation", s.DocsURL))
	if w == nil {
		b.WriteString("\n")
		outboundSection(b, s.Outbound)
		actionSection(b, s.Actions)
		return
	}
	fmt.Fprintf(b, " The proof of the sender is in: %s.\n\n%s\n", w.Proof.PlacesText(code), w.Setup)
	if rules := w.typeRulesText(code); rules != "" {
		fmt.Fprintf(b, "\nIn the types of events %s. A pattern of a subscription can be written either way.\n", rules)
	}
	if len(w.Redacted) > 0 {
		fmt.Fprintf(b, "\nRemoved from the body: %s.\n", w.RedactedText(code))
	}
	if len(w.KnownTypes) > 0 {
		fmt.Fprintf(b, "\nKnown types: %s.\n", w.knownTypesText(code))
	}
	if len(w.Params) > 0 {
		b.WriteString("\n| Parameter | Values | Default | Meaning |\n|---|---|---|---|\n")
		for i := range w.Params {
			p := &w.Params[i]
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", p.Name, cell(p.valuesText(code)), cell(p.defaultText(code)),
				cell(plain(p.Description)))
		}
	}
	if s.Outbound != nil {
		outboundSection(b, s.Outbound)
	}
	actionSection(b, s.Actions)
	if e := s.Evidence; e != nil && len(e.LeftOut) > 0 {
		b.WriteString("\nNot confirmed by a source of the provider's own, and so left out:\n\n")
		for _, text := range e.LeftOut {
			b.WriteString("- " + plain(text) + "\n")
		}
	}
}

func (p *ParamSummary) valuesText(quote func(string) string) string {
	if len(p.Enum) > 0 {
		return quoteAll(p.Enum, quote)
	}
	text := "matching " + quote(p.Pattern)
	if p.Example != "" {
		text += ", such as " + quote(p.Example)
	}
	return text
}

func (p *ParamSummary) defaultText(quote func(string) string) string {
	switch {
	case p.Required:
		return "required"
	case p.Default == "":
		return "off"
	default:
		return quote(p.Default)
	}
}

// code makes a code span of text that may hold backticks (CommonMark section 6.1).
func code(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

func link(text, url string) string {
	return "[" + plain(text) + "](" + strings.NewReplacer("(", "%28", ")", "%29", " ", "%20", "<", "%3C", ">",
		"%3E").Replace(url) + ")"
}

// cell keeps text from ending a table's cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// plain keeps text from opening an HTML tag or a link.
func plain(s string) string { return strings.NewReplacer("<", `\<`, "[", `\[`, "]", `\]`).Replace(s) }
