package registry

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/risk"
)

const pageIntro = "# %s\n\nGenerated from [`definitions/%s.yaml`](../../../definitions/%[2]s.yaml) by `sallyport " +
	"providers " +
	"reference`; do not edit.\nIt is one of the [providers](../providers.md).\n\n"

// Page writes docs/reference/providers/<slug>.md: how a provider is connected, what it can do, what it sends, and what
// of that is verified.
func Page(w io.Writer, p *Provider) error {
	var b bytes.Buffer
	s := p.Summary()
	fmt.Fprintf(&b, pageIntro, plain(s.DisplayName), s.Slug)
	fmt.Fprintf(&b, "- Slug: `%s`\n", s.Slug)
	if len(s.Aliases) > 0 {
		fmt.Fprintf(&b, "- Also found as: %s\n", quoteAll(s.Aliases, code))
	}
	fmt.Fprintf(&b, "- Categories: %s\n- %s\n", strings.Join(s.Categories, ", "), link("Documentation of the provider",
		s.DocsURL))
	if s.Outbound != nil {
		connectSection(&b, &s)
	}
	if len(s.Actions) > 0 {
		actionsSection(&b, s.Actions)
	}
	if s.Webhooks != nil {
		webhooksSection(&b, s.Webhooks)
	}
	verifiedSection(&b, &s)
	if s.Outbound != nil {
		limitsSection(&b, &s)
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write the page of a provider: %w", err)
	}
	return nil
}

// connectSection says where requests go, and what is asked to connect an account.
func connectSection(b *bytes.Buffer, s *Summary) {
	o := s.Outbound
	fmt.Fprintf(b, "\n## Connect it\n\nRequests go below %s. Credentials go to %s, and to no other host",
		quoteAll(o.BaseURLs, code),
		quoteAll(o.AllowedHosts, code))
	if strings.Contains(strings.Join(o.AllowedHosts, " "), "*") {
		b.WriteString("; `*` is one label")
	}
	b.WriteString(".\n")
	if len(o.Modes) > 1 {
		fmt.Fprintf(b, "A connection uses one of the modes %s; the first is the default.\n", "`"+
			strings.ReplaceAll(o.ModesText(), ", ", "`, `")+"`")
	}
	for i := range o.Modes {
		modeSection(b, s, &o.Modes[i])
	}
	if len(o.Config) > 0 {
		b.WriteString("\n### Settings of a connection\n\n| `connection_config` | Values | Default | Meaning " +
			"|\n|---|---|---|---|\n")
	}
	for i := range o.Config {
		f := &o.Config[i]
		writeRow(b, "`"+f.Name+"`", f.valuesText(code), f.defaultText(code), plain(f.meaning())+o.modesOf(f.Name, code))
	}
	if len(o.Scopes) > 0 {
		b.WriteString("\n### OAuth scopes\n\nScopes that the connect page explains. Others can be requested, and are " +
			"shown as they are.\n\n" +
			"| Scope | Meaning |\n|---|---|\n")
	}
	for _, scope := range slices.Sorted(maps.Keys(o.Scopes)) {
		writeRow(b, code(scope), plain(o.Scopes[scope])+".")
	}
}

