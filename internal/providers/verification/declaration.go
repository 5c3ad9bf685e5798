package verification

// Declaration is the webhooks section of a provider definition: how the provider proves its webhooks, and what they
// contain about themselves. It is data; Compile turns it into an Engine or rejects it.
//
// Text fields may contain {param:name}, which is replaced by the connection's value of that parameter before the field
// is read. If a whole source depends on a parameter that was left empty (a text of a list, or an entry whose from
// mentions it), that entry is left out.
type Declaration struct {
	// Setup shows people where to enter the webhook URL and the secret in the provider's settings. Markdown. Not
	// interpreted.
	Setup string `yaml:"setup"`
	// Params are the values that each connection may set.
	Params []Param `yaml:"params"`
	// Proof is how a webhook proves its sender.
	Proof `yaml:",inline"`
	// Body locates the JSON if the body as a whole is not JSON; nil if it always is.
	Body *BodyRule `yaml:"body"`
	// Event defines the derivation of type and id.
	Event EventRules `yaml:"event"`
	// Control marks the provider's pings and confirmations: a webhook that any predicate fits is acknowledged and stored
	// but not forwarded.
	Control []Predicate `yaml:"control"`
	// Account lists predicates that must all be true for a webhook of this connection. It is needed if the proof shows
	// only that the webhook comes from the provider's platform.
	Account []Predicate `yaml:"account"`
	// Handshake lists the provider's handshakes. The first that matches is used.
	Handshake []Handshake `yaml:"handshake"`
	// Ack is the response to accepted webhooks; nil for the gateway's own.
	Ack *Ack `yaml:"ack"`
	// RejectStatus is the status code of rejections, 400 to 499; 0 for 401.
	RejectStatus int `yaml:"reject_status"`
	// MaxBody is the most bytes of a body that the provider sends, 1 to 26214400; 0 for no limit but the gateway's.
	MaxBody int64 `yaml:"max_body"`
	// SourceIPs lists the networks (CIDR) that the provider sends from. Webhooks from other addresses are rejected. Empty
	// for any.
	SourceIPs []string `yaml:"source_ips"`
	// RedactHeaders names additional headers whose value must not be stored. Headers that carry signatures or a secret are
	// always redacted.
	RedactHeaders []string `yaml:"redact_headers"`
	// Samples are bodies from which webhooks to try a connection out are made. A type without one gets a minimal body.
	Samples []SampleBody `yaml:"samples"`
}

// Param is one value that a connection may set. A parameter without Required has a default, which may be empty.
type Param struct {
	// Name is [a-z][a-z0-9_]{0,39}.
	Name string `yaml:"name"`
	// Description is one sentence for a person.
	Description string `yaml:"description"`
	// Enum lists the accepted values. Exactly one of Enum and Pattern is given.
	Enum []string `yaml:"enum"`
	// Pattern is an RE2 expression that must match the whole value.
	Pattern string `yaml:"pattern"`
	// Default is used if the connection sets nothing. Empty means that the parameter is off.
	Default string `yaml:"default"`
	// Example is a value for documentation, also used to check the declaration. It is required with Pattern if Default is
	// empty.
	Example string `yaml:"example"`
	// Required parameters have no default: a connection without them is invalid.
	Required bool `yaml:"required"`
}

// Proof is one way to prove the sender of a webhook. A field that has no meaning for the scheme is an error.
type Proof struct {
	// Scheme is the kind of proof:
	//   - hmac: RFC 2104 over Signed;
	//   - keyed_hash: a plain hash over Signed, which contains {secret};
	//   - asymmetric: a signature over Signed that a public key verifies;
	//   - jwt: a JSON Web Token that comes with the webhook;
	//   - token: the secret itself, compared in constant time;
	//   - basic: the secret is "user:password" of RFC 7617;
	//   - none: nothing is proved, which the connection must accept explicitly.
	Scheme string `yaml:"scheme"`
	// Algorithm is the hash under hmac and keyed_hash: sha1, sha256 or sha512; or how asymmetric verifies: ed25519 (RFC
	// 8032), ecdsa_p256_der or ecdsa_p256_raw (FIPS 186 with SHA-256; DER, or r and s of 32 bytes each), rsa_sha1 or
	// rsa_sha256 (PKCS #1 v1.5) or rsa_pss_sha256.
	Algorithm string `yaml:"algorithm"`
	// Secret defines how the text of the secret becomes the key.
	Secret SecretFormat `yaml:"secret"`
	// Keys names the source of the public keys of asymmetric and jwt. Nil means that the connection's secrets are the
	// keys.
	Keys *Keys `yaml:"keys"`
	// Signature lists the places of signatures or, for token, of the secret. A webhook passes if any one of them is valid.
	Signature []SignatureSource `yaml:"signature"`
	// Signed is the template of the bytes under the signature; README.md lists its tokens.
	Signed string `yaml:"signed"`
	// BodyUnsigned states that the proof does not cover the whole body. It must agree with the rest of the proof. Anyone
	// who gets one such webhook can send any body with it, and the author of a definition must be aware of that.
	BodyUnsigned bool `yaml:"body_unsigned"`
	// Timestamp defines when a webhook was signed and how old it may be; nil if the provider sends no timestamp.
	Timestamp *TimestampRule `yaml:"timestamp"`
	// SingleUse is the source of a value under the signature that the provider uses only once, json:<pointer> or
	// form:<name>; empty if there is none. A webhook with a value that was used before is a duplicate of the first,
	// regardless of its id. It is for proofs that do not cover the body. It needs a signed timestamp with max_age_s and
	// max_skew_s: a value must be remembered as long as its signature is accepted.
	SingleUse string `yaml:"single_use"`
	// BodyHash is set if the signature covers a hash of the body; nil if it covers the body itself, or not at all.
	BodyHash *BodyHash `yaml:"body_hash"`
	// JWT defines the requirements for the token of the scheme jwt.
	JWT *JWTRule `yaml:"jwt"`
	// URLVariants lists other forms of the URL that the provider may have signed: port (without the port of the URL, or
	// with the scheme's own port if the URL has none) and no_query.
	URLVariants []string `yaml:"url_variants"`
	// AnyOf and AllOf combine proofs: any one of them, or all of them, have to pass. They replace all the fields above.
	AnyOf []Proof `yaml:"any_of"`
	AllOf []Proof `yaml:"all_of"`
}

