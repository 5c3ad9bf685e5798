package verification

import (
	"crypto/hmac"
	"hash"
)

// newHashes makes the hashes of a proof, one for each key. A keyed hash is made once and reset, which saves hashing the
// key again.
func (p *proof) newHashes() []hash.Hash {
	switch p.scheme {
	case schemeHMAC:
		hashes := make([]hash.Hash, len(p.keys))
		for i, k := range p.keys {
			hashes[i] = hmac.New(p.newHash, k.bytes)
		}
		return hashes
	case schemeKeyedHash:
		return []hash.Hash{p.newHash()}
	default:
		return nil
	}
}

// verifyMAC proves a webhook by hmac or keyed_hash.
func (p *proof) verifyMAC(s *workspace) (keyID string, refusal *Refusal) {
	if refusal := p.collect(&s.view, &s.offered); refusal != nil {
		return "", refusal
	}
	s.macs.decode(&s.offered, p.macSize)
	if s.macs.count == 0 {
		return "", p.refuseUnreadable()
	}
	if refusal := p.readTimestamp(s); refusal != nil {
		return "", refusal
	}
	for _, s.variant = range p.variants {
		matched, refusal := p.matchMAC(s)
		if refusal != nil {
			return "", refusal
		}
		if matched >= 0 {
			return p.keys[matched].id, nil
		}
	}
	return "", refuseMismatch()
}

// matchMAC returns the index of the key under which one of the offered signatures is right, or -1.
func (p *proof) matchMAC(s *workspace) (int, *Refusal) {
	if p.scheme == schemeKeyedHash {
		return p.matchKeyedHash(s)
	}
	bodyAt, refusal := p.render(s, nil)
	if refusal != nil {
		return -1, refusal
	}
	if p.responds && s.isChallenge(bodyAt) {
		return -1, reject(ReasonBodyMalformed,
			"The signed content is a challenge of a handshake, whose response is its signature, and not an event.")
	}
	for i, h := range s.hashes[p.index] {
		h.Reset()
		if s.sumMatches(h, bodyAt, p.macSize) {
			return i, nil
		}
	}
	return -1, nil
}

func (p *proof) matchKeyedHash(s *workspace) (int, *Refusal) {
	// Without the secret, which may be any bytes. Appended bytes may come in the body, or decoded from the last field of a
	// form.
	if _, refusal := p.render(s, nil); refusal != nil {
		return -1, refusal
	}
	if isExtensible(s.view.request.Body) || isExtensible(s.parts) {
		return -1, reject(ReasonBodyMalformed,
			"The signed content is not UTF-8. This provider's scheme lets others append such bytes to a webhook, so they are "+
				"rejected.")
	}
	h := s.hashes[p.index][0]
	for i, k := range p.keys {
		bodyAt, refusal := p.render(s, k.bytes)
		if refusal != nil {
			return -1, refusal
		}
		h.Reset()
		if s.sumMatches(h, bodyAt, p.macSize) {
			return i, nil
		}
	}
	return -1, nil
}

// sumMatches hashes the content and compares it with what was offered, in constant time.
func (s *workspace) sumMatches(h hash.Hash, bodyAt, size int) bool {
	rest := s.parts
	if bodyAt >= 0 {
		if bodyAt > 0 {
			_, _ = h.Write(s.parts[:bodyAt]) // a hash.Hash never returns an error
		}
		_, _ = h.Write(s.view.request.Body)
		rest = s.parts[bodyAt:]
	}
	if len(rest) > 0 {
		_, _ = h.Write(rest)
	}
	s.mac = h.Sum(s.mac[:0])
	for n := range s.macs.count {
		if hmac.Equal(s.mac, s.macs.sums[n][:size]) {
			return true
		}
	}
	return false
}
