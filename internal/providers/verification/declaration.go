package verification

// Declaration is the webhooks section of a provider definition: how the provider proves its deliveries and what they
// tell of themselves. It is data; Compile turns it into an Engine or refuses it.
//
// Text fields may contain {param:name}, replaced by the connection's value of that parameter before the field is read.
// Where a whole source hangs on a parameter that was left empty (a text of a list, or an entry whose from mentions it),
// that entry is left out.
type Declaration struct {
	// Setup tells a person where in the provider's settings the webhook URL and the secret go. Markdown. Not interpreted.
	Setup string `yaml:"setup"`
	// Params are the values that each connection may set.
	Params []Param `yaml:"params"`
	// Proof is how a delivery proves its sender.
	Proof `yaml:",inline"`
	// Body says where the JSON is when the body as a whole is not JSON; nil where it always is.
	Body *BodyRule `yaml:"body"`
	// Event says how type and id are derived.
	Event EventRules `yaml:"event"`
	// Control marks the provider's pings and confirmations: a delivery that any predicate fits is acknowledged and stored
	// but not forwarded.
	Control []Predicate `yaml:"control"`
	// Account lists predicates that must all hold for a delivery to be this connection's. It is needed where the proof
	// shows only that the delivery comes from the provider's platform.
	Account []Predicate `yaml:"account"`
	// Handshake lists the provider's handshakes; the first that fits is answered.
	Handshake []Handshake `yaml:"handshake"`
	// Ack is the answer to accepted deliveries; nil for the gateway's own.
	Ack *Ack `yaml:"ack"`
	// RejectStatus is the status of refusals, 400 to 499; 0 for 401.
	RejectStatus int `yaml:"reject_status"`
	// MaxBody is the most bytes of a body that the provider sends, 1 to 26214400; 0 for no limit but the gateway's.
	MaxBody int64 `yaml:"max_body"`
	// SourceIPs lists the networks (CIDR) from which the provider sends; deliveries from elsewhere are refused. Empty for
	// any.
	SourceIPs []string `yaml:"source_ips"`
	// RedactHeaders names further headers whose value must not be stored, besides those that carry signatures or hand a
	// secret over.
	RedactHeaders []string `yaml:"redact_headers"`
}

// Param is one value that a connection may set. A parameter without Required has a default, which may be empty.
type Param struct {
	// Name is [a-z][a-z0-9_]{0,39}.
	Name string `yaml:"name"`
	// Description is one sentence for a person.
	Description string `yaml:"description"`
	// Enum lists the accepted values; exactly one of Enum and Pattern is given.
	Enum []string `yaml:"enum"`
	// Pattern is an RE2 expression that must match the whole value.
	Pattern string `yaml:"pattern"`
	// Default is used when the connection sets nothing. Empty means that the parameter is off.
	Default string `yaml:"default"`
	// Example is a value for documentation; mandatory with Pattern where Default is empty, and used to check the
	// declaration.
	Example string `yaml:"example"`
	// Required parameters have no default: without them no connection can be made.
	Required bool `yaml:"required"`
}

