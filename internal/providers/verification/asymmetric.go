package verification

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	// One provider still signs with RSA over SHA-1; forging takes a second preimage, which SHA-1 withstands.
	"crypto/sha1" //nolint:gosec // see above
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/big"
	"strconv"
	"strings"
)

// publicAlgorithm is how a public key verifies.
type publicAlgorithm string

const (
	algorithmEd25519  publicAlgorithm = "ed25519"
	algorithmP256DER  publicAlgorithm = "ecdsa_p256_der"
	algorithmP256Raw  publicAlgorithm = "ecdsa_p256_raw"
	algorithmRSA1     publicAlgorithm = "rsa_sha1"
	algorithmRSA256   publicAlgorithm = "rsa_sha256"
	algorithmRSAPSS   publicAlgorithm = "rsa_pss_sha256"
	maxSignatureBytes                 = maxRSABits / 8
)

// family returns the kind of keys that the algorithm takes; "" for an algorithm that there is not.
func (a publicAlgorithm) family() keyFamily {
	switch a {
	case algorithmEd25519:
		return familyEd25519
	case algorithmP256DER, algorithmP256Raw:
		return familyP256
	case algorithmRSA1, algorithmRSA256, algorithmRSAPSS:
		return familyRSA
	default:
		return ""
	}
}

// verify reports whether sig is the key's signature of the message.
func (a publicAlgorithm) verify(key crypto.PublicKey, message, sig []byte) bool {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return a == algorithmEd25519 && len(sig) == ed25519.SignatureSize && ed25519.Verify(k, message, sig)
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(message)
		if a == algorithmP256DER {
			return ecdsa.VerifyASN1(k, digest[:], sig)
		}
		if a != algorithmP256Raw || len(sig) != 64 {
			return false
		}
		return ecdsa.Verify(k, digest[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
	case *rsa.PublicKey:
		return a.verifyRSA(k, message, sig)
	default:
		return false
	}
}

func (a publicAlgorithm) verifyRSA(key *rsa.PublicKey, message, sig []byte) bool {
	switch a {
	case algorithmRSA1:
		digest := sha1.Sum(message) //nolint:gosec // see the import
		return rsa.VerifyPKCS1v15(key, crypto.SHA1, digest[:], sig) == nil
	case algorithmRSA256:
		digest := sha256.Sum256(message)
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], sig) == nil
	case algorithmRSAPSS:
		digest := sha256.Sum256(message)
		return rsa.VerifyPSS(key, crypto.SHA256, digest[:], sig, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto}) == nil
	default:
		return false
	}
}

// compilePublic checks algorithm and keys of an asymmetric proof. Without keys of its own the connection's secrets are
// the public keys.
func (c *proofCompiler) compilePublic() {
	d, p := c.decl, c.proof
	p.public = publicAlgorithm(d.Algorithm)
	family := p.public.family()
	if family == "" {
		c.problems.add(c.path+"algorithm", ruleEnum,
			"must be ed25519, ecdsa_p256_der, ecdsa_p256_raw, rsa_sha1, rsa_sha256 or rsa_pss_sha256")
		return
	}
	if d.Keys == nil {
		p.secret = secretPublicKey
		p.families = []keyFamily{family}
		return
	}
	c.compileKeys(family)
}

func (c *proofCompiler) compileStatic(d *Keys, families []keyFamily) {
	p := c.proof
	field := c.path + "keys.static"
	c.limit(field, len(d.Static))
	if len(d.Static) == 0 {
		c.problems.add(field, ruleRequired, "needs at least one key")
	}
	for i, text := range d.Static {
		public, wrong := parsePublicKey(families, text)
		if wrong != "" {
			c.problems.add(at(field, i), ruleFormat, "%s", wrong)
		}
		p.keys = append(p.keys, key{id: "static-" + strconv.Itoa(i), public: public})
	}
}

