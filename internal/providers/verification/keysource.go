package verification

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// defaultKeyTTL is how long fetched keys are good where the declaration does not say.
const defaultKeyTTL = time.Hour

// compileKeys checks where public keys come from.
func (c *proofCompiler) compileKeys(families ...keyFamily) {
	k, field := c.decl.Keys, c.path+"keys"
	ways := 0
	for _, given := range []bool{k.Static != nil, k.JWKS != nil, k.ByKid != nil, k.CertURL != nil} {
		if given {
			ways++
		}
	}
	isJWT := c.decl.Scheme == schemeJWT
	switch {
	case ways != 1:
		c.problems.add(field, ruleCoherent, "needs exactly one of static, jwks, by_kid and cert_url")
	case !isJWT && (k.JWKS != nil || k.ByKid != nil):
		c.problems.add(field, ruleCoherent, "can be static or cert_url only: nothing in such a signature names a key")
	case isJWT && k.CertURL != nil:
		c.problems.add(field, ruleCoherent, "cannot be cert_url: a token names its key")
	case k.Static != nil:
		c.compileStatic(k, families)
	case k.JWKS != nil:
		c.compileJWKS(field+".jwks", k.JWKS)
	case k.ByKid != nil:
		c.compileByKid(field+".by_kid", k.ByKid)
	default:
		c.compileCertURL(field+".cert_url", k.CertURL, families)
	}
}

func (c *proofCompiler) compileJWKS(field string, d *JWKS) {
	p := c.proof
	c.keyURL(field+".url", d.URL)
	p.source = &keySource{
		id:      "jwks " + d.URL,
		ttl:     c.keyTTL(field+".ttl_s", d.TTLS),
		request: func(string) KeyRequest { return KeyRequest{URL: d.URL} },
		parse:   func(response []byte, _ string, _ time.Time) ([]fetchedKey, error) { return parseJWKS(response) },
	}
}

func (c *proofCompiler) compileByKid(field string, d *ByKid) {
	p := c.proof
	c.keyURL(field+".url", strings.ReplaceAll(d.URL, keyIDToken, "k"))
	if len(d.Body) > maxText || !printableText(d.Body) {
		c.problems.add(field+".body", ruleFormat, "must be printable ASCII of at most %d bytes", maxText)
	}
	if !strings.Contains(d.URL+d.Body, keyIDToken) {
		c.problems.add(field, ruleRequired, "must contain %s in url or body", keyIDToken)
	}
	if strings.Contains(d.URL, secretToken) {
		c.problems.add(field+".url", ruleFormat, "must not contain the secret: URLs appear in logs")
	}
	if strings.Contains(d.Body, secretToken) {
		p.secret = secretUTF8
	}
	src, wrong := parseSource("json:"+d.Key, sourceJSON)
	if wrong != "" {
		c.problems.add(field+".key", ruleFormat, "%s", wrong)
	}
	expired := c.expiry(field+".expired", d.Expired)
	p.source = &keySource{
		single: true,
		ttl:    c.keyTTL(field+".ttl_s", d.TTLS),
		parse: func(response []byte, keyID string, _ time.Time) ([]fetchedKey, error) {
			raw, ok := src.pointer.lookup(response)
			if !ok {
				return nil, errors.New("the response has no key where the declaration says")
			}
			key, ok := parseJWK(raw)
			if !ok || key.id != "" && key.id != keyID {
				return nil, errors.New("the response has no public key with that id")
			}
			key.id = keyID
			if err := expired(response, &key); err != nil {
				return nil, err
			}
			return []fetchedKey{key}, nil
		},
	}
	p.bindSource = func(secret string) {
		quoted, err := json.Marshal(secret)
		if err != nil {
			quoted = []byte(`""`) // a string always marshals
		}
		body := strings.ReplaceAll(d.Body, secretToken, string(quoted[1:len(quoted)-1]))
		sum := sha256.Sum256([]byte(body))
		p.source.id = "by_kid " + d.URL + " " + hex.EncodeToString(sum[:])
		p.source.request = func(keyID string) KeyRequest {
			r := KeyRequest{URL: strings.ReplaceAll(d.URL, keyIDToken, url.QueryEscape(keyID))}
			if body != "" {
				r.Body = []byte(strings.ReplaceAll(body, keyIDToken, keyID))
			}
			return r
		}
	}
}

// expiry returns a function that gives a key the time at which it expires according to a response.
func (c *proofCompiler) expiry(field, text string) func(response []byte, key *fetchedKey) error {
	if text == "" {
		return func([]byte, *fetchedKey) error { return nil }
	}
	src, wrong := parseSource("json:"+text, sourceJSON)
	if wrong != "" {
		c.problems.add(field, ruleFormat, "%s", wrong)
	}
	return func(response []byte, key *fetchedKey) error {
		raw, found := src.pointer.lookup(response)
		if !found || string(raw) == "null" {
			return nil
		}
		seconds, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || seconds <= 0 {
			return errors.New("the response has an expiry that is no Unix time")
		}
		key.notAfter = time.Unix(seconds, 0)
		return nil
	}
}

// Tokens of by_kid. Braces alone are the text's own, which is JSON.
const (
	keyIDToken  = "${kid}"
	secretToken = "${secret}"
)

