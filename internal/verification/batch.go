package verification

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// batchRule is a checked Batch.
type batchRule struct {
	items      pattern
	types      [][]segment
	typeSigned bool
	ids        []source
	// idText is where ids stand, as Event.IDSource gives it.
	idText string
}

func (c *compiler) compileBatch(d *Batch) {
	if d == nil {
		return
	}
	rule := &batchRule{}
	items, err := parsePattern(d.Items)
	if err != nil || !strings.HasSuffix(d.Items, "/*") {
		c.faults.add("event.batch.items", RuleFormat, "must be a JSON pointer that ends in /*")
	}
	rule.items = items
	if len(d.Type) == 0 {
		c.faults.add("event.batch.type", RuleRequired, "needs at least one entry")
	}
	rule.types, rule.typeSigned = c.compileTypes("event.batch.type", d.Type, batchSources)
	c.limit("event.batch.id", len(d.ID))
	for i, text := range d.ID {
		src, wrong := parseSource(text, sourceItem)
		if wrong != "" {
			c.faults.add(at("event.batch.id", i), RuleFormat, "%s", wrong)
		}
		rule.ids = append(rule.ids, src)
		if i == 0 {
			rule.idText = "json:" + d.Items + strings.TrimPrefix(src.text, "item:")
		}
	}
	c.batch = rule
}

// describeBatch describes a body with items. It is false for another body, and for one with so many items that describing
// them would be a burden.
func (p *plan) describeBatch(w *view) (Event, bool) {
	if p.batch == nil {
		return Event{}, false
	}
	items, ok := p.batch.items.all(w.json(), maxBatch)
	if !ok || len(items) == 0 {
		return Event{}, false
	}
	w.memo = map[string]string{}
	event := Event{TypeSigned: p.batch.typeSigned}
	for _, item := range items {
		w.entry = item
		kind := p.eventType(w, p.batch.types)
		if len(event.Types) < maxBatchTypes && !slices.Contains(event.Types, kind) {
			event.Types = append(event.Types, kind)
		}
	}
	event.Type = event.Types[0]
	if id, ok := p.batch.id(w, items); ok {
		event.ID, event.IDSource, event.IDSigned = id, p.batch.idText, p.covers.body
	}
	w.entry, w.memo = nil, nil
	return event, true
}

// id hashes the ids of the items, each with its length before it, so that no two lists have one hash.
func (b *batchRule) id(w *view, items [][]byte) (string, bool) {
	if len(b.ids) == 0 {
		return "", false
	}
	h := sha256.New()
	for _, item := range items {
		w.entry = item
		id := ""
		for i := range b.ids {
			if value, state := w.text(&b.ids[i]); state == present {
				id = value
				break
			}
		}
		if !validID(id) {
			return "", false
		}
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(id))) //nolint:gosec // at most maxIDBytes
		_, _ = h.Write(length[:])                              // a hash.Hash never returns an error
		_, _ = h.Write([]byte(id))
	}
	return hex.EncodeToString(h.Sum(nil)), true
}
