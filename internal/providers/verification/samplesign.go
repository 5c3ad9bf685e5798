package verification

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// sign adds what every one of the proofs asks for. Proofs whose signature stands in the body come first, because the
// others may cover the body.
func (d *draft) sign(v *Verifier, proofs []*proof, o *SampleOrder) bool {
	ordered := slices.Clone(proofs)
	slices.SortStableFunc(ordered, func(a, b *proof) int { return a.signsOutside() - b.signsOutside() })
	for _, p := range ordered {
		if !d.signOne(v, p, o) {
			return false
		}
	}
	return true
}

func (p *proof) signsOutside() int {
	if slices.ContainsFunc(p.signatures, func(rule signatureRule) bool { return rule.src.inBody() }) {
		return 0
	}
	return 1
}

func (d *draft) signOne(v *Verifier, p *proof, o *SampleOrder) bool {
	switch p.scheme {
	case schemeNone:
		return true
	case schemeToken:
		return d.writeSignature(p, p.newest(), "")
	case schemeBasic:
		d.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString(p.newest()))
		return true
	case schemeJWT:
		return d.signJWT(p, o)
	case schemeHMAC, schemeKeyedHash:
		return d.signMAC(v, p, o)
	default:
		return false
	}
}

// newest is the key that the connection got last.
func (p *proof) newest() []byte { return p.keys[len(p.keys)-1].bytes }

// signMAC signs the content with the newest secret.
func (d *draft) signMAC(v *Verifier, p *proof, o *SampleOrder) bool {
	timestamp := ""
	if p.ts != nil {
		timestamp = p.ts.format.write(o.Now)
		if p.ts.src.kind != sourceSignature && !d.setTime(&p.ts.src, p.ts.format, o.Now) {
			return false
		}
	}
	if p.content.each != nil {
		return d.signItems(v, p, o)
	}
	if !d.fillContent(p, o.ID) {
		return false
	}
	if p.bodyHash != nil && !d.set(&p.bodyHash.src, p.bodyHash.of(d.encoded())) {
		return false
	}
	sum := d.mac(v, p, o, timestamp, nil)
	return sum != nil && d.writeSignature(p, sum, timestamp)
}

// fillContent gives values to what the signature covers and the draft does not have yet.
func (d *draft) fillContent(p *proof, id string) bool {
	for i := range p.content.parts {
		part := &p.content.parts[i]
		switch part.kind {
		case segmentID, segmentSource:
			if !part.optional && !d.has(&part.src) && !d.set(&part.src, id) {
				return false
			}
		case segmentLines:
			has := func(l line) bool { return d.has(&l.src) }
			if !slices.ContainsFunc(part.lines, has) && !d.set(&part.lines[0].src, id) {
				return false
			}
		case segmentForm:
			if d.body == nil {
				d.form = true
			}
		default:
		}
	}
	return true
}

// signItems signs each item of the array whose items carry signatures of their own.
func (d *draft) signItems(v *Verifier, p *proof, o *SampleOrder) bool {
	if d.form {
		return false
	}
	return eachOf(&d.body, p.content.each.pointer.refs, func(item *any) bool {
		for i := range p.content.parts {
			part := &p.content.parts[i]
			if part.kind != segmentSource || part.src.kind != sourceJSON || part.optional {
				continue
			}
			if _, found := part.src.pointer.text(encodeJSON(*item)); !found && !putAt(item, part.src.pointer.refs, o.ID) {
				return false
			}
		}
		sum := d.mac(v, p, o, "", encodeJSON(*item))
		rule := &p.signatures[0]
		return sum != nil && putAt(item, rule.src.pointer.refs, rule.write(sum, nil, ""))
	})
}

// mac returns the HMAC or the hash of the content; nil if the content cannot be put together.
func (d *draft) mac(v *Verifier, p *proof, o *SampleOrder, timestamp string, item []byte) []byte {
	r := d.request(o)
	s := v.work(r)
	defer v.rest(s)
	s.variant, s.timestamp, s.view.item = urlVariant{}, stamp{text: timestamp}, item
	var secret []byte
	var h hash.Hash
	if p.scheme == schemeKeyedHash {
		secret, h = p.newest(), p.newHash()
	} else {
		h = hmac.New(p.newHash, p.newest())
	}
	bodyAt, refusal := p.render(s, secret)
	s.view = view{request: r} // the values that were read change with the draft
	if refusal != nil {
		return nil
	}
	content := s.parts
	if bodyAt >= 0 {
		content = slices.Concat(s.parts[:bodyAt], r.Body, s.parts[bodyAt:])
	}
	_, _ = h.Write(content) // a hash.Hash never returns an error
	return h.Sum(nil)
}

