package connections

import (
	"fmt"
	"strings"
	"time"

	"sallyport/internal/providers/verification"
)

// Duplicates says which webhooks of a connection count as duplicates of earlier ones.
type Duplicates struct {
	// NoWebhooks is true if the provider sends none, and Known false.
	NoWebhooks bool
	// Known is false if the connection's settings fit no version of its provider's definition. It rejects everything then.
	Known bool
	// IDs are the places of the provider's id, in the order of their use. A webhook with the id of an earlier one is a
	// duplicate.
	IDs []verification.IDSource
	// SingleUses are the places of values that the provider uses once, so that a known one makes a duplicate.
	SingleUses []string
	// BodyWindow is how long an equal body makes a webhook without an id a duplicate; 0 if it never does.
	BodyWindow time.Duration
	// SuspectWindow is how long an equal body makes a webhook suspect whose id is not signed; 0 if it never does.
	SuspectWindow time.Duration
	// WithoutID is true if SuspectWindow counts for a webhook without an id too.
	WithoutID bool
	// NoType is true if the settings name no place of the type, so that the type of all events is unknown.
	NoType bool
	// NeedsSecret is true if every webhook is rejected while no secret is stored.
	NeedsSecret bool
}

// BodyWindows returns how long an equal body makes a webhook without an id a duplicate, and one whose id is not signed,
// or was perhaps left out, a suspect; 0 for never. standard is the service's window. Without a statement of the
// provider's definition or of the connection an equal body is no duplicate: losing an event is worse than delivering
// one twice.
func (w *WebhookConfig) BodyWindows(v *verification.Verifier, standard time.Duration) (duplicate,
	suspect time.Duration) {
	if seconds := w.DedupeWindowSeconds; seconds != nil {
		window := time.Duration(*seconds) * time.Second
		return window, window
	}
	if v.BodiesUnique() {
		duplicate = standard
	}
	return duplicate, standard
}

// Duplicates returns what counts as a duplicate for the connection, by the newest version of its provider's definition
// that its settings fit.
func (s *Service) Duplicates(c *Connection) Duplicates {
	newest, _ := s.providers.Find(c.Environment, c.Provider)
	for p := newest; p != nil; p = p.Previous() {
		v, err := s.loader.bind(c, p, nil)
		if err != nil {
			continue
		}
		d := Duplicates{Known: true, IDs: v.IDSources(), SingleUses: v.SingleUses(), NeedsSecret: v.NeedsSecret(),
			NoType: !v.ReadsType()}
		d.BodyWindow, d.SuspectWindow = c.Webhook.BodyWindows(v, s.dedupeWindow)
		if !d.unsigned() {
			d.SuspectWindow = 0
		}
		d.WithoutID = d.SuspectWindow > 0 && v.CanLeaveIDOut()
		return d
	}
	return Duplicates{NoWebhooks: newest != nil && newest.Webhooks == nil}
}

// unsigned reports whether an id of the provider can be one that the signature does not cover.
func (d *Duplicates) unsigned() bool {
	for _, id := range d.IDs {
		if !id.Signed {
			return true
		}
	}
	return false
}

// Summary says it in words.
func (d *Duplicates) Summary() string {
	if !d.Known {
		if d.NoWebhooks {
			return "The provider sends no webhooks that this service can verify."
		}
		return "The connection's settings do not fit the provider's definition, so it rejects every webhook."
	}
	var b strings.Builder
	if len(d.IDs) > 0 {
		places := make([]string, len(d.IDs))
		for i, id := range d.IDs {
			places[i] = id.Place
		}
		fmt.Fprintf(&b, "A webhook with the id of an earlier one is a duplicate (%s). ", strings.Join(places, ", else "))
	}
	if len(d.SingleUses) > 0 {
		fmt.Fprintf(&b, "So is one with a signed value that was used before (%s). ", strings.Join(d.SingleUses, ", "))
	}
	if d.SuspectWindow > 0 {
		without := ""
		if d.WithoutID {
			without = " or without one"
		}
		fmt.Fprintf(&b, "The signature does not cover the id: an equal body under another id%s within %s is marked as "+
			"suspect. ", without, inWords(d.SuspectWindow))
	}
	if len(d.IDs) > 0 {
		b.WriteString("Without an id, ")
	} else {
		b.WriteString("No id is known: ")
	}
	switch {
	case d.BodyWindow > 0:
		fmt.Fprintf(&b, "an equal body within %s makes a duplicate.", inWords(d.BodyWindow))
	case d.WithoutID:
		b.WriteString("each webhook is a new event.")
	default:
		b.WriteString("each webhook is a new event, also with an equal body.")
	}
	return b.String()
}

// inWords writes a whole number of seconds in the largest unit that divides it.
func inWords(d time.Duration) string {
	seconds := int64(d / time.Second)
	for _, unit := range []struct {
		name string
		size int64
	}{{"day", 86_400}, {"hour", 3600}, {"minute", 60}, {"second", 1}} {
		if n := seconds / unit.size; seconds%unit.size == 0 && n > 0 {
			if n == 1 {
				return "one " + unit.name
			}
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return d.String()
}
