package verification

import (
	"context"
	// Old provider schemes are HMAC-SHA1; collisions of SHA-1 do not break HMAC (RFC 6194 section 3.3).
	"crypto/sha1" //nolint:gosec // see above
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"net/http"
	"slices"
	"strings"
)

// The schemes.
const (
	schemeHMAC      = "hmac"
	schemeKeyedHash = "keyed_hash"
	schemePublic    = "asymmetric"
	schemeToken     = "token"
	schemeBasic     = "basic"
	schemeNone      = "none"
)

// proof is a checked Proof with the keys of one connection.
type proof struct {
	scheme string
	// index is the proof's place among those of its declaration.
	index      int
	newHash    func() hash.Hash
	macSize    int
	public     publicAlgorithm
	secret     secretDecoding
	signatures []signatureRule
	content    content
	ts         *timestampRule
	covers     coverage
	keys       []key
	// responds is true if responses to handshakes contain HMACs under the keys.
	responds bool
	// families are the kinds of public keys that the connection's secrets may be.
	families []keyFamily
	jwt      *jwtRule
	bodyHash *bodyHashRule
	// singleUse is the source of a value that is used once; nil if there is none.
	singleUse *source
	// source and keyring give keys that are fetched; nil where none are. bindSource completes the source with the
	// connection's newest secret.
	source     *keySource
	cert       *certRule
	keyring    *Keyring
	keyOwner   KeyOwner
	bindSource func(secret string)
	// urlBase replaces the public URL where the provider calls another.
	urlBase  string
	variants []urlVariant
}

// fieldsOf lists the fields that have a meaning with a scheme; nil for a scheme that there is not.
func fieldsOf(scheme string) []string {
	switch scheme {
	case schemeHMAC, schemeKeyedHash:
		return []string{"algorithm", "secret", "signature", "signed", "body_unsigned", "body_hash", "timestamp",
			"single_use", "url_variants"}
	case schemePublic:
		return []string{"algorithm", "keys", "signature", "signed", "body_unsigned", "body_hash", "timestamp",
			"single_use", "url_variants"}
	case schemeJWT:
		return []string{"secret", "keys", "jwt", "body_unsigned", "body_hash"}
	case schemeToken:
		return []string{"signature"}
	case schemeBasic, schemeNone:
		return []string{}
	default:
		return nil
	}
}

// given lists the fields of a proof that are set.
func (d *Proof) given() []string {
	var out []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"algorithm", d.Algorithm != ""},
		{"secret", d.Secret != SecretFormat{}},
		{"keys", d.Keys != nil},
		{"signature", d.Signature != nil},
		{"signed", d.Signed != ""},
		{"body_unsigned", d.BodyUnsigned},
		{"body_hash", d.BodyHash != nil},
		{"jwt", d.JWT != nil},
		{"timestamp", d.Timestamp != nil},
		{"single_use", d.SingleUse != ""},
		{"url_variants", d.URLVariants != nil},
	} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}

// compileProof checks one proof; path is that of its fields' parent, with a dot behind it.
func (c *compiler) compileProof(path string, d *Proof) *proof {
	p := &proof{scheme: d.Scheme, index: len(c.proofs)}
	c.proofs = append(c.proofs, p)
	one := proofCompiler{checker: c.checker, path: path, decl: d, proof: p, values: c.values, ids: c.ids}
	one.compile()
	p.covers.nothing = !p.covers.body && !p.covers.query && len(p.covers.sources) == 0
	return p
}

// compile checks the fields of the proof's scheme.
func (c *proofCompiler) compile() {
	d, p := c.decl, c.proof
	fields := fieldsOf(d.Scheme)
	if fields == nil {
		c.problems.add(c.path+"scheme", ruleEnum, "must be hmac, keyed_hash, asymmetric, jwt, token, basic or none")
		return
	}
	for _, name := range d.given() {
		if !slices.Contains(fields, name) {
			c.problems.add(c.path+name, ruleCoherent, "has no meaning with the scheme %s", d.Scheme)
		}
	}
	switch d.Scheme {
	case schemeHMAC, schemeKeyedHash:
		c.compileHash()
		c.compileSecret()
		c.compileSigned()
	case schemePublic:
		c.compilePublic()
		c.compileSigned()
	case schemeJWT:
		c.compileJWT()
	case schemeToken:
		p.secret = secretUTF8
		p.signatures = c.compileSignatures(tokenSources, false)
	case schemeBasic:
		p.secret = secretUTF8
		p.signatures = []signatureRule{{src: headerSource("authorization"), prefix: "Basic "}}
	}
}

func (c *proofCompiler) compileHash() {
	d, p := c.decl, c.proof
	switch d.Algorithm {
	case "sha1":
		p.newHash, p.macSize = sha1.New, sha1.Size
	case "sha256":
		p.newHash, p.macSize = sha256.New, sha256.Size
	case "sha512":
		p.newHash, p.macSize = sha512.New, sha512.Size
	default:
		c.problems.add(c.path+"algorithm", ruleEnum, "must be sha1, sha256 or sha512")
	}
}

func (c *proofCompiler) compileSecret() {
	d, p := c.decl, c.proof
	p.secret = secretDecoding(d.Secret.Decode)
	switch p.secret {
	case secretUTF8, secretHex, secretBase64, secretWhsec, secretSHA256:
	default:
		c.problems.add(c.path+"secret.decode", ruleEnum, "must be utf8, hex, base64, whsec or sha256")
	}
}