// SecretFormat defines how the secret's text becomes key bytes.
type SecretFormat struct {
	// Decode is utf8 (the text itself), hex, base64 (RFC 4648 section 4), whsec (Standard Webhooks: an optional whsec_
	// prefix before base64) or sha256 (the SHA-256 of the text).
	Decode string `yaml:"decode"`
}

// SignatureSource is one place of signatures.
type SignatureSource struct {
	// From is header:<name>, header_seq:<prefix>-{1..n} (headers numbered from 1 without a gap, n at most 100),
	// query:<name>, json:<pointer> or form:<name> (a field of a body that is a form). For token the pointer may contain *
	// for every item of an array; each item must then be valid.
	From string `yaml:"from"`
	// Parse takes signatures out of the value; absent, the whole value is one signature.
	Parse SignatureParse `yaml:"parse"`
	// Encoding of each signature: hex, base64 or base64url. A token has none.
	Encoding string `yaml:"encoding"`
}

// SignatureParse extracts signatures from a value. At most one of its fields is given.
type SignatureParse struct {
	// Prefix precedes the only signature and is required, such as "sha256=".
	Prefix string `yaml:"prefix"`
	// KV reads pairs such as "t=1,v1=ab,v1=cd".
	KV *KVParse `yaml:"kv"`
	// List reads elements such as "v1,ab v1,cd".
	List *ListParse `yaml:"list"`
	// Path reads elements such as "key7/SHA256/ab".
	Path *PathParse `yaml:"path"`
}

// KVParse reads key-value pairs. Pairs with other keys are passed over.
type KVParse struct {
	PairSep string   `yaml:"pair_sep"`
	KVSep   string   `yaml:"kv_sep"`
	Keys    []string `yaml:"keys"`
}

// ListParse reads a list. Elements without Prefix are passed over. With a timestamp from sig:first the first element is
// the timestamp.
type ListParse struct {
	Sep    string `yaml:"sep"`
	Prefix string `yaml:"prefix"`
}

// PathParse reads elements of several fields. Elements of another number of fields are passed over.
type PathParse struct {
	// ListSep separates elements; empty if there is only one.
	ListSep string `yaml:"list_sep"`
	// Sep separates the fields of an element.
	Sep string `yaml:"sep"`
	// Fields define each position: signature, once; * for anything; or =text for exactly that text.
	Fields []string `yaml:"fields"`
}

// TimestampRule defines when a webhook was signed and how old it may be.
type TimestampRule struct {
	// From is header:<name>, sig:<key> (a pair of the signature's kv header), sig:first (the first element of its list),
	// json:<pointer> or form:<name>.
	From string `yaml:"from"`
	// Format is unix_s (ten digits), unix_ms (thirteen digits) or rfc3339. The number of digits is fixed, so that the
	// border between the timestamp and the next part under the signature cannot be moved.
	Format string `yaml:"format"`
	// MaxAgeS is the maximum age of a webhook in seconds, 1 to 86400; empty if the provider states no limit.
	MaxAgeS string `yaml:"max_age_s"`
	// MaxSkewS is the maximum number of seconds that a timestamp may be ahead of our clock, 1 to 86400; empty for no
	// limit.
	MaxSkewS string `yaml:"max_skew_s"`
	// Signed states whether the signature covers the timestamp. It must agree with Signed of the proof. Anyone who replays
	// a webhook can rewrite an unsigned timestamp, and the author of a definition must be aware of that.
	Signed bool `yaml:"signed"`
}