// verifyPublic proves a webhook by a signature that a public key verifies.
func (p *proof) verifyPublic(ctx context.Context, s *workspace) (keyID string, refusal *Refusal) {
	if refusal := p.collect(&s.view, &s.offered); refusal != nil {
		return "", refusal
	}
	signatures := make([][]byte, 0, s.offered.count)
	for i := range s.offered.count {
		if len(signatures) == maxPublic {
			break
		}
		if sig, ok := s.offered.rules[i].decode(s.offered.texts[i]); ok {
			signatures = append(signatures, sig)
		}
	}
	if len(signatures) == 0 {
		return "", p.refuseUnreadable()
	}
	if refusal := p.readTimestamp(s); refusal != nil {
		return "", refusal
	}
	keys, refusal := p.publicKeys(ctx, s, "")
	if refusal != nil {
		return "", refusal
	}
	for _, s.variant = range p.variants {
		bodyAt, refusal := p.render(s, nil)
		if refusal != nil {
			return "", refusal
		}
		message := s.message(bodyAt)
		for _, k := range keys {
			for _, sig := range signatures {
				if p.public.verify(k.public, message, sig) {
					return k.id, nil
				}
			}
		}
	}
	return "", refuseMismatch()
}

// publicKeys returns the keys that may have signed, those of the definition and the connection, or fetched ones.
func (p *proof) publicKeys(ctx context.Context, s *workspace, keyID string) ([]fetchedKey, *Refusal) {
	if p.source == nil {
		keys := make([]fetchedKey, len(p.keys))
		for i, k := range p.keys {
			keys[i] = fetchedKey{id: k.id, public: k.public}
		}
		return keys, nil
	}
	now := s.view.request.Now
	if p.cert != nil {
		certURL, state := s.view.text(&p.cert.src)
		if state != present || !p.cert.allows(certURL) {
			return nil, reject(ReasonSignatureMalformed, "The "+p.cert.src.place()+
				", which names the certificate, is missing or does not name one of the provider's.")
		}
		keyID = certURL
	}
	if keyID == "" && p.source.single {
		return nil, reject(ReasonSignatureMalformed, "The token does not name its key.")
	}
	keys, err := p.keyring.find(ctx, now, p.source, p.keyOwner, keyID)
	switch {
	case errors.Is(err, errKeyUnknown):
		return nil, reject(ReasonSignatureMismatch, "The webhook names a key that the provider does not publish.")
	case err != nil:
		return nil, reject(ReasonKeysUnavailable,
			"The provider's public keys cannot be fetched, so nothing can be verified. The provider may send the webhook again.")
	}
	for _, k := range keys {
		if !k.notAfter.IsZero() && (now.Before(k.notBefore) || now.After(k.notAfter)) {
			return nil, reject(ReasonSignatureMismatch,
				"The key or certificate that the webhook names is not valid at this time.")
		}
	}
	return keys, nil
}

// message returns the content as one piece.
func (s *workspace) message(bodyAt int) []byte {
	body := s.view.request.Body
	switch {
	case bodyAt < 0:
		return s.parts
	case len(s.parts) == 0:
		return body
	}
	message := make([]byte, 0, len(s.parts)+len(body))
	message = append(message, s.parts[:bodyAt]...)
	message = append(message, body...)
	return append(message, s.parts[bodyAt:]...)
}

// decode decodes a signature of any length up to maxSignatureBytes.
func (r *signatureRule) decode(text string) ([]byte, bool) {
	if text == "" || len(text) > 2*maxSignatureBytes || strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	var sig []byte
	var err error
	switch r.encoding {
	case encodingHex:
		sig, err = hex.DecodeString(text)
	case encodingBase64:
		sig, err = base64.StdEncoding.Strict().DecodeString(text)
	case encodingBase64URL:
		sig, err = base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
	case encodingNone:
		return nil, false
	}
	return sig, err == nil && len(sig) <= maxSignatureBytes
}
