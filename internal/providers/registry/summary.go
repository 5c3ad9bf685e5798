package registry

import (
	"maps"
	"slices"
	"strings"

	"sallyport/internal/providers/verification"
)

// Summary is the content of a definition, for people who choose, review or set up a provider. It contains nothing that
// the definition does not.
type Summary struct {
	Slug        string   `json:"provider"`
	DisplayName string   `json:"display_name"`
	Categories  []string `json:"categories"`
	// Aliases are other names under which people look for the provider.
	Aliases []string `json:"aliases"`
	DocsURL string   `json:"docs_url"`
	Source  Source   `json:"source"`
	// Webhooks is nil for a provider without webhooks.
	Webhooks *WebhooksSummary `json:"webhooks"`
	// Outbound is nil for a provider to which no requests are made.
	Outbound *OutboundSummary `json:"outbound"`
	// Actions are what can be done at the provider, in the order of the definition.
	Actions []ActionSummary `json:"actions"`
	// Evidence is nil if the definition has none.
	Evidence *EvidenceSummary `json:"evidence"`
}

// EvidenceSummary is a definition's Evidence.
type EvidenceSummary struct {
	Grade   Grade    `json:"grade"`
	Source  string   `json:"source"`
	URL     string   `json:"url"`
	LeftOut []string `json:"left_out"`
}

// WebhooksSummary describes the verification and description of a provider's webhooks. Texts are as the definition has
// them; {param:name} stands for the connection's value.
type WebhooksSummary struct {
	// Setup is Markdown.
	Setup  string          `json:"setup"`
	Params []ParamSummary  `json:"params"`
	Proof  ProofSummary    `json:"proof"`
	Types  []SourceSummary `json:"types"`
	// TypeSeparators are the characters of the provider's types that become dots in those of events.
	TypeSeparators string `json:"type_separators,omitempty"`
	// TypeMap renames types, by how the provider writes them.
	TypeMap map[string]string `json:"type_map,omitempty"`
	// KnownTypes are the types that the provider is known to send; empty if none is known.
	KnownTypes []TypeSummary   `json:"known_types"`
	IDs        []SourceSummary `json:"ids"`
	// Batch is nil if a webhook carries one event.
	Batch      *BatchSummary      `json:"batch"`
	Handshakes []HandshakeSummary `json:"handshakes"`
	// Redacted are the values that are removed from the body before it is stored and forwarded. A signature over the
	// body is not forwarded if it had one of them.
	Redacted []string `json:"redacted"`
	// Control reports that some webhooks are acknowledged and stored but not forwarded.
	Control bool `json:"control"`
	// BodiesUnique reports that no two events have the same body, so that without an id an equal body makes a duplicate.
	BodiesUnique bool `json:"bodies_unique"`
}

// ParamSummary is a value that a connection may set.
type ParamSummary struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Required    bool     `json:"required"`
	Enum        []string `json:"enum,omitempty"`
	Pattern     string   `json:"pattern,omitempty"`
	Default     string   `json:"default"`
	Example     string   `json:"example,omitempty"`
}

// ProofSummary describes the proof of a webhook's sender: one scheme, or several of which any one or all have to pass.
type ProofSummary struct {
	Scheme string `json:"scheme,omitempty"`
	// Algorithms are the allowed algorithms; several if a parameter or the token chooses.
	Algorithms []string `json:"algorithms,omitempty"`
	// Signatures are the places in which the signature, token or secret is looked for.
	Signatures []string `json:"signatures,omitempty"`
	// Signed are the templates of the signed bytes; several if a parameter chooses. Empty for a scheme that signs nothing.
	Signed []string `json:"signed,omitempty"`
	// BodyHash is the place of the hash that is signed instead of the body.
	BodyHash     string `json:"body_hash,omitempty"`
	BodyUnsigned bool   `json:"body_unsigned,omitempty"`
	// SingleUse is the place of a value that makes a webhook a duplicate if it was used before.
	SingleUse string `json:"single_use,omitempty"`
	// MaxAgeS is the maximum age of a webhook in seconds; empty for no limit.
	MaxAgeS string `json:"max_age_s,omitempty"`
	// Timestamp is the place of the time of signing; empty if there is none.
	Timestamp       string         `json:"timestamp,omitempty"`
	TimestampSigned bool           `json:"timestamp_signed,omitempty"`
	AnyOf           []ProofSummary `json:"any_of,omitempty"`
	AllOf           []ProofSummary `json:"all_of,omitempty"`
}

// SourceSummary is one source of an event's type or id; the first that has a value is used.
type SourceSummary struct {
	From string `json:"from"`
	// Signed is false for a source that anyone who replays a webhook can change.
	Signed bool `json:"signed"`
}

// TypeSummary is a type that a provider is known to send, or a family of types.
type TypeSummary struct {
	// Written is as the provider writes it, and Type as events have it.
	Written string `json:"written_as"`
	Type    string `json:"event_type"`
}

// BatchSummary locates the events of a webhook that carries several.
type BatchSummary struct {
	Items []string        `json:"items"`
	Types []SourceSummary `json:"types"`
	IDs   []SourceSummary `json:"ids"`
}

// HandshakeKind is the content of the response to a handshake.
type HandshakeKind string

// The kinds of handshakes.
const (
	HandshakeEcho   HandshakeKind = "echo"   // returns a value
	HandshakeHMAC   HandshakeKind = "hmac"   // signs a value
	HandshakeSecret HandshakeKind = "secret" // hands the secret over
	HandshakeFixed  HandshakeKind = "fixed"  // is always the same
)

