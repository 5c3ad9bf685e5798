package verification

// BodyRule says where the JSON is.
type BodyRule struct {
	// FormField is the field that holds the JSON when the body is a form (application/x-www-form-urlencoded), that is,
	// when it does not begin like JSON. The signature still covers the raw body.
	FormField string `yaml:"form_field"`
}

// EventRules derive an event's type and id.
type EventRules struct {
	// Type lists templates of {header:name}, {json:pointer}, {form:name} (a field of a body that is a form), {member:a,b}
	// (the first of these names that the body's object has as a member) and literals. The first whose tokens all have a
	// value decides.
	Type []string `yaml:"type"`
	// ID lists sources, header:<name>, json:<pointer> or form:<name>. The first that has a value decides. Several sources
	// with " + " between them are an id together, which there is where all have a value and none but the last has one with
	// a space in it.
	ID []string `yaml:"id"`
	// OccurredAt is when the event happened, as its provider says; nil where it does not say.
	OccurredAt *OccurredAt `yaml:"occurred_at"`
	// Batch is set where one delivery carries several events; nil where none does. A body without the items is described
	// by Type and ID.
	Batch *Batch `yaml:"batch"`
	// Map renames derived types, those of a batch's items too.
	Map map[string]string `yaml:"map"`
	// TypeSeparators are characters that the provider puts between the words of its types, such as "/". Each becomes a dot
	// in types that Map does not rename, and nothing at their ends.
	TypeSeparators string `yaml:"type_separators"`
	// BodyRepeats says that two events may have the same body, so that without an id nothing tells a repeat from a further
	// event.
	BodyRepeats bool `yaml:"body_repeats"`
	// Redact lists json:<pointer>, also with *, and form:<name> of values that must not be stored, besides tokens that
	// prove the delivery.
	Redact []string `yaml:"redact"`
}

// OccurredAt is where a time stands that nothing is decided by.
type OccurredAt struct {
	// From is header:<name>, json:<pointer> or form:<name>.
	From string `yaml:"from"`
	// Format is unix_s, unix_ms or rfc3339.
	Format string `yaml:"format"`
}

// Batch describes the items of a body that carries several events.
type Batch struct {
	// When lists predicates on headers, query parameters and JSON values that must all hold for the body to be a batch;
	// empty where the items alone tell.
	When []Predicate `yaml:"when"`
	// Items lists JSON pointers that end in *, such as "/*" for a body that is an array, or "/entry/*/changes/*". The
	// items of all of them are described, and an array that is not there has none.
	Items []string `yaml:"items"`
	// Type lists templates of {item:pointer} (a value of the item), {item:} (the item itself), {item_member:a,b} (the
	// first of these names that the item has as a member), the tokens of EventRules.Type and literals. The first whose
	// tokens all have a value decides.
	Type []string `yaml:"type"`
	// ID lists sources: item:<pointer>, or item: for the item itself, several with " + " between them. The first that has
	// a value decides. The batch's id is a hash of the ids of all items, and there is none where an item has none.
	ID []string `yaml:"id"`
}

// Predicate holds when the source's value is one of Equals, or, with Present, when it has a value at all, or, with
// Empty, when it is an array without items. Exactly one of the three is given.
type Predicate struct {
	// From is header:<name>, query:<name>, json:<pointer> or form:<name>; for handshakes also method; for the claims of a
	// token jwt:<claim>.
	From    string   `yaml:"from"`
	Equals  []string `yaml:"equals"`
	Present bool     `yaml:"present"`
	// Empty is for json:<pointer> alone.
	Empty bool `yaml:"empty"`
}

// Handshake is a request by which a provider makes sure that the URL is ours. It is answered and not stored.
type Handshake struct {
	// When must hold altogether. One of its predicates is on the method: GET, HEAD, POST or OPTIONS.
	When []Predicate `yaml:"when"`
	// VerifyFirst refuses a handshake that the proof does not accept. It must be true where the provider signs its
	// handshakes.
	VerifyFirst bool `yaml:"verify_first"`
	// Capture takes a secret out of the handshake; nil where there is none to take.
	Capture *Capture `yaml:"capture"`
	// Respond is the answer.
	Respond Respond `yaml:"respond"`
}

// Capture is a secret that the provider makes up and hands over once. Whether it is stored is the caller's to decide.
type Capture struct {
	// From is header:<name>, query:<name>, json:<pointer> or form:<name>.
	From string `yaml:"from"`
	// Confirm is true where the operator has to confirm the secret at the provider before it counts.
	Confirm bool `yaml:"confirm"`
}

// Respond is the answer to a handshake. Text may contain ${query:name}, ${header:name}, ${json:pointer} and
// ${form:name}, which echo a value, and ${hmac_hex(source)} and ${hmac_b64(source)}, the HMAC of a value under the key
// and hash of the declaration's hmac proof. Such a value must match [A-Za-z0-9_-]{1,128}, and no delivery whose signed
// content does is accepted: otherwise whoever can ask for the answer could have deliveries signed.
type Respond struct {
	// Status is 200, 201, 202 or 204.
	Status int `yaml:"status"`
	// ContentType is text/plain or application/json; empty means text/plain where there is a body, and none where there is
	// not. In JSON the tokens stand inside strings, and their values are escaped.
	ContentType string `yaml:"content_type"`
	// Headers are further headers of the answer.
	Headers map[string]string `yaml:"headers"`
	// Body is at most 1 KiB, with what is put into it.
	Body string `yaml:"body"`
}

// Ack is the answer to an accepted delivery where the provider wants one of its own.
type Ack struct {
	// Status is 200, 201, 202 or 204.
	Status string `yaml:"status"`
	// ContentType is text/plain, text/xml or application/json; empty means text/plain where there is a body, and none
	// where there is not.
	ContentType string `yaml:"content_type"`
	// Body is sent as it is, at most 1 KiB.
	Body string `yaml:"body"`
}
