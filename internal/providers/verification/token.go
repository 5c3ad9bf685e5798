package verification

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
)

// verifyToken proves a webhook by the secret itself, at any of its places. Where a place is every item of an array,
// each item must carry a secret of the connection.
func (p *proof) verifyToken(s *workspace) (keyID string, refusal *Refusal) {
	found := false
	for i := range p.signatures {
		rule := &p.signatures[i]
		if rule.src.kind != sourceItems {
			continue
		}
		id, some, all := p.everyItem(rule, s)
		if all {
			return id, nil
		}
		found = found || some
	}
	if refusal := p.collect(&s.view, &s.offered); refusal != nil && (!found || refusal.Reason != ReasonSignatureMissing) {
		return "", refusal
	}
	for i := range s.offered.count {
		text := s.offered.texts[i]
		found = found || text != "" // a prefix alone is no token
		if id, ok := p.matchToken(text); ok {
			return id, nil
		}
	}
	if !found {
		return "", p.refuseUnreadable()
	}
	return "", reject(ReasonSignatureMismatch,
		"The token is not one of this connection's secrets. Check that the one set at the provider is stored here.")
}

// everyItem reports whether there was any value, and whether every item had a right one.
func (p *proof) everyItem(rule *signatureRule, s *workspace) (keyID string, found, all bool) {
	all = true
	complete := rule.src.items.each(s.view.json(), maxTokenItems, func(raw []byte, ok bool) {
		text, ok := scalar(raw, ok)
		ok = ok && text != "" // an empty value is none
		found = found || ok
		id, right := p.matchToken(text)
		if keyID == "" {
			keyID = id
		}
		all = all && ok && right
	})
	return keyID, found, complete && found && all
}

// matchToken compares a text with each secret. It compares hashes, so that the time does not reveal the lengths either.
func (p *proof) matchToken(text string) (keyID string, ok bool) {
	offered := sha256.Sum256([]byte(text))
	for _, k := range p.keys {
		want := sha256.Sum256(k.bytes)
		if subtle.ConstantTimeCompare(offered[:], want[:]) == 1 {
			return k.id, true
		}
	}
	return "", false
}

// verifyBasic proves a webhook by the user and password of RFC 7617, of which the secret is "user:password".
func (p *proof) verifyBasic(s *workspace) (keyID string, refusal *Refusal) {
	value, state := single(s.view.request.Header, "Authorization")
	switch state {
	case absent:
		return "", p.refuseNoSignature()
	case unfit:
		return "", refuseUnfit(ReasonSignatureMalformed, "header Authorization")
	case present:
	}
	scheme, encoded, _ := strings.Cut(value, " ")
	decoded, err := base64.StdEncoding.Strict().DecodeString(strings.TrimLeft(encoded, " "))
	if !strings.EqualFold(scheme, "Basic") || err != nil || strings.ContainsAny(encoded, "\r\n") {
		return "", p.refuseUnreadable()
	}
	if id, ok := p.matchToken(string(decoded)); ok {
		return id, nil
	}
	return "", reject(ReasonSignatureMismatch,
		"User and password are not one of this connection's secrets, which have the form user:password.")
}
