package verification

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"
)

// bodyHashRule is a checked BodyHash.
type bodyHashRule struct {
	src            source
	prefix, suffix string
	newHash        func() hash.Hash
	encoding       signatureEncoding
}

// compileBodyHash checks the hash of the body. It covers the body only where the signature covers the hash.
func (c *proofCompiler) compileBodyHash() {
	d, p := c.decl, c.proof
	if d.BodyHash == nil {
		return
	}
	field := c.path + "body_hash"
	rule := &bodyHashRule{prefix: d.BodyHash.Prefix, suffix: d.BodyHash.Suffix,
		encoding: signatureEncoding(d.BodyHash.Encoding)}
	kinds := sourceHeader | sourceQuery
	if d.Scheme == schemeJWT {
		kinds = sourceJWT
	}
	src, wrong := parseSource(d.BodyHash.From, kinds)
	switch {
	case wrong != "":
		c.problems.add(field+".from", ruleFormat, "%s", wrong)
	case src.kind != sourceJWT && !p.covers.has(&src):
		c.problems.add(field+".from", ruleCoherent, "is not covered by the signature: signed has to contain it")
	}
	rule.src = src
	for name, text := range map[string]string{"prefix": rule.prefix, "suffix": rule.suffix} {
		if text != "" {
			c.text(field+"."+name, text)
		}
	}
	switch d.BodyHash.Alg {
	case "sha256":
		rule.newHash = sha256.New
	case "sha512":
		rule.newHash = sha512.New
	default:
		c.problems.add(field+".alg", ruleEnum, "must be sha256 or sha512")
	}
	switch rule.encoding {
	case encodingHex, encodingBase64, encodingBase64URL:
	default:
		c.problems.add(field+".encoding", ruleEnum, "must be hex, base64 or base64url")
	}
	if p.covers.body {
		c.problems.add(field, ruleCoherent, "has no use: the signature covers the body itself")
	}
	p.bodyHash = rule
	p.covers.body = true
}

// checkBodyHash compares the body with the hash that the signature covers.
func (p *proof) checkBodyHash(s *workspace) *Refusal {
	rule := p.bodyHash
	if rule == nil {
		return nil
	}
	text, state := s.view.text(&rule.src)
	if state != present {
		return reject(ReasonHeaderMissing, "The "+rule.src.place()+", which contains the hash of the body, is missing.")
	}
	text, hasPrefix := strings.CutPrefix(text, rule.prefix)
	text, hasSuffix := strings.CutSuffix(text, rule.suffix)
	h := rule.newHash()
	_, _ = h.Write(s.view.request.Body) // a hash.Hash never returns an error
	want, ok := decodeHash(rule.encoding, text)
	if !hasPrefix || !hasSuffix || !ok || !hmac.Equal(h.Sum(nil), want) {
		return reject(ReasonSignatureMismatch,
			"The signature is valid, but it covers the hash of another body. Something on the way rewrites the body.")
	}
	return nil
}

func decodeHash(encoding signatureEncoding, text string) ([]byte, bool) {
	var sum []byte
	var err error
	switch encoding {
	case encodingHex:
		sum, err = hex.DecodeString(text)
	case encodingBase64:
		sum, err = base64.StdEncoding.Strict().DecodeString(text)
	case encodingBase64URL:
		sum, err = base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
	case encodingNone:
		return nil, false
	}
	return sum, err == nil
}
