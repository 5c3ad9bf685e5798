package verification

// BodyRule locates the JSON.
type BodyRule struct {
	// FormField is the field that contains the JSON if the body is a form (application/x-www-form-urlencoded), that is, if
	// it does not begin like JSON. The signature still covers the raw body.
	FormField string `yaml:"form_field"`
}

// EventRules derive an event's type and id.
type EventRules struct {
	// Type lists templates of {header:name}, {json:pointer}, {form:name} (a field of a body that is a form), {member:a,b}
	// (the first of these names that the body's object has as a member) and literals. The first template whose tokens all
	// have a value is used.
	Type []string `yaml:"type"`
	// ID lists sources, header:<name>, json:<pointer> or form:<name>. The first that has a value is used. Several sources
	// joined by " + " form one id, which exists if all have a value and only the last contains a space.
	ID []string `yaml:"id"`
	// OccurredAt is the provider's time of the event; nil if there is none.
	OccurredAt *OccurredAt `yaml:"occurred_at"`
	// Batch is set if one webhook carries several events; nil if none does. Type and ID describe a body without items.
	Batch *Batch `yaml:"batch"`
	// Map renames derived types, those of a batch's items too.
	Map map[string]string `yaml:"map"`
	// TypeSeparators are characters that the provider puts between the words of its types, such as "/". Each becomes a dot
	// in types that Map does not rename, and nothing at their ends.
	TypeSeparators string `yaml:"type_separators"`
	// Known lists the types that the provider is known to send, as it writes them, from its own documentation or packages;
	// an entry such as orders/* stands for a family of types. It decides nothing: a pattern of a subscription that none of
	// them fits is only pointed out. Empty if nothing is known.
	Known []string `yaml:"known"`
	// BodiesUnique states that the provider sends no two events with the same body, because each body contains an id or a
	// precise time of its event. A webhook without an id is then a duplicate of an earlier one with the same body.
	// Without it each webhook without an id is a new event: losing an event is worse than delivering one twice.
	BodiesUnique bool `yaml:"bodies_unique"`
	// Redact lists json:<pointer>, also with *, and form:<name> of values that must not be stored. Tokens that prove the
	// webhook are always redacted.
	Redact []string `yaml:"redact"`
}

// OccurredAt is the place of a time that nothing depends on.
type OccurredAt struct {
	// From is header:<name>, json:<pointer> or form:<name>.
	From string `yaml:"from"`
	// Format is unix_s, unix_ms or rfc3339.
	Format string `yaml:"format"`
}

// Batch describes the items of a body that carries several events.
type Batch struct {
	// When lists predicates on headers, query parameters and JSON values that must all be true for a batch; empty if the
	// items alone identify it.
	When []Predicate `yaml:"when"`
	// Items lists JSON pointers that end in *, such as "/*" for a body that is an array, or "/entry/*/changes/*". The
	// items of all of them are described. A missing array has none.
	Items []string `yaml:"items"`
	// Type lists templates of {item:pointer} (a value of the item), {item:} (the item itself), {item_member:a,b} (the
	// first of these names that the item has as a member), the tokens of EventRules.Type and literals. The first template
	// whose tokens all have a value is used.
	Type []string `yaml:"type"`
	// ID lists sources: item:<pointer>, or item: for the item itself, several with " + " between them. The first that has
	// a value is used. The batch's id is a hash of the ids of all items. There is none if an item has none.
	ID []string `yaml:"id"`
}

// Predicate is true if the source's value is one of Equals, or, with Present, if it has a value at all, or, with Empty,
// if it is an array without items. Exactly one of the three is given.
type Predicate struct {
	// From is header:<name>, query:<name>, json:<pointer> or form:<name>; for handshakes also method; for the claims of a
	// token jwt:<claim>.
	From    string   `yaml:"from"`
	Equals  []string `yaml:"equals"`
	Present bool     `yaml:"present"`
	// Empty is for json:<pointer> alone.
	Empty bool `yaml:"empty"`
}

// Handshake is a request by which a provider makes sure that the URL is ours. It gets a response and is not stored.
type Handshake struct {
	// When lists predicates that must all be true. One of them is on the method: GET, HEAD, POST or OPTIONS.
	When []Predicate `yaml:"when"`
	// Require lists predicates that must all be true for the handshake to get its response. A handshake that does not
	// meet them is rejected with 403: a predicate of When that is false makes a request something else. Values are
	// compared in constant time.
	Require []Predicate `yaml:"require"`
	// VerifyFirst rejects a handshake that the proof does not accept. It must be true if the provider signs its
	// handshakes.
	VerifyFirst bool `yaml:"verify_first"`
	// Capture extracts a secret from the handshake; nil if it has none.
	Capture *Capture `yaml:"capture"`
	// Respond is the response.
	Respond Respond `yaml:"respond"`
}

// Capture is a secret that the provider generates and sends once. The caller decides whether to store it.
type Capture struct {
	// From is header:<name>, query:<name>, json:<pointer> or form:<name>.
	From string `yaml:"from"`
	// Confirm is true if the operator has to confirm the secret at the provider before it is used.
	Confirm bool `yaml:"confirm"`
}

// Respond is the response to a handshake. Text may contain ${query:name}, ${header:name}, ${json:pointer} and
// ${form:name}, which echo a value, and ${hmac_hex(source)} and ${hmac_b64(source)}, the HMAC of a value under the key
// and hash of the declaration's hmac proof. Such a value must match [A-Za-z0-9_-]{1,128}, and a webhook whose signed
// content matches it is rejected: otherwise anyone who can request the response could have webhooks signed.
type Respond struct {
	// Status is 200, 201, 202 or 204.
	Status int `yaml:"status"`
	// ContentType is text/plain or application/json. Empty means text/plain if there is a body, and none otherwise. In
	// JSON the tokens are inside strings, and their values are escaped.
	ContentType string `yaml:"content_type"`
	// Headers are additional headers of the response.
	Headers map[string]string `yaml:"headers"`
	// Body is at most 1 KiB, including the inserted values.
	Body string `yaml:"body"`
}

// Ack is the response to an accepted webhook if the provider requires a specific one.
type Ack struct {
	// Status is 200, 201, 202 or 204.
	Status string `yaml:"status"`
	// ContentType is text/plain, text/xml or application/json. Empty means text/plain if there is a body, and none
	// otherwise.
	ContentType string `yaml:"content_type"`
	// Body is sent as it is, at most 1 KiB.
	Body string `yaml:"body"`
}
