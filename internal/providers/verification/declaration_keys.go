package verification

// Keys names the source of public keys. Exactly one of its fields is given.
//
// Keys that the definition names prove the provider's platform and not the account. The declaration then has to bind a
// webhook to the connection: see Declaration.Account.
type Keys struct {
	// Static lists keys in PEM, in base64 of a SubjectPublicKeyInfo, or, for ed25519, in hexadecimal. With {param:name}
	// the connection sets the key.
	Static []string `yaml:"static"`
	// JWKS is a JWK Set (RFC 7517) that the provider publishes. For jwt only.
	JWKS *JWKS `yaml:"jwks"`
	// ByKid requests from an API of the provider the key that a token names. For jwt only.
	ByKid *ByKid `yaml:"by_kid"`
	// CertURL takes the key from a certificate that the webhook names. For asymmetric only.
	CertURL *CertURL `yaml:"cert_url"`
}

// JWKS is a published set of keys.
type JWKS struct {
	// URL is https.
	URL string `yaml:"url"`
	// TTLS is after how many seconds the set is fetched again, 1 to 86400; empty for 3600.
	TTLS string `yaml:"ttl_s"`
}

// ByKid is an API that returns one key as a JWK.
type ByKid struct {
	// URL is https; ${kid} in it is replaced by the key's id.
	URL string `yaml:"url"`
	// Body is JSON that is sent by POST; empty for GET. ${kid} is replaced by the key's id, and ${secret} by the
	// connection's newest secret, which is then the API's.
	Body string `yaml:"body"`
	// Key is the JSON pointer to the JWK in the response.
	Key string `yaml:"key"`
	// Expired is the JSON pointer to the time in the response at which the key expired or will expire, in Unix seconds,
	// or null; empty if the API returns none. A key is not accepted after that time.
	Expired string `yaml:"expired"`
	// TTLS is after how many seconds a key is fetched again, 1 to 86400; empty for 3600.
	TTLS string `yaml:"ttl_s"`
}

// CertURL is a certificate whose URL comes with the webhook.
type CertURL struct {
	// From is header:<name> or json:<pointer>.
	From string `yaml:"from"`
	// HostRegex is an RE2 expression that must match the whole host name.
	HostRegex string `yaml:"host_regex"`
	// PathPrefix is how the path must begin, with a slash at both ends, such as /certs/. Empty for any.
	PathPrefix string `yaml:"path_prefix"`
	// PathSuffix is how the path must end, such as .pem. It can be empty only if PathPrefix is given.
	PathSuffix string `yaml:"path_suffix"`
	// Roots is system if the certificate must chain to one of the system's roots, or none.
	Roots string `yaml:"roots"`
	// DNSName is the name that the certificate must be for, with roots: system; empty for any.
	DNSName string `yaml:"dns_name"`
}

// JWTRule defines the requirements for a JSON Web Token (RFC 7519) that comes with a webhook.
type JWTRule struct {
	// From is header:<name>, query:<name> or json:<pointer>. With * in the pointer every item must be a good token.
	From string `yaml:"from"`
	// Prefix precedes the token, such as "Bearer ".
	Prefix string `yaml:"prefix"`
	// Algs lists the accepted algorithms (RFC 7518): HS256, HS384 and HS512, whose keys are the connection's secrets; or
	// RS256, PS256, ES256 and EdDSA, whose keys are public. One proof cannot mix the two kinds.
	Algs []string `yaml:"algs"`
	// Iss lists the accepted issuers; empty accepts any.
	Iss []string `yaml:"iss"`
	// Aud lists the accepted audiences. The token must have one of them. Empty accepts any.
	Aud []string `yaml:"aud"`
	// Claims lists predicates on jwt:<claim> or jwt:<pointer> that must all be true.
	Claims []Predicate `yaml:"claims"`
	// MaxAgeS is the maximum age of the token in seconds, counted from iat, 1 to 86400; empty for no limit.
	MaxAgeS string `yaml:"max_age_s"`
	// MaxSkewS is the tolerance in seconds for exp, nbf and iat, 1 to 86400; empty for 60.
	MaxSkewS string `yaml:"max_skew_s"`
}

// BodyHash is a hash of the raw body that the signature covers in the body's stead.
type BodyHash struct {
	// From is query:<name> or header:<name>, which the signature must cover, or jwt:<claim>.
	From string `yaml:"from"`
	// Prefix and Suffix surround the hash, such as "sha-256=:" and ":" in Content-Digest (RFC 9530).
	Prefix string `yaml:"prefix"`
	Suffix string `yaml:"suffix"`
	// Alg is sha256 or sha512. SHA-1 is not supported, because collisions are practical.
	Alg string `yaml:"alg"`
	// Encoding is hex, base64 or base64url.
	Encoding string `yaml:"encoding"`
}