// compileSigned checks signatures, timestamp and content together.
func (c *proofCompiler) compileSigned() {
	d, p := c.decl, c.proof
	p.signatures = c.compileSignatures(signatureSources, true)
	p.ts = c.compileTimestamp()
	c.checkSignatureTimestamp()
	if !c.compileContent() {
		return
	}
	for i := range p.signatures {
		src, from := &p.signatures[i].src, at(c.path+"signature", i)+".from"
		if p.content.each != nil && src.kind != sourceJSON {
			c.problems.add(from, ruleCoherent, "must be json:<pointer> into the item, because signed has {each:…}")
		}
		if p.content.body >= 0 && src.inBody() {
			c.problems.add(from, ruleCoherent, "is in the body that it signs, where no signature can be valid")
		}
	}
	c.compileVariants()
	c.checkTimestampSigned()
	c.compileBodyHash()
	c.compileSingleUse()
	switch {
	case d.BodyUnsigned && p.covers.body:
		c.problems.add(c.path+"body_unsigned", ruleCoherent, "must be left out: the signature covers the body")
	case !d.BodyUnsigned && !p.covers.body:
		c.problems.add(c.path+"signed", ruleRequired,
			"must contain {body}, or the proof must state body_unsigned: a body outside the signature proves nothing")
	}
}

// firstElement is the key of sig:<key> that names the first element of a list.
const firstElement = "first"

// checkSignatureTimestamp makes sure that sig:<key> names a pair of the only signature header, or the first element of
// its list.
func (c *proofCompiler) checkSignatureTimestamp() {
	p := c.proof
	if p.ts == nil || p.ts.src.kind != sourceSignature {
		return
	}
	switch field := c.path + "timestamp.from"; {
	case len(p.signatures) != 1 || p.signatures[0].src.kind == sourceSequence ||
		p.signatures[0].kv == nil && p.signatures[0].list == nil:
		c.problems.add(field, ruleCoherent,
			"sig:<key> needs exactly one signature, read with parse.kv, and sig:first one that is read with parse.list")
	case p.signatures[0].list != nil && p.ts.src.name != firstElement:
		c.problems.add(field, ruleCoherent, "must be sig:first: the elements of parse.list have no keys")
	case p.signatures[0].list != nil:
		p.ts.src.name = "first element" // for messages; there is no key to look for
	case slices.Contains(p.signatures[0].kv.Keys, p.ts.src.name):
		c.problems.add(field, ruleCoherent, "names a key that contains signatures")
	default:
	}
}

// verify proves the webhook by this proof alone.
func (p *proof) verify(ctx context.Context, s *workspace) (Result, *Refusal) {
	if p.usesSecrets() && len(p.keys) == 0 {
		return Result{}, refuseNoSecret()
	}
	var keyID string
	var refusal *Refusal
	if p.content.each != nil {
		keyID, refusal = p.verifyItems(ctx, s)
	} else {
		keyID, refusal = p.verifyOne(ctx, s)
	}
	if refusal == nil {
		refusal = p.checkBodyHash(s)
	}
	if refusal == nil {
		refusal = p.checkAge(s)
	}
	if refusal != nil {
		return Result{}, refusal
	}
	result := Result{Scheme: p.scheme, KeyID: keyID, Verified: p.scheme != schemeNone}
	if p.singleUse != nil {
		result.SingleUse, _ = s.view.text(p.singleUse) // the signature covers it, so it has a value
		result.SingleUseUntil = s.timestamp.at.Add(p.ts.maxAge)
	}
	return result, nil
}

func (p *proof) verifyOne(ctx context.Context, s *workspace) (keyID string, refusal *Refusal) {
	switch p.scheme {
	case schemeHMAC, schemeKeyedHash:
		return p.verifyMAC(s)
	case schemePublic:
		return p.verifyPublic(ctx, s)
	case schemeJWT:
		return p.verifyJWT(ctx, s)
	case schemeToken:
		return p.verifyToken(s)
	case schemeBasic:
		return p.verifyBasic(s)
	case schemeNone:
		return "", nil
	default:
		return "", refuseMismatch()
	}
}

// verifyItems proves each item of an array by a signature of its own.
func (p *proof) verifyItems(ctx context.Context, s *workspace) (keyID string, refusal *Refusal) {
	items, ok := pattern{p.content.each.pointer, {}}.all(s.view.json(), maxItems)
	if !ok || len(items) == 0 {
		return "", reject(ReasonBodyMalformed, "The body has no list of items to verify, or too long a one.")
	}
	defer func() { s.view.item = nil }()
	for _, item := range items {
		s.view.item = item
		if keyID, refusal = p.verifyOne(ctx, s); refusal != nil {
			return "", refusal
		}
	}
	return keyID, nil
}

// precheck rejects a webhook without a required signature, according to its headers.
func (p *proof) precheck(h http.Header) *Refusal {
	if p.usesSecrets() && len(p.keys) == 0 {
		return refuseNoSecret()
	}
	found := len(p.signatures) == 0
	for i := range p.signatures {
		src := &p.signatures[i].src
		var state presence
		switch src.kind {
		case sourceHeader:
			_, state = src.header(h)
		case sourceSequence:
			_, state = single(h, src.names[0])
		default:
			found = true // present if the headers do not show it
			continue
		}
		switch state {
		case unfit:
			return refuseUnfit(ReasonSignatureMalformed, src.place())
		case present:
			found = true
		case absent:
		}
	}
	if !found {
		return p.refuseNoSignature()
	}
	return nil
}

// signaturePlaces names the places in which signatures are looked for.
func (p *proof) signaturePlaces() string {
	names := make([]string, len(p.signatures))
	for i := range p.signatures {
		names[i] = p.signatures[i].src.place()
	}
	return strings.Join(names, " or the ")
}
