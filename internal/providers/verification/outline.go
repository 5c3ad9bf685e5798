package verification

import (
	"slices"
	"strings"
)

// Outline lists the places that types and ids of events come from, and which of them the proof covers.
type Outline struct {
	// Types and IDs are in the order of their use. Ids by convention follow those that are declared.
	Types, IDs []Derivation
	// BatchTypes and BatchIDs are those of the items, if a webhook may carry several events.
	BatchTypes, BatchIDs []Derivation
	// Redacted names the values that are taken out of the body before it is stored and forwarded: "json:/a/*", "form:a".
	Redacted []string
}

// Derivation is one way to an event's type or id.
type Derivation struct {
	// From is the template or source as the declaration has it, with {param:name} if a parameter determines it.
	From string
	// Signed is true if the proof covers everything that From reads, for every accepted proof.
	Signed bool
}

// Outline describes the declaration for people who choose or review it. Parameters have their defaults, or their
// example if they turn something on.
func (e *Engine) Outline() Outline {
	values, full := map[string]string{}, map[string]string{}
	for i := range e.params {
		p := &e.params[i]
		values[p.Name], full[p.Name] = p.sample(), p.sample()
		if full[p.Name] == "" {
			full[p.Name] = p.alternatives()[0] // every parameter has an enum, or an example with its pattern
		}
	}
	d, _ := bind(e.decl, values)
	p, _ := compilePlan(&d, values)
	event := &e.decl.Event
	out := Outline{Types: p.outlineTypes(event.Type, full, typeSources), IDs: p.outlineIDs(event.ID, full, eventSources)}
	out.Redacted = slices.Compact(slices.Sorted(slices.Values(p.redactedFrom)))
	for _, rule := range p.ids[len(d.Event.ID):] {
		out.IDs = append(out.IDs, Derivation{From: rule.text, Signed: rule.signed})
	}
	if event.Batch != nil {
		out.BatchTypes = p.outlineTypes(event.Batch.Type, full, batchSources)
		out.BatchIDs = p.outlineIDs(event.Batch.ID, full, sourceItem)
	}
	return out
}

func (p *plan) outlineTypes(list []string, values map[string]string, kinds sourceKind) []Derivation {
	var out []Derivation
	for _, text := range list {
		one := Derivation{From: text, Signed: p.batchSigned}
		segments, _ := parseTemplate(fill(text, values), eventToken(kinds))
		for i := range segments {
			one.Signed = one.Signed && (segments[i].kind == segmentLiteral || p.covers.has(&segments[i].src))
		}
		out = append(out, one)
	}
	return out
}

func (p *plan) outlineIDs(list []string, values map[string]string, kinds sourceKind) []Derivation {
	var out []Derivation
	for _, text := range list {
		rule, _ := parseID(fill(text, values), kinds)
		out = append(out, Derivation{From: text, Signed: p.covered(&rule)})
	}
	return out
}

// fill replaces the parameters in a text.
func fill(s string, values map[string]string) string {
	var out strings.Builder
	for {
		before, name, after, found := cutToken(s, paramOpen)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(values[name])
		s = after
	}
}
