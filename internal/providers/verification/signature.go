package verification

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

// signatureEncoding is how a signature is written.
type signatureEncoding string

const (
	encodingNone      signatureEncoding = "" // of what is compared as text
	encodingHex       signatureEncoding = "hex"
	encodingBase64    signatureEncoding = "base64"
	encodingBase64URL signatureEncoding = "base64url"
)

// signatureRule is a checked SignatureSource.
type signatureRule struct {
	src      source
	prefix   string
	kv       *KVParse
	list     *ListParse
	path     *PathParse
	encoding signatureEncoding
	// base64 is strict about trailing bits, so that one signature has one text.
	base64 *base64.Encoding
}

// candidates are the signatures that a webhook offers, as text.
type candidates struct {
	texts    [maxSignatures]string
	rules    [maxSignatures]*signatureRule
	count    int
	elements int
	// timestamp is the value of the signature header's key, or its first element, that holds the timestamp, and how often
	// it stood there.
	timestamp  string
	timestamps int
}

func (c *candidates) reset() { c.count, c.elements, c.timestamp, c.timestamps = 0, 0, "", 0 }

// forget drops what the texts hold in memory.
func (c *candidates) clear() {
	clear(c.texts[:c.count])
	c.reset()
}

// add takes down a signature. It is called at most once for each element, so there is room.
func (c *candidates) add(rule *signatureRule, text string) {
	c.texts[c.count], c.rules[c.count] = text, rule
	c.count++
}

// element counts an element; it is false when there are too many.
func (c *candidates) element() bool {
	c.elements++
	return c.elements <= maxSignatures
}

// collect reads the signatures from the webhook. Unreadable ones next to readable ones are skipped: during a rotation
// or a change of scheme a provider sends several, and one valid signature is enough.
func (p *proof) collect(w *view, c *candidates) *Refusal {
	c.reset()
	found := false
	for i := range p.signatures {
		rule := &p.signatures[i]
		if rule.src.kind != sourceSequence {
			value, state := w.text(&rule.src)
			switch state {
			case absent:
				continue
			case unfit:
				return refuseUnfit(ReasonSignatureMalformed, rule.src.place())
			case present:
			}
			found = true
			if !p.read(rule, value, c) {
				return refuseTooMany(&rule.src)
			}
			continue
		}
		for _, name := range rule.src.names {
			value, state := single(w.request.Header, name)
			if state == absent {
				break
			}
			if state == unfit {
				return refuseUnfit(ReasonSignatureMalformed, "header "+name)
			}
			found = true
			if !p.read(rule, value, c) {
				return refuseTooMany(&rule.src)
			}
		}
	}
	if !found {
		return p.refuseNoSignature()
	}
	return nil
}

// read takes the signatures out of one value; it is false when there are too many elements.
func (p *proof) read(rule *signatureRule, value string, c *candidates) bool {
	switch {
	case rule.kv != nil:
		return eachElement(value, rule.kv.PairSep, c, func(pair string) {
			key, text, found := strings.Cut(pair, rule.kv.KVSep)
			if !found {
				return
			}
			if p.ts != nil && p.ts.src.kind == sourceSignature && key == p.ts.src.name {
				c.timestamp = text
				c.timestamps++
			}
			if slices.Contains(rule.kv.Keys, key) {
				c.add(rule, text)
			}
		})
	case rule.list != nil:
		if p.ts != nil && p.ts.src.kind == sourceSignature {
			// An empty first element is a missing timestamp. The next one is not taken in its place.
			c.timestamp, value, _ = strings.Cut(value, rule.list.Sep)
			c.timestamps++
			c.element()
		}
		return eachElement(value, rule.list.Sep, c, func(element string) {
			if text, found := strings.CutPrefix(element, rule.list.Prefix); found {
				c.add(rule, text)
			}
		})
	case rule.path != nil && rule.path.ListSep != "":
		return eachElement(value, rule.path.ListSep, c, func(element string) { rule.readPath(element, c) })
	case !c.element():
		return false
	case rule.path != nil:
		rule.readPath(value, c)
	default:
		if text, found := strings.CutPrefix(value, rule.prefix); found {
			c.add(rule, text)
		}
	}
	return true
}

// readPath takes the signature out of an element of several fields.
func (r *signatureRule) readPath(element string, c *candidates) {
	signature := ""
	for i, want := range r.path.Fields {
		field, rest, more := strings.Cut(element, r.path.Sep)
		if more != (i < len(r.path.Fields)-1) {
			return
		}
		if literal, exact := strings.CutPrefix(want, "="); exact && field != literal {
			return
		}
		if want == fieldSignature {
			signature = field
		}
		element = rest
	}
	c.add(r, signature)
}

// eachElement calls visit with each element that is not blank; it is false when there are too many.
func eachElement(value, sep string, c *candidates, visit func(string)) bool {
	for more := true; more; {
		var element string
		element, value, more = strings.Cut(value, sep)
		element = strings.Trim(element, " \t")
		if element == "" {
			continue
		}
		if !c.element() {
			return false
		}
		visit(element)
	}
	return true
}

const (
	// maxMAC has room for a SHA-512 HMAC and for the padding that base64 decodes before it is taken off.
	maxMAC        = 66
	maxEncodedMAC = 128
)

// macs are decoded signatures of one size.
type macs struct {
	sums  [maxSignatures][maxMAC]byte
	count int
	text  [maxEncodedMAC]byte
}

// decode decodes the candidates of the right length.
func (m *macs) decode(c *candidates, size int) {
	m.count = 0
	for i := range c.count {
		if m.one(c.rules[i], c.texts[i], size) {
			m.count++
		}
	}
}

func (m *macs) one(r *signatureRule, text string, size int) bool {
	if len(text) > len(m.text) {
		return false
	}
	dst := m.sums[m.count][:]
	var n int
	var err error
	switch r.encoding {
	case encodingHex:
		if len(text) != hex.EncodedLen(size) {
			return false
		}
		n, err = hex.Decode(dst, append(m.text[:0], text...))
	case encodingBase64:
		if len(text) != base64.StdEncoding.EncodedLen(size) {
			return false
		}
		n, err = r.base64.Decode(dst, append(m.text[:0], text...))
	case encodingBase64URL:
		text = strings.TrimRight(text, "=") // senders differ on padding
		if len(text) != base64.RawURLEncoding.EncodedLen(size) {
			return false
		}
		n, err = r.base64.Decode(dst, append(m.text[:0], text...))
	case encodingNone:
		return false
	}
	return err == nil && n == size
}