// HandshakeSummary is a request by which the provider checks the URL.
type HandshakeSummary struct {
	Methods []string `json:"methods"`
	// Signed handshakes get a response only if their signature is valid.
	Signed bool          `json:"signed"`
	Kind   HandshakeKind `json:"kind"`
}

// Summary describes the provider.
func (p *Provider) Summary() Summary {
	d := &p.Definition
	s := Summary{Slug: d.Slug, DisplayName: d.DisplayName, Categories: slices.Clone(d.Categories), DocsURL: d.DocsURL,
		Aliases: append([]string{}, d.Aliases...),
		Source:  p.Source, Actions: summarizeActions(p.Actions)}
	if d.Evidence != nil {
		s.Evidence = &EvidenceSummary{Grade: d.Evidence.Grade, Source: d.Evidence.Source, URL: d.Evidence.URL,
			LeftOut: append([]string{}, d.Evidence.LeftOut...)}
	}
	if d.Webhooks != nil {
		s.Webhooks = p.summarize(d.Webhooks)
	}
	if p.Outbound != nil {
		s.Outbound = summarizeOutbound(p.Outbound)
		s.Outbound.Limits = summarizeLimits(d.Outbound.RateLimit)
	}
	return s
}

func (p *Provider) summarize(d *verification.Declaration) *WebhooksSummary {
	outline := p.Webhooks.Outline()
	w := &WebhooksSummary{
		Setup: strings.TrimSpace(d.Setup), Params: []ParamSummary{}, Proof: summarizeProof(d.Params, &d.Proof),
		Types: sources(outline.Types), IDs: sources(outline.IDs), Handshakes: []HandshakeSummary{},
		Redacted: append([]string{}, outline.Redacted...), Control: len(d.Control) > 0, BodiesUnique: d.Event.BodiesUnique,
	}
	rules := p.Webhooks.TypeRules()
	w.TypeSeparators, w.TypeMap, w.KnownTypes = rules.Separators(), maps.Clone(rules.Renamed()), []TypeSummary{}
	for _, known := range p.Webhooks.KnownTypes() {
		w.KnownTypes = append(w.KnownTypes, TypeSummary(known))
	}
	for _, p := range d.Params {
		w.Params = append(w.Params, ParamSummary{
			Name: p.Name, Description: p.Description, Required: p.Required, Enum: p.Enum, Pattern: p.Pattern, Default: p.Default,
			Example: p.Example,
		})
	}
	if d.Event.Batch != nil {
		w.Batch = &BatchSummary{Items: slices.Clone(d.Event.Batch.Items), Types: sources(outline.BatchTypes),
			IDs: sources(outline.BatchIDs)}
	}
	for i := range d.Handshake {
		w.Handshakes = append(w.Handshakes, summarizeHandshake(&d.Handshake[i]))
	}
	return w
}

func sources(list []verification.Derivation) []SourceSummary {
	out := []SourceSummary{}
	for _, d := range list {
		out = append(out, SourceSummary{From: d.From, Signed: d.Signed})
	}
	return out
}

func summarizeProof(params []verification.Param, d *verification.Proof) ProofSummary {
	var s ProofSummary
	for i := range d.AnyOf {
		s.AnyOf = append(s.AnyOf, summarizeProof(params, &d.AnyOf[i]))
	}
	for i := range d.AllOf {
		s.AllOf = append(s.AllOf, summarizeProof(params, &d.AllOf[i]))
	}
	s.Scheme, s.BodyUnsigned, s.SingleUse = d.Scheme, d.BodyUnsigned, d.SingleUse
	s.Algorithms, s.Signed = choices(params, d.Algorithm), choices(params, d.Signed)
	for _, source := range d.Signature {
		s.Signatures = append(s.Signatures, source.From)
	}
	if d.BodyHash != nil {
		s.BodyHash = d.BodyHash.From
	}
	if d.Timestamp != nil {
		s.Timestamp, s.TimestampSigned, s.MaxAgeS = d.Timestamp.From, d.Timestamp.Signed, d.Timestamp.MaxAgeS
	}
	if d.JWT != nil {
		s.Algorithms, s.Signatures, s.MaxAgeS = slices.Clone(d.JWT.Algs), []string{d.JWT.From}, d.JWT.MaxAgeS
	}
	if d.Scheme == "basic" {
		s.Signatures = []string{"header:authorization"}
	}
	return s
}

// choices returns the values among which a parameter chooses where a text is one parameter, else the text.
func choices(params []verification.Param, text string) []string {
	if text == "" {
		return nil
	}
	for _, p := range params {
		if text == "{param:"+p.Name+"}" && len(p.Enum) > 0 {
			return slices.Clone(p.Enum)
		}
	}
	return []string{text}
}

func summarizeHandshake(d *verification.Handshake) HandshakeSummary {
	h := HandshakeSummary{Signed: d.VerifyFirst, Kind: HandshakeFixed}
	for _, p := range d.When {
		if p.From == "method" {
			h.Methods = append(h.Methods, p.Equals...)
		}
	}
	text := d.Respond.Body
	for _, value := range d.Respond.Headers {
		text += value
	}
	switch {
	case d.Capture != nil:
		h.Kind = HandshakeSecret
	case strings.Contains(text, "${hmac_"):
		h.Kind = HandshakeHMAC
	case strings.Contains(text, "${"):
		h.Kind = HandshakeEcho
	}
	return h
}
