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
	when       []predicate
	items      []pattern
	types      [][]segment
	typeSigned bool
	ids        []idRule
	// idText is where ids stand, as Event.IDSource gives it.
	idText string
}

// maxItemArrays bounds the places of a batch's items.
const maxItemArrays = 8

func (c *compiler) compileBatch(d *Batch) {
	if d == nil {
		return
	}
	rule := &batchRule{}
	if len(d.Items) == 0 || len(d.Items) > maxItemArrays {
		c.problems.add("event.batch.items", ruleRequired, "needs 1 to %d entries", maxItemArrays)
	}
	for i, text := range d.Items {
		items, err := parsePattern(text)
		switch {
		case err != nil || !strings.HasSuffix(text, "/*"):
			c.problems.add(at("event.batch.items", i), ruleFormat, "must be a JSON pointer that ends in /*")
		case slices.Index(d.Items, text) != i:
			c.problems.add(at("event.batch.items", i), ruleUnique, "is listed twice")
		}
		rule.items = append(rule.items, items)
	}
	if len(d.Type) == 0 {
		c.problems.add("event.batch.type", ruleRequired, "needs at least one entry")
	}
	rule.types, rule.typeSigned = c.compileTypes("event.batch.type", d.Type, batchSources)
	c.limit("event.batch.id", len(d.ID))
	for i, text := range d.ID {
		id, _ := c.idRule(at("event.batch.id", i), text, sourceItem)
		rule.ids = append(rule.ids, id)
	}
	if len(rule.ids) > 0 {
		rule.idText = "json:" + strings.Join(d.Items, "|") + strings.ReplaceAll(rule.ids[0].text, "item:", "")
	}
	rule.when = c.batchWhen
	rule.typeSigned = rule.typeSigned && c.batchSigned
	c.batch = rule
}

// compileBatchWhen reads the conditions that make a body a batch. If the proof does not cover them, anyone who replays
// a webhook can have a batch described as one event, or one event as a batch, so that neither type nor id is signed.
func (c *compiler) compileBatchWhen(d *Batch) {
	c.batchSigned = true
	if d == nil {
		return
	}
	c.batchWhen = c.compilePredicates("event.batch.when", d.When, controlSources)
	for i := range c.batchWhen {
		c.batchSigned = c.batchSigned && c.covers.has(&c.batchWhen[i].src)
	}
}

// describeBatch describes a body with items; isBatch is false for another body. It refuses a body with so many items or
// types that it would be a burden: an event that is described in part would be missed by those who subscribe to the
// rest.
func (p *plan) describeBatch(w *view) (event Event, isBatch bool, refusal *Refusal) {
	if p.batch == nil || slices.ContainsFunc(p.batch.when, func(when predicate) bool { return !when.holds(w) }) {
		return Event{}, false, nil
	}
	items, ok := p.batch.find(w.json())
	switch {
	case !ok:
		return Event{}, false, refuseBatch()
	case len(items) == 0:
		return Event{}, false, nil
	}
	w.memo = map[string]remembered{}
	event.TypeSigned = p.batch.typeSigned
	seen := map[string]bool{}
	for _, item := range items {
		w.entry = item
		kind := p.eventType(w, p.batch.types)
		if seen[kind] {
			continue
		}
		if len(seen) == maxBatchTypes {
			return Event{}, false, refuseBatch()
		}
		seen[kind] = true
		event.Types = append(event.Types, kind)
	}
	event.Type = event.Types[0]
	if id, ok := p.batch.id(w, items); ok {
		event.ID, event.IDSource, event.IDSigned = id, p.batch.idText, p.covers.body && p.batchSigned
	}
	w.entry, w.memo = nil, nil
	return event, true, nil
}

// find returns the items of a body; ok is false where there are more than maxBatch.
func (b *batchRule) find(doc []byte) (items [][]byte, ok bool) {
	room := maxBatch
	for _, places := range b.items {
		if !places.walk(doc, &room, func(raw []byte, found bool) {
			if found {
				items = append(items, raw)
			}
		}) {
			return nil, false
		}
	}
	return items, true
}

// id hashes the ids of the items, each with its length before it, so that no two lists have one hash.
func (b *batchRule) id(w *view, items [][]byte) (string, bool) {
	if len(b.ids) == 0 {
		return "", false
	}
	h := sha256.New()
	for _, item := range items {
		w.entry = item
		id, found := "", false
		for i := range b.ids {
			if id, found = eventID(w, &b.ids[i]); found {
				break
			}
		}
		if !found {
			return "", false
		}
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(id))) //nolint:gosec // at most maxIDBytes
		_, _ = h.Write(length[:])                              // a hash.Hash never returns an error
		_, _ = h.Write([]byte(id))
	}
	return hex.EncodeToString(h.Sum(nil)), true
}
