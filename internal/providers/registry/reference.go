package registry

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const referenceIntro = `# Providers

The built-in definitions, generated from ` + "[`definitions/`](../../definitions) by `sallyport providers reference`" + `; do not edit.
A folder with your own definitions adds to them: [Add a provider](../guides/add-a-provider.md) and
[Add a provider with actions](../guides/add-a-provider-with-actions.md).

%s: %d to which accounts connect, %d with %s, and %d with webhooks, %d of them of grade ` + "`vector`" + `. The page of a
provider says how to connect it, what it can do, what it sends, and what of that is verified.

| Provider | Slug | Connect by | Actions | Webhooks | Known types | Grade |
|---|---|---|---|---|---|---|
`

const referenceWebhooks = `
## How webhooks are verified

The table uses the terms of [the format](../../internal/providers/verification/README.md#the-format):

- **Signed** is the part that the signature covers. If it does not cover the body, anyone with one webhook can send any body.
- **Age limit** is the maximum age of a webhook, by its timestamp. Without a limit, only the id prevents the replay of an old webhook.
- **Type** and **Id** are the sources of an event's type and id. Anyone who replays a webhook can change the parts that are not signed.
  Without an id each webhook is a new event, unless the provider's bodies are unique: then the same type and body within an hour is a
  duplicate. The connection's ` + "`dedupe_window_seconds`" + ` sets the time, for any provider. A value that is *used once* makes a webhook a
  duplicate of the one that used it first.
- **Handshakes** are the provider's checks of the URL: ` + "`echo`" + ` returns a value, ` + "`hmac`" + ` signs one, ` + "`secret`" + ` contains the
  webhook secret, ` + "`fixed`" + ` is always the same. A signed handshake gets a response only if its signature is valid.
- **Grade** ` + "`vector`" + `: a test verifies a webhook that the provider published, or that its own SDK signed or accepted.
  ` + "`documented`" + `: the webhook was made from the provider's documentation. The source is linked.
- ` + "`<name>`" + ` stands for a parameter of the connection.

| Provider | Scheme | Signed | Age limit | Type | Id | Handshakes | Grade | Source |
|---|---|---|---|---|---|---|---|---|
`

// Reference writes docs/reference/providers.md: the list of the providers of a registry, and how webhooks of each are
// verified.
func Reference(w io.Writer, r *Registry) error {
	var b, list, webhooks bytes.Buffer
	providers := r.List()
	verified, vectors, apis, acting, count := 0, 0, 0, 0, 0
	for _, p := range providers {
		s := p.Summary()
		listRow(&list, &s)
		if s.Outbound != nil {
			apis++
		}
		if count += len(s.Actions); len(s.Actions) > 0 {
			acting++
		}
		if s.Webhooks == nil {
			continue
		}
		verified++
		if s.Evidence != nil && s.Evidence.Grade == GradeVector {
			vectors++
		}
		webhookRow(&webhooks, &s)
	}
	fmt.Fprintf(&b, referenceIntro, counted(len(providers), "provider"), apis, acting, counted(count, "action"),
		verified, vectors)
	b.Write(list.Bytes())
	if webhooks.Len() > 0 {
		b.WriteString(referenceWebhooks)
		b.Write(webhooks.Bytes())
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write the reference of providers: %w", err)
	}
	return nil
}

// listRow writes the row of a provider in the list.
func listRow(b *bytes.Buffer, s *Summary) {
	modes, actions, scheme, types, grade := "–", "–", "–", "–", "–"
	if s.Outbound != nil {
		modes = "`" + strings.ReplaceAll(s.Outbound.ModesText(), ", ", "`, `") + "`"
	}
	if len(s.Actions) > 0 {
		actions = strconv.Itoa(len(s.Actions))
	}
	if w := s.Webhooks; w != nil {
		scheme = w.Proof.SchemeText()
		if len(w.KnownTypes) > 0 {
			types = strconv.Itoa(len(w.KnownTypes))
		}
	}
	if s.Evidence != nil {
		grade = string(s.Evidence.Grade)
	}
	writeRow(b, "["+plain(s.DisplayName)+"](providers/"+s.Slug+".md)", "`"+s.Slug+"`", modes, actions, scheme, types,
		grade)
}

// webhookRow writes the row of a provider in the table of webhooks.
func webhookRow(b *bytes.Buffer, s *Summary) {
	w, grade, source := s.Webhooks, "–", "–"
	if e := s.Evidence; e != nil {
		grade, source = string(e.Grade), link(e.Source, e.URL)
	}
	writeRow(b, "[`"+s.Slug+"`](providers/"+s.Slug+".md)", w.Proof.SchemeText(), w.Proof.SignedText(code),
		w.Proof.AgeText(code), w.TypeText(code), w.IDText(code), w.HandshakeText(), grade, source)
}

// writeRow writes a row of a table.
func writeRow(b *bytes.Buffer, cells ...string) {
	for _, text := range cells {
		b.WriteString("| " + cell(text) + " ")
	}
	b.WriteString("|\n")
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
