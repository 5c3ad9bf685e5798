package verification

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// signatureEncoding is how a signature is written.
type signatureEncoding string

const (
	encodingHex       signatureEncoding = "hex"
	encodingBase64    signatureEncoding = "base64"
	encodingBase64URL signatureEncoding = "base64url"
)

// signatureRule is a checked SignatureSource.
type signatureRule struct {
	header   string // canonical
	prefix   string
	kv       *KVParse
	list     *ListParse
	encoding signatureEncoding
	// base64 is strict about trailing bits, so that one signature has one text.
	base64 *base64.Encoding
}

// candidates are the signatures that a delivery offers, decoded.
type candidates struct {
	macs     [maxSignatures][maxMAC]byte
	count    int
	elements int
	// timestamp is the value of the key of the signature header that holds the timestamp, and how often it stood there.
	timestamp  string
	timestamps int
	text       [maxEncodedMAC]byte
}

const (
	// maxMAC has room for a SHA-512 HMAC and for the padding that base64 decodes before it is taken off.
	maxMAC        = 66
	maxEncodedMAC = 128
)

func (c *candidates) reset() {
	c.count, c.elements, c.timestamp, c.timestamps = 0, 0, "", 0
}

// collect reads the signatures out of the headers. Unreadable ones beside readable ones are passed over: during a rotation
// or a change of scheme a provider sends several, and one that is right is enough.
func (p *plan) collect(h http.Header, c *candidates) *Refusal {
	found := false
	for i := range p.signatures {
		rule := &p.signatures[i]
		value, state := single(h, rule.header)
		switch state {
		case absent:
			continue
		case unfit:
			return refuseUnfit(ReasonSignatureMalformed, rule.header)
		case present:
		}
		found = true
		if !p.read(rule, value, c) {
			return refuse(ReasonSignatureMalformed, "The header "+rule.header+" lists more signatures than are looked at.")
		}
	}
	switch {
	case !found:
		return p.refuseNoSignature()
	case c.count == 0:
		return refuse(ReasonSignatureMalformed, "No signature of the expected form was found in the header "+p.signatureHeaders()+
			". Check that the connection's provider and parameters are those of the sender.")
	default:
		return nil
	}
}

// read takes the signatures out of one header; it is false when there are too many elements.
func (p *plan) read(rule *signatureRule, value string, c *candidates) bool {
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
			for _, want := range rule.kv.Keys {
				if key == want {
					rule.decode(text, p.macSize, c)
				}
			}
		})
	case rule.list != nil:
		return eachElement(value, rule.list.Sep, c, func(element string) {
			if text, found := strings.CutPrefix(element, rule.list.Prefix); found {
				rule.decode(text, p.macSize, c)
			}
		})
	default:
		c.elements++
		if text, found := strings.CutPrefix(value, rule.prefix); found && c.elements <= maxSignatures {
			rule.decode(text, p.macSize, c)
		}
		return c.elements <= maxSignatures
	}
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
		if c.elements++; c.elements > maxSignatures {
			return false
		}
		visit(element)
	}
	return true
}

// decode adds a signature when its text is one of the right length.
func (r *signatureRule) decode(text string, size int, c *candidates) {
	if c.count == maxSignatures || len(text) > len(c.text) {
		return
	}
	dst := c.macs[c.count][:]
	var n int
	var err error
	switch r.encoding {
	case encodingHex:
		if len(text) != hex.EncodedLen(size) {
			return
		}
		n, err = hex.Decode(dst, append(c.text[:0], text...))
	case encodingBase64:
		if len(text) != base64.StdEncoding.EncodedLen(size) {
			return
		}
		n, err = r.base64.Decode(dst, append(c.text[:0], text...))
	case encodingBase64URL:
		text = strings.TrimRight(text, "=") // senders differ on padding
		if len(text) != base64.RawURLEncoding.EncodedLen(size) {
			return
		}
		n, err = r.base64.Decode(dst, append(c.text[:0], text...))
	}
	if err == nil && n == size {
		c.count++
	}
}

// compileSignature checks a SignatureSource.
func (c *compiler) compileSignature(field string, d SignatureSource) signatureRule {
	rule := signatureRule{prefix: d.Parse.Prefix, encoding: signatureEncoding(d.Encoding)}
	src, wrong := parseSource(d.From)
	switch {
	case wrong != "":
		c.faults.add(field+".from", RuleFormat, "%s", wrong)
	case src.kind != sourceHeader:
		c.faults.add(field+".from", RuleFormat, "must be header:<name>")
	}
	rule.header = src.name
	switch rule.encoding {
	case encodingHex:
	case encodingBase64:
		rule.base64 = base64.StdEncoding.Strict()
	case encodingBase64URL:
		rule.base64 = base64.RawURLEncoding.Strict()
	default:
		c.faults.add(field+".encoding", RuleEnum, "must be hex, base64 or base64url")
	}
	ways := 0
	if d.Parse.Prefix != "" {
		ways++
		c.text(field+".parse.prefix", d.Parse.Prefix)
	}
	if kv := d.Parse.KV; kv != nil {
		ways++
		rule.kv = kv
		c.separator(field+".parse.kv.pair_sep", kv.PairSep)
		c.separator(field+".parse.kv.kv_sep", kv.KVSep)
		if strings.Contains(kv.PairSep, kv.KVSep) || strings.Contains(kv.KVSep, kv.PairSep) {
			c.faults.add(field+".parse.kv", RuleCoherent, "needs two separators of which neither contains the other")
		}
		c.kvKeys(field+".parse.kv.keys", kv)
	}
	if list := d.Parse.List; list != nil {
		ways++
		rule.list = list
		c.separator(field+".parse.list.sep", list.Sep)
		if list.Prefix != "" {
			c.text(field+".parse.list.prefix", list.Prefix)
		}
		if list.Sep != "" && strings.Contains(list.Prefix, list.Sep) {
			c.faults.add(field+".parse.list.prefix", RuleCoherent, "must not contain the separator")
		}
	}
	if ways > 1 {
		c.faults.add(field+".parse", RuleCoherent, "can be one of prefix, kv and list")
	}
	return rule
}

func (c *compiler) kvKeys(field string, kv *KVParse) {
	if len(kv.Keys) == 0 || len(kv.Keys) > maxEntries {
		c.faults.add(field, RuleRequired, "needs 1 to %d keys", maxEntries)
	}
	for i, key := range kv.Keys {
		if !printable(key, 64) || strings.Contains(key, kv.KVSep) || strings.Contains(key, kv.PairSep) {
			c.faults.add(at(field, i), RuleFormat, "must be printable ASCII without separators")
		}
	}
}

// separator accepts one to four printable bytes, spaces included.
func (c *compiler) separator(field, sep string) {
	if sep == "" || len(sep) > 4 || !validParamText(sep) {
		c.faults.add(field, RuleFormat, "must be 1 to 4 bytes of printable ASCII")
	}
}

func (c *compiler) text(field, text string) {
	if !validParamText(text) {
		c.faults.add(field, RuleFormat, "must be printable ASCII of at most %d bytes", maxParamValue)
	}
}
