package verification

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

// unknownType is the type of an event without a readable type.
const unknownType = "unknown"

// Event is the description that a webhook contains of itself.
type Event struct {
	// Type is 1 to 256 bytes of printable ASCII without spaces; "unknown" if none can be derived.
	Type string
	// TypeSigned is true if the proof covers everything that determines Type. Otherwise anyone who replays a webhook can
	// change the type, so it must not be used to distinguish webhooks.
	TypeSigned bool
	// Types are the different types of a batch's items, in the order of the items, at most 1,000; nil if the webhook is
	// no batch. Type is then the first of them.
	Types []string
	// ID is the provider's id of the webhook, at most 512 bytes of UTF-8 without NUL; empty if there is none.
	ID string
	// For a batch it is the SHA-256 of the items' ids in hexadecimal.
	//
	// IDSource is the place of ID: "header:x-github-delivery", "json:/id", "json:/value/*/id" for a batch, or
	// "header:ce-source+header:ce-id" for a CloudEvents source and id with a space between them. Empty without ID.
	IDSource string
	// IDSigned is true when the signature covers ID. Another ID is no protection against replays.
	IDSigned bool
	// Control is true for pings and confirmations, which are stored and not forwarded.
	Control bool
	// OccurredAt is the provider's time of the event; zero if there is no readable one.
	OccurredAt time.Time
}

// Describe derives type, id and kind from a webhook. It checks no signature: call it after Verify. It refuses a batch
// of more than 100,000 items or 1,000 types with ReasonBatchTooLarge.
func (v *Verifier) Describe(r *Request) (Event, *Refusal) {
	w := &view{}
	w.reset(r, v.plan.formField)
	event, isBatch, refusal := v.plan.describeBatch(w)
	if refusal != nil {
		return Event{}, refusal
	}
	if !isBatch {
		event = Event{Type: v.plan.eventType(w, v.plan.types), TypeSigned: v.plan.typeSigned}
	}
	for i := range v.plan.ids {
		if event.ID != "" {
			break
		}
		rule := &v.plan.ids[i]
		if id, ok := eventID(w, rule); ok {
			event.ID, event.IDSource, event.IDSigned = id, rule.text, rule.signed
		}
	}
	event.OccurredAt = v.plan.occurred.read(w)
	event.Control = slices.ContainsFunc(v.plan.control, func(p predicate) bool { return p.holds(w) })
	return event, nil
}

// holds reports whether the predicate's source has one of its values, or any where none is named.
func (p *predicate) holds(w *view) bool {
	if p.empty {
		raw, found := p.src.pointer.lookup(w.json())
		return found && raw[0] == '[' && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
	}
	value, state := w.text(&p.src)
	return state == present && (p.equals == nil || slices.Contains(p.equals, value))
}

// eventType renders the first template whose tokens all have a value.
func (p *plan) eventType(w *view, templates [][]segment) string {
	for _, segments := range templates {
		text, ok := renderText(w, segments)
		if !ok {
			continue
		}
		if kind := p.rules.Normal(text); printable(kind, maxTypeBytes) {
			return kind
		}
		return unknownType
	}
	return unknownType
}

// renderText renders a template of literals and sources; ok is false when one of them has no value.
func renderText(w *view, segments []segment) (text string, ok bool) {
	var out strings.Builder
	for i := range segments {
		seg := &segments[i]
		if seg.kind == segmentLiteral {
			out.WriteString(seg.text)
			continue
		}
		value, state := w.text(&seg.src)
		if state != present {
			return "", false
		}
		out.WriteString(value)
	}
	return out.String(), true
}

// eventID joins the values of a rule's sources by a space; ok is false where one of them has no value or they cannot be
// an id. None but the last may contain a space, as no CloudEvents source does: otherwise two ids could look alike.
func eventID(w *view, rule *idRule) (string, bool) {
	values := make([]string, 0, 2)
	for i := range rule.sources {
		value, state := w.text(&rule.sources[i])
		if state != present || i < len(rule.sources)-1 && strings.Contains(value, " ") {
			return "", false
		}
		values = append(values, value)
	}
	id := strings.Join(values, " ")
	return id, validID(id)
}
