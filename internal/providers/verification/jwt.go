package verification

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"hash"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sallyport/internal/platform/jwt"
)

const (
	schemeJWT = "jwt"
	// defaultSkew is by how much the clocks may differ where the declaration does not say.
	defaultSkew = time.Minute
	// maxToken bounds a token. Headers are bounded anyway; a body is not.
	maxToken = 16 << 10
	maxKeyID = 256
)

// jwtRule is a checked JWTRule.
type jwtRule struct {
	src      source
	prefix   string
	policy   jwt.Policy
	families []keyFamily // of public keys; empty where secrets are the keys
	claims   []predicate
	maxAge   time.Duration
	// issuers and audiences are those of the policy; empty where any is accepted.
	issuers, audiences []string
}

// familyOf returns the kind of public key that an algorithm takes; symmetric is true for one that takes a secret.
func familyOf(alg jose.SignatureAlgorithm) (family keyFamily, symmetric, ok bool) {
	switch alg {
	case jose.HS256, jose.HS384, jose.HS512:
		return "", true, true
	case jose.RS256, jose.PS256:
		return familyRSA, false, true
	case jose.ES256:
		return familyP256, false, true
	case jose.EdDSA:
		return familyEd25519, false, true
	default:
		return "", false, false
	}
}

// compileJWT checks a token's rule with its keys and the hash of the body.
func (c *proofCompiler) compileJWT() {
	d, p := c.decl, c.proof
	if d.JWT == nil {
		c.problems.add(c.path+"jwt", ruleRequired, "is missing")
		return
	}
	field := c.path + "jwt"
	// Providers do not agree on a typ.
	rule := &jwtRule{prefix: d.JWT.Prefix, policy: jwt.Policy{MaxBytes: maxToken, Types: jwt.Any(),
		Issuers: oneOf(d.JWT.Iss), Audiences: oneOf(d.JWT.Aud)}}
	rule.issuers, rule.audiences = d.JWT.Iss, d.JWT.Aud
	p.jwt = rule
	src, wrong := parseSource(d.JWT.From, sourceHeader|sourceQuery|sourceJSON|sourceItems)
	if wrong != "" {
		c.problems.add(field+".from", ruleFormat, "%s", wrong)
	}
	rule.src = src
	p.signatures = []signatureRule{{src: src}}
	if rule.prefix != "" {
		c.text(field+".prefix", rule.prefix)
	}
	symmetric := c.compileAlgs(field+".algs", d.JWT.Algs, rule)
	c.compileJWTKeys(symmetric)
	for _, list := range []struct {
		name   string
		values []string
	}{{"iss", d.JWT.Iss}, {"aud", d.JWT.Aud}} {
		c.limit(field+"."+list.name, len(list.values))
		if slices.Contains(list.values, "") {
			c.problems.add(field+"."+list.name, ruleFormat, "must not contain an empty value")
		}
	}
	rule.claims = c.compilePredicates(field+".claims", d.JWT.Claims, sourceJWT)
	rule.maxAge = c.seconds(field+".max_age_s", d.JWT.MaxAgeS)
	skew := cmp.Or(c.seconds(field+".max_skew_s", d.JWT.MaxSkewS), defaultSkew)
	// The last instant of the skew is still valid.
	rule.policy.Skew, rule.policy.ExpirySkew = skew, skew+1
	p.variants = []urlVariant{{}}
	c.compileBodyHash()
	if d.BodyUnsigned == p.covers.body {
		c.problems.add(c.path+"body_unsigned", ruleCoherent,
			"must be true exactly if no body_hash is set, because the token then does not cover the body")
	}
}

// oneOf returns the values that a claim may have: those of the definition, or any where it lists none.
func oneOf(values []string) jwt.Values {
	if len(values) == 0 {
		return jwt.Any()
	}
	return jwt.OneOf(values...)
}

func (c *proofCompiler) compileAlgs(field string, names []string, rule *jwtRule) (symmetric bool) {
	if len(names) == 0 || len(names) > maxEntries {
		c.problems.add(field, ruleRequired, "needs at least one algorithm")
	}
	for i, name := range names {
		alg := jose.SignatureAlgorithm(name)
		family, isSymmetric, ok := familyOf(alg)
		switch {
		case !ok:
			c.problems.add(at(field, i), ruleEnum, "must be HS256, HS384, HS512, RS256, PS256, ES256 or EdDSA")
		case i > 0 && isSymmetric != symmetric:
			c.problems.add(at(field, i), ruleCoherent,
				"mixes secrets and public keys, so that a public key could be used as a secret")
		}
		symmetric = isSymmetric
		rule.policy.Algorithms = append(rule.policy.Algorithms, alg)
		if family != "" && !slices.Contains(rule.families, family) {
			rule.families = append(rule.families, family)
		}
	}
	return symmetric
}

func (c *proofCompiler) compileJWTKeys(symmetric bool) {
	d, p := c.decl, c.proof
	switch {
	case symmetric && d.Keys != nil:
		c.problems.add(c.path+"keys", ruleCoherent, "are for public keys, and the algorithms take a secret")
	case symmetric:
		c.compileSecret()
	case d.Secret != (SecretFormat{}):
		c.problems.add(c.path+"secret", ruleCoherent, "has no meaning: the algorithms take public keys")
	case d.Keys == nil:
		p.secret = secretPublicKey
		p.families = p.jwt.families
	default:
		c.compileKeys(p.jwt.families...)
	}
}