// write returns bytes in the encoding; those of a token as they are.
func (e signatureEncoding) write(sum []byte) string {
	switch e {
	case encodingHex:
		return hex.EncodeToString(sum)
	case encodingBase64:
		return base64.StdEncoding.EncodeToString(sum)
	case encodingBase64URL:
		return base64.RawURLEncoding.EncodeToString(sum)
	default:
		return string(sum)
	}
}

// writeSignature puts a signature or token at the first of its places that the draft has.
func (d *draft) writeSignature(p *proof, signature []byte, timestamp string) bool {
	for i := range p.signatures {
		rule := &p.signatures[i]
		if d.set(&rule.src, rule.write(signature, p.ts, timestamp)) {
			return true
		}
	}
	return false
}

// write returns a signature as it stands at its place.
func (r *signatureRule) write(signature []byte, ts *timestampRule, timestamp string) string {
	text := r.encoding.write(signature)
	switch {
	case r.kv != nil:
		pair := r.kv.Keys[0] + r.kv.KVSep + text
		if ts != nil && ts.src.kind == sourceSignature {
			pair = ts.src.name + r.kv.KVSep + timestamp + r.kv.PairSep + pair
		}
		return pair
	case r.list != nil:
		element := r.list.Prefix + text
		if ts != nil && ts.src.kind == sourceSignature {
			element = timestamp + r.list.Sep + element
		}
		return element
	case r.path != nil:
		fields := make([]string, len(r.path.Fields))
		for i, want := range r.path.Fields {
			literal, exact := strings.CutPrefix(want, "=")
			switch {
			case want == fieldSignature:
				fields[i] = text
			case exact:
				fields[i] = literal
			default:
				fields[i] = "sample"
			}
		}
		return strings.Join(fields, r.path.Sep)
	default:
		return r.prefix + text
	}
}

// of returns the hash of a body as it stands at its place.
func (r *bodyHashRule) of(body []byte) string {
	h := r.newHash()
	_, _ = h.Write(body) // a hash.Hash never returns an error
	return r.prefix + r.encoding.write(h.Sum(nil)) + r.suffix
}

// tokenLife is how long a token of a sample is valid, in seconds.
const tokenLife = 60

// signJWT adds a token that is signed with the newest secret.
func (d *draft) signJWT(p *proof, o *SampleOrder) bool {
	rule := p.jwt
	claims := any(map[string]any{"iat": o.Now.Unix(), "exp": o.Now.Unix() + tokenLife})
	for name, values := range map[string][]string{"iss": p.jwt.issuers, "aud": p.jwt.audiences} {
		if len(values) > 0 {
			putAt(&claims, []string{name}, values[0])
		}
	}
	for i := range rule.claims {
		value := o.ID
		if equals := rule.claims[i].equals; equals != nil {
			value = equals[0]
		}
		if !putAt(&claims, rule.claims[i].src.pointer.refs, value) {
			return false
		}
	}
	if p.bodyHash != nil && !putAt(&claims, p.bodyHash.src.pointer.refs, p.bodyHash.of(d.encoded())) {
		return false
	}
	alg := rule.policy.Algorithms[0]
	header, err := json.Marshal(map[string]string{"alg": string(alg), "typ": "JWT"})
	if err != nil {
		return false
	}
	signed := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(encodeJSON(claims))
	newHash := sha256.New
	switch alg {
	case jose.HS384:
		newHash = sha512.New384
	case jose.HS512:
		newHash = sha512.New
	default:
	}
	h := hmac.New(newHash, p.newest())
	_, _ = h.Write([]byte(signed)) // a hash.Hash never returns an error
	return d.set(&rule.src, rule.prefix+signed+"."+base64.RawURLEncoding.EncodeToString(h.Sum(nil)))
}
