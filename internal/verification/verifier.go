package verification

import (
	"net/http"
	"time"
)

// Verifier verifies one connection's deliveries. It is immutable and safe for concurrent use.
type Verifier struct{}

// Request is one delivery.
type Request struct {
	Method string
	// Header has canonical keys, as net/http delivers them; others are not seen.
	Header http.Header
	// Body is the raw body, byte for byte.
	Body []byte
	// Now is when the delivery arrived.
	Now time.Time
}

// Result is how a delivery was proved.
type Result struct {
	// Scheme is the declaration's scheme.
	Scheme string
	// KeyID is the ID of the secret that matched.
	KeyID string
	// Verified is true when the sender was proved.
	Verified bool
}

// Event is what a delivery tells of itself.
type Event struct {
	// Type is 1 to 256 bytes of printable ASCII without spaces; "unknown" where none can be derived.
	Type string
	// ID is the provider's id of the delivery, at most 512 bytes of UTF-8; empty where there is none.
	ID string
	// IDSource is where ID stood, such as "header:x-github-delivery" or "json:/id"; empty without ID.
	IDSource string
	// IDSigned is true when the signature covers ID.
	IDSigned bool
	// Control is true for pings and confirmations, which are stored and not forwarded.
	Control bool
}

// Precheck refuses what Verify would refuse whatever the body is, before the body is read.
func (v *Verifier) Precheck(h http.Header) *Refusal {
	return &Refusal{Reason: ReasonSecretMissing}
}

// Verify proves the delivery or says why not.
func (v *Verifier) Verify(r *Request) (Result, *Refusal) {
	return Result{}, &Refusal{Reason: ReasonSecretMissing}
}

// Describe derives type and id. Call it after Verify.
func (v *Verifier) Describe(r *Request) Event { return Event{Type: "unknown"} }

// RedactHeaders returns the lower-case names of the headers whose values must not be stored.
func (v *Verifier) RedactHeaders() []string { return nil }