// verifyJWT proves a webhook by a token, or by all of several.
func (p *proof) verifyJWT(ctx context.Context, s *workspace) (keyID string, refusal *Refusal) {
	if p.jwt.src.kind != sourceItems {
		text, state := s.view.text(&p.jwt.src)
		switch state {
		case absent:
			return "", p.refuseNoSignature()
		case unfit:
			return "", refuseUnfit(ReasonSignatureMalformed, p.jwt.src.place())
		case present:
		}
		return p.verifyCompact(ctx, s, text)
	}
	tokens, ok := p.jwt.src.items.all(s.view.json(), maxItems)
	if !ok || len(tokens) == 0 {
		return "", p.refuseNoSignature()
	}
	for _, raw := range tokens {
		text, _ := scalar(raw, true)
		if keyID, refusal = p.verifyCompact(ctx, s, text); refusal != nil {
			return "", refusal
		}
	}
	return keyID, nil
}

func (p *proof) verifyCompact(ctx context.Context, s *workspace, text string) (keyID string, refusal *Refusal) {
	compact, found := strings.CutPrefix(text, p.jwt.prefix)
	if !found {
		return "", p.refuseUnreadable()
	}
	token, err := p.jwt.policy.Parse(compact)
	switch {
	case errors.Is(err, jwt.ErrTooLarge), errors.Is(err, jwt.ErrMalformed):
		return "", p.refuseUnreadable()
	case errors.Is(err, jwt.ErrCritical), err == nil && token.Header.KeyID != "" &&
		!printable(token.Header.KeyID, maxKeyID):
		return "", reject(ReasonSignatureMalformed, "The token has a header that is not understood here.")
	case err != nil:
		return "", reject(ReasonSignatureMalformed, "The "+p.jwt.src.place()+
			" is no JSON Web Token of an algorithm that this provider uses.")
	}
	keyID, payload, refusal := p.findKey(ctx, s, token)
	if refusal != nil {
		return "", refusal
	}
	s.view.claims = payload
	return keyID, p.checkClaims(s, payload)
}

// findKey finds the key under which the token's signature is right. An algorithm is bound to its kind of key: a
// secret verifies HS… only, and a public key only the algorithms of its family.
func (p *proof) findKey(ctx context.Context, s *workspace,
	token *jwt.Token) (keyID string, payload []byte, refusal *Refusal) {
	header := &token.Header
	alg := jose.SignatureAlgorithm(header.Algorithm)
	family, symmetric, _ := familyOf(alg)
	if symmetric {
		for _, k := range p.keys {
			if payload, err := token.Verify(&macVerifier{key: k.bytes}); err == nil {
				return k.id, payload, nil
			}
		}
		return "", nil, refuseMismatch()
	}
	keys, refusal := p.publicKeys(ctx, s, header.KeyID)
	if refusal != nil {
		return "", nil, refusal
	}
	for _, k := range keys {
		if !family.has(k.public) || k.algorithm != "" && k.algorithm != header.Algorithm {
			continue
		}
		if payload, err := token.Verify(k.public); err == nil {
			return k.id, payload, nil
		}
	}
	return "", nil, refuseMismatch()
}

// macVerifier verifies HS256, HS384 and HS512 with secrets of any length: what a provider lets people choose is not
// always as long as RFC 7518 section 3.2 asks.
type macVerifier struct{ key []byte }

var errMAC = errors.New("the signature does not match")

// VerifyPayload implements jose.OpaqueVerifier.
func (m *macVerifier) VerifyPayload(payload, signature []byte, alg jose.SignatureAlgorithm) error {
	var newHash func() hash.Hash
	switch alg {
	case jose.HS256:
		newHash = sha256.New
	case jose.HS384:
		newHash = sha512.New384
	case jose.HS512:
		newHash = sha512.New
	default:
		return errMAC
	}
	h := hmac.New(newHash, m.key)
	_, _ = h.Write(payload) // a hash.Hash never returns an error
	if !hmac.Equal(h.Sum(nil), signature) {
		return errMAC
	}
	return nil
}

// checkClaims checks what a token whose signature is right says.
func (p *proof) checkClaims(s *workspace, payload []byte) *Refusal {
	rule, now := p.jwt, s.view.request.Now
	var claims jwt.Claims
	if err := jwt.Decode(payload, &claims); err != nil {
		return reject(ReasonSignatureMalformed, "The token's claims cannot be read.")
	}
	err := rule.policy.CheckTimes(now, claims)
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return reject(ReasonTimestampOutOfRange,
			"The signature is valid, but the token has expired. The webhook was delayed or replayed, or this host's clock is "+
				"ahead.")
	case err != nil:
		return reject(ReasonTimestampOutOfRange,
			"The signature is right, but the token is not valid yet. This host's clock is behind, or the sender's ahead.")
	case rule.maxAge > 0 && claims.IssuedAt == nil, rule.maxAge == 0 && claims.Expiry == nil && p.bodyHash == nil:
		return reject(ReasonTimestampMissing,
			"The token contains neither the time of its issue nor an expiry, so it would be valid forever.")
	case rule.maxAge > 0 && now.Sub(claims.IssuedAt.Time()) > rule.maxAge+rule.policy.Skew:
		return reject(ReasonTimestampOutOfRange,
			"The signature is valid, but the token was issued too long ago. The webhook was delayed or replayed, or this "+
				"host's clock is ahead.")
	}
	switch err := rule.policy.CheckParties(claims); {
	case errors.Is(err, jwt.ErrIssuer):
		return refuseClaim("iss")
	case err != nil:
		return refuseClaim("aud")
	}
	for i := range rule.claims {
		if !rule.claims[i].holds(&s.view) {
			return refuseClaim(strings.TrimPrefix(rule.claims[i].src.text, "jwt:"))
		}
	}
	return nil
}

func refuseClaim(name string) *Refusal {
	return reject(ReasonClaimRefused, "The token is valid, but its claim "+name+
		" has another value than this connection expects. Compare it with the connection's parameters.")
}