// modeSection says what one way to authenticate asks for.
func modeSection(b *bytes.Buffer, s *Summary, m *ModeSummary) {
	fmt.Fprintf(b, "\n### `%s`: %s\n", m.Name, plain(m.title()))
	paragraph := func(text string) {
		if text != "" {
			b.WriteString("\n" + text + "\n")
		}
	}
	paragraph(plain(m.Description))
	if len(m.BaseURLs) > 0 {
		paragraph("Requests of this mode go below " + quoteAll(m.BaseURLs, code) + ".")
	}
	paragraph(m.Setup)
	paragraph(m.askedText())
	var rows [][]string
	for i := range m.Credentials {
		if f := &m.Credentials[i]; !f.Minted {
			rows = append(rows, []string{"`" + f.Name + "`", f.valuesText(code), f.defaultText(code), plain(f.meaning())})
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n| Credential | Values | Default | Meaning |\n|---|---|---|---|\n")
	}
	for _, row := range rows {
		writeRow(b, row...)
	}
	if len(m.DefaultScopes) > 0 {
		paragraph("Scopes by default: " + quoteAll(m.DefaultScopes, code) + ".")
	}
	if len(m.Config) > 0 {
		paragraph("Settings: " + quoteAll(m.Config, code) + ".")
	}
	if command := m.command(s); command != "" {
		paragraph("```\n" + command + "\n```")
	}
	tested := "No request tests a connection; its health stays unknown."
	if len(m.Probes) > 0 {
		tested = "A connection is tested by " + strings.Join(codes(m.Probes), " and ") + "."
	}
	if m.DocsURL != "" {
		tested += " " + link("The provider's page", m.DocsURL) + "."
	}
	paragraph(tested)
}

// askedText says who gives what.
func (m *ModeSummary) askedText() string {
	switch {
	case m.Mode == outbound.OAuth2 || m.Mode == outbound.OAuth1:
		return "A person signs in at the provider and consents. The provider config has your OAuth client: see " +
			"[Connect an account by OAuth](../../guides/connect-an-account-by-oauth.md)."
	case m.Mode == outbound.None:
		return "No credentials are needed."
	case m.Client:
		return "The provider config has your client at the provider, and each connection its own credentials."
	default:
		return ""
	}
}

// command makes a connection with the mode; empty for a mode that needs nothing.
func (m *ModeSummary) command(s *Summary) string {
	parts := []string{"sallyport connections create --provider " + s.Slug + " --auth-mode " + m.Name}
	switch m.Mode {
	case outbound.None:
		return ""
	case outbound.OAuth2, outbound.OAuth1:
		parts = append(parts, "--connect")
	default:
		for i := range m.Credentials {
			if f := &m.Credentials[i]; !f.Minted && !f.Optional {
				parts = append(parts, "--credentials "+f.Name+"=FILE")
			}
		}
	}
	for i := range s.Outbound.Config {
		f := &s.Outbound.Config[i]
		needed := f.usualText(func(text string) string { return text }) == "required" || slices.Contains(f.RequiredFor,
			m.Name)
		if needed && slices.Contains(m.Config, f.Name) {
			parts = append(parts, "--connection-config "+f.Name+"=VALUE")
		}
	}
	return strings.Join(parts, " ")
}

func codes(list []string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = code(text)
	}
	return out
}

// actionsSection lists the actions by their first tags, in the order of the definition.
func actionsSection(b *bytes.Buffer, list []ActionSummary) {
	levels := map[risk.Level]int{}
	var tags []string
	byTag := map[string][]*ActionSummary{}
	for i := range list {
		a := &list[i]
		levels[a.Risk]++
		tag := "other"
		if len(a.Tags) > 0 {
			tag = a.Tags[0]
		}
		if byTag[tag] == nil {
			tags = append(tags, tag)
		}
		byTag[tag] = append(byTag[tag], a)
	}
	var parts []string
	for _, level := range risk.Levels() {
		if levels[level] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", levels[level], level))
		}
	}
	fmt.Fprintf(b, "\n## What it can do\n\n%s, by [risk](../risk.md): %s. `sallyport catalog show` shows the inputs "+
		"and outputs "+
		"of each.\n", counted(len(list), "action"), strings.Join(parts, ", "))
	for _, tag := range tags {
		fmt.Fprintf(b, "\n### Actions: %s\n\n| Action | | Request | Risk | Pages | Scopes |\n|---|---|---|---|---|---|\n",
			tag)
		for _, a := range byTag[tag] {
			a.row(b)
		}
	}
}

// counted writes a number with a noun.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// row writes the row of an action.
func (a *ActionSummary) row(b *bytes.Buffer) {
	title, pages, scopes := plain(a.shown()), "–", "–"
	if a.DocsURL != "" {
		title = link(a.shown(), a.DocsURL)
	}
	level := string(a.Risk)
	for _, flag := range a.Flags {
		level += ", " + strings.ReplaceAll(string(flag), "_", " ")
	}
	if a.Pages != "" {
		pages = strings.ReplaceAll(string(a.Pages), "_", " ")
		if a.PageSize > 0 {
			pages += fmt.Sprintf(", up to %d", a.PageSize)
		}
	}
	var alternatives []string
	for _, list := range a.Scopes {
		alternatives = append(alternatives, strings.Join(codes(list), " and "))
	}
	if len(alternatives) > 0 {
		scopes = strings.Join(alternatives, " or ")
	}
	writeRow(b, "`"+a.Name+"`", title, code(a.Method+" "+a.BaseURL+a.Path), level, pages, scopes)
}