func (c *proofCompiler) compileCertURL(field string, d *CertURL, families []keyFamily) {
	p := c.proof
	src, wrong := parseSource(d.From, eventSources)
	if wrong != "" {
		c.problems.add(field+".from", ruleFormat, "%s", wrong)
	}
	host, err := regexp.Compile(`\A(?:` + d.HostRegex + `)\z`)
	if err != nil || d.HostRegex == "" || len(d.HostRegex) > maxText || host.MatchString("attacker.example") {
		c.problems.add(field+".host_regex", ruleFormat,
			"must be a regular expression (RE2) that only the provider's hosts match")
		return
	}
	if d.PathPrefix != "" && (!strings.HasPrefix(d.PathPrefix, "/") || !strings.HasSuffix(d.PathPrefix, "/") ||
		len(d.PathPrefix) < len("/x/")) {
		c.problems.add(field+".path_prefix", ruleFormat, "must be the folder of the certificates, such as /certs/")
	}
	if !strings.HasPrefix(d.PathSuffix, ".") && (d.PathSuffix != "" || d.PathPrefix == "") {
		c.problems.add(field+".path_suffix", ruleFormat, "must be the ending of the certificate's file, such as .pem")
	}
	if d.Roots != "system" && d.Roots != "none" {
		c.problems.add(field+".roots", ruleEnum,
			"must be system, or none if the provider's certificates do not chain to public roots")
	}
	if d.DNSName != "" && d.Roots != "system" {
		c.problems.add(field+".dns_name", ruleCoherent, "needs roots: system")
	}
	p.cert = &certRule{src: src, host: host, prefix: d.PathPrefix, suffix: d.PathSuffix}
	p.source = &keySource{
		id:     strings.Join([]string{"cert", d.HostRegex, d.PathPrefix, d.PathSuffix, d.Roots, d.DNSName}, " "),
		single: true, ttl: 24 * time.Hour,
		request: func(certURL string) KeyRequest { return KeyRequest{URL: certURL} },
		parse: func(response []byte, certURL string, now time.Time) ([]fetchedKey, error) {
			key, err := parseCertificate(response, d.Roots == "system", d.DNSName, now, families)
			key.id = certURL
			return []fetchedKey{key}, err
		},
	}
}

// certRule says where a webhook names its certificate, and which URLs may be fetched.
type certRule struct {
	src            source
	host           *regexp.Regexp
	prefix, suffix string
}

// allows reports whether a URL that came with a webhook may be fetched: https at one of the provider's hosts, with
// nothing in it that could mean another place.
func (r *certRule) allows(text string) bool {
	if len(text) > maxText || !printable(text, maxText) || strings.ContainsAny(text, `\%@`) {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.User == nil && u.Port() == "" && u.RawQuery == "" && !u.ForceQuery &&
		u.Fragment == "" && u.Opaque == "" &&
		r.host.MatchString(u.Host) && strings.HasPrefix(u.Path, r.prefix) && strings.HasSuffix(u.Path, r.suffix) &&
		len(u.Path) > len(r.prefix)+len(r.suffix) && !strings.Contains(u.Path, "..") &&
		u.String() == text
}

func (c *checker) keyURL(field, text string) {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxText || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		c.problems.add(field, ruleFormat, "must be an https URL")
	}
}

func (c *checker) keyTTL(field, text string) time.Duration {
	if ttl := c.seconds(field, text); ttl > 0 {
		return ttl
	}
	return defaultKeyTTL
}

// parseJWKS reads a JWK Set (RFC 7517 section 5). Keys that cannot be used are passed over; private and symmetric ones
// never are keys here.
func parseJWKS(response []byte) ([]fetchedKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(response, &set); err != nil {
		return nil, fmt.Errorf("read a JWK set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("read a JWK set: it has more than %d keys", maxKeys)
	}
	var keys []fetchedKey
	for _, raw := range set.Keys {
		if key, ok := parseJWK(raw); ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("read a JWK set: it has no public key that can be used")
	}
	return keys, nil
}

func parseJWK(raw []byte) (fetchedKey, bool) {
	var jwk jose.JSONWebKey
	if err := json.Unmarshal(raw, &jwk); err != nil || !jwk.Valid() || !jwk.IsPublic() || jwk.Use != "" &&
		jwk.Use != "sig" {
		return fetchedKey{}, false
	}
	for _, f := range []keyFamily{familyEd25519, familyP256, familyRSA} {
		if f.has(jwk.Key) {
			return fetchedKey{id: jwk.KeyID, algorithm: jwk.Algorithm, public: jwk.Key}, true
		}
	}
	return fetchedKey{}, false
}

// parseCertificate reads a certificate in PEM, with those between it and the root behind it.
func parseCertificate(response []byte, chain bool, dnsName string, now time.Time,
	families []keyFamily) (fetchedKey, error) {
	block, rest := pem.Decode(response)
	if block == nil || block.Type != "CERTIFICATE" {
		return fetchedKey{}, errors.New("the response is not a certificate in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fetchedKey{}, fmt.Errorf("read a certificate: %w", err)
	}
	if chain {
		intermediates := x509.NewCertPool()
		intermediates.AppendCertsFromPEM(rest)
		options := x509.VerifyOptions{Intermediates: intermediates, CurrentTime: now, DNSName: dnsName,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
		if _, err := cert.Verify(options); err != nil {
			return fetchedKey{}, fmt.Errorf("verify a certificate: %w", err)
		}
	}
	if !familyIn(families, cert.PublicKey) {
		return fetchedKey{}, errors.New("the certificate's key does not fit the algorithm of the signatures")
	}
	return fetchedKey{public: cert.PublicKey, notBefore: cert.NotBefore, notAfter: cert.NotAfter}, nil
}

func familyIn(families []keyFamily, key crypto.PublicKey) bool {
	for _, f := range families {
		if f.has(key) {
			return true
		}
	}
	return false
}