// Proof is one way in which a delivery proves its sender. A field that has no meaning with the scheme is refused.
type Proof struct {
	// Scheme is the kind of proof:
	//   - hmac: RFC 2104 over Signed;
	//   - keyed_hash: a plain hash over Signed, which contains {secret};
	//   - asymmetric: a signature over Signed that a public key verifies;
	//   - jwt: a JSON Web Token that comes with the delivery;
	//   - token: the secret itself, compared in constant time;
	//   - basic: the secret is "user:password" of RFC 7617;
	//   - none: nothing is proved, which the connection must accept expressly.
	Scheme string `yaml:"scheme"`
	// Algorithm is the hash under hmac and keyed_hash: sha1, sha256 or sha512; or how asymmetric verifies: ed25519 (RFC
	// 8032), ecdsa_p256_der or ecdsa_p256_raw (FIPS 186 with SHA-256; DER, or r and s of 32 bytes each), rsa_sha1 or
	// rsa_sha256 (PKCS #1 v1.5) or rsa_pss_sha256.
	Algorithm string `yaml:"algorithm"`
	// Secret says how the text that a person pastes becomes the key.
	Secret SecretFormat `yaml:"secret"`
	// Keys says where the public keys of asymmetric and jwt come from; nil means that the connection's secrets are the
	// keys.
	Keys *Keys `yaml:"keys"`
	// Signature lists where signatures, or for token the secret, stand; a delivery passes when any one of them is right.
	Signature []SignatureSource `yaml:"signature"`
	// Signed is the template of the bytes under the signature; README.md lists its tokens.
	Signed string `yaml:"signed"`
	// BodyUnsigned states that the proof does not cover the whole body. It must agree with the rest of the proof: whoever
	// gets hold of one such delivery can send any body with it, and the author of a definition has to have seen that.
	BodyUnsigned bool `yaml:"body_unsigned"`
	// Timestamp says when a delivery was signed and how old it may be; nil where the provider sends none.
	Timestamp *TimestampRule `yaml:"timestamp"`
	// BodyHash is where the signature covers a hash of the body; nil where it covers the body itself, or not at all.
	BodyHash *BodyHash `yaml:"body_hash"`
	// JWT says what the token of the scheme jwt must be.
	JWT *JWTRule `yaml:"jwt"`
	// URLVariants lists in which other forms the provider may have signed the URL: port (without the port that the URL
	// has, or with the scheme's own port where it has none) and no_query.
	URLVariants []string `yaml:"url_variants"`
	// AnyOf and AllOf combine proofs: any one of them, or all of them, have to pass. They stand instead of everything
	// above.
	AnyOf []Proof `yaml:"any_of"`
	AllOf []Proof `yaml:"all_of"`
}

// SecretFormat says how secret text becomes key bytes.
type SecretFormat struct {
	// Decode is utf8 (the text itself), hex, base64 (RFC 4648 section 4), whsec (Standard Webhooks: an optional whsec_
	// prefix before base64) or sha256 (the SHA-256 of the text).
	Decode string `yaml:"decode"`
}

// SignatureSource is one place where signatures stand.
type SignatureSource struct {
	// From is header:<name>, header_seq:<prefix>-{1..n} (headers numbered from 1 without a gap, n at most 100),
	// query:<name>, json:<pointer> or form:<name> (a field of a body that is a form). For token the pointer may contain *
	// for every item of an array; each item must then be right.
	From string `yaml:"from"`
	// Parse takes signatures out of the value; absent, the whole value is one signature.
	Parse SignatureParse `yaml:"parse"`
	// Encoding of each signature: hex, base64 or base64url. A token has none.
	Encoding string `yaml:"encoding"`
}

// SignatureParse takes signatures out of a value. At most one of its fields is given.
type SignatureParse struct {
	// Prefix stands before the only signature and is mandatory, such as "sha256=".
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

// ListParse reads a list. Elements without Prefix are passed over.
type ListParse struct {
	Sep    string `yaml:"sep"`
	Prefix string `yaml:"prefix"`
}

// PathParse reads elements of several fields. Elements of another number of fields are passed over.
type PathParse struct {
	// ListSep stands between elements; empty where there is one.
	ListSep string `yaml:"list_sep"`
	// Sep stands between the fields of an element.
	Sep string `yaml:"sep"`
	// Fields say what stands in each place: signature, once; * for anything; or =text for exactly that text.
	Fields []string `yaml:"fields"`
}

// TimestampRule says when a delivery was signed and how old it may be.
type TimestampRule struct {
	// From is header:<name>, sig:<key> (a pair of the signature's kv header), json:<pointer> or form:<name>.
	From string `yaml:"from"`
	// Format is unix_s (ten digits), unix_ms (thirteen digits) or rfc3339. The digits are counted so that the border
	// between the timestamp and what follows it under the signature cannot be moved.
	Format string `yaml:"format"`
	// MaxAgeS is how many seconds old a delivery may be, 1 to 86400; empty where the provider states no limit.
	MaxAgeS string `yaml:"max_age_s"`
	// MaxSkewS is how many seconds ahead of our clock a timestamp may be, 1 to 86400; empty for no limit.
	MaxSkewS string `yaml:"max_skew_s"`
	// Signed states whether the signature covers the timestamp. It must agree with Signed of the proof: an unsigned
	// timestamp can be rewritten by whoever replays a delivery, and the author of a definition has to have seen that.
	Signed bool `yaml:"signed"`
}