// webhooksSection says what the provider sends, and how it is set up.
func webhooksSection(b *bytes.Buffer, w *WebhooksSummary) {
	fmt.Fprintf(b, "\n## What it sends\n\n%s\n", w.Setup)
	b.WriteString("\n| | |\n|---|---|\n")
	writeRow(b, "Scheme", w.Proof.SchemeText())
	writeRow(b, "Proof of the sender", w.Proof.PlacesText(code))
	writeRow(b, "Signed", w.Proof.SignedText(code))
	writeRow(b, "Age limit", w.Proof.AgeText(code))
	writeRow(b, "Type", w.TypeText(code))
	writeRow(b, "Id", w.IDText(code))
	writeRow(b, "Handshakes", w.HandshakeText())
	if len(w.Redacted) > 0 {
		writeRow(b, "Removed from the body", w.RedactedText(code))
		b.WriteString("\nValues that are removed prove a webhook, or would prove further ones. They are `[redacted]` in " +
			"what is stored and " +
			"forwarded, also in\n`raw`, so that no receiver can verify the provider's signature over such a body.\n")
	}
	b.WriteString("\n[How webhooks are verified](../providers.md#how-webhooks-are-verified) explains the terms.\n")
	if rules := w.typeRulesText(code); rules != "" {
		fmt.Fprintf(b, "\nIn the types of events %s. A pattern of a subscription can be written either way.\n", rules)
	}
	if len(w.KnownTypes) > 0 {
		fmt.Fprintf(b, "\n%s known, from the provider's documentation or packages; it may send more. A family that ends "+
			"with `.*` stands "+
			"for all types\nthat begin so: %s.\n", isOrAre(len(w.KnownTypes), "type"), w.knownTypesText(code))
	}
	if len(w.Params) > 0 {
		b.WriteString("\n### Parameters of a connection\n\n| Parameter | Values | Default | Meaning |\n|---|---|---|---|\n")
		for i := range w.Params {
			p := &w.Params[i]
			writeRow(b, "`"+p.Name+"`", p.valuesText(code), p.defaultText(code), plain(p.Description))
		}
	}
}

// isOrAre counts a noun in front of a participle.
func isOrAre(n int, noun string) string {
	if n == 1 {
		return counted(n, noun) + " is"
	}
	return counted(n, noun) + " are"
}

// verifiedSection says what of the definition is verified, and from which source.
func verifiedSection(b *bytes.Buffer, s *Summary) {
	b.WriteString("\n## What is verified\n\n")
	if e := s.Evidence; e != nil {
		about := "a test verifies a webhook that the provider published, or that its own SDK signed or accepted"
		if e.Grade != GradeVector {
			about = "a test verifies a webhook that was made from the provider's documentation"
		}
		fmt.Fprintf(b, "- Webhooks, grade `%s`: %s. Source: %s.\n", e.Grade, about, link(e.Source, e.URL))
	}
	if s.Outbound != nil {
		b.WriteString("- Requests and credentials: written from the pages of the provider that each mode links.\n")
	}
	if documented := documentedActions(s.Actions); documented > 0 {
		fmt.Fprintf(b, "- Actions: %d of %d link the provider's page.\n", documented, len(s.Actions))
	}
	if e := s.Evidence; e != nil && len(e.LeftOut) > 0 {
		b.WriteString("\nNot confirmed by a source of the provider's own, and so left out:\n\n")
		for _, text := range e.LeftOut {
			b.WriteString("- " + plain(text) + "\n")
		}
	}
}

func documentedActions(list []ActionSummary) int {
	count := 0
	for i := range list {
		if list[i].DocsURL != "" {
			count++
		}
	}
	return count
}

// limitsSection says how many requests the provider permits, and how calls that are sent again are recognised.
func limitsSection(b *bytes.Buffer, s *Summary) {
	l := &s.Outbound.Limits
	b.WriteString("\n## Limits\n\n")
	for _, budget := range l.Budgets {
		fmt.Fprintf(b, "- %s in %s for each %s\n", counted(budget.Requests, "request"), budget.Per, budget.Scope)
	}
	if len(l.Budgets) == 0 {
		b.WriteString("- No number of requests is declared; the provider's responses decide.\n")
	}
	retried, waits := l.Retried, l.Waits
	if len(retried) == 0 {
		retried = []string{"429", "502", "503", "504"}
	}
	if len(waits) == 0 {
		waits = []string{"retry-after"}
	}
	fmt.Fprintf(b, "- A later attempt may succeed after %s. How long to wait is in %s", quoteAll(retried, code),
		quoteAll(waits, code))
	if l.MaxWait != "" {
		fmt.Fprintf(b, "; a request waits at most %s", l.MaxWait)
	}
	b.WriteString(".\n")
	if len(l.Learned) > 0 {
		fmt.Fprintf(b, "- How many requests are left is in %s.\n", quoteAll(l.Learned, code))
	}
	headers, keyed := map[string]bool{}, 0
	for i := range s.Actions {
		if header := s.Actions[i].KeyHeader; header != "" {
			headers[header] = true
			keyed++
		}
	}
	if keyed > 0 {
		fmt.Fprintf(b, "- %s recognised when sent again, by %s.\n", isOrAre(keyed, "action"),
			quoteAll(slices.Sorted(maps.Keys(headers)), code))
	}
}
