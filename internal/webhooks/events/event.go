// Package events stores the events, their payloads and idempotency keys, and the log of changes to events. See README.md.
package events

import (
	"time"

	"sallyport/internal/platform/id"
)

// Status is where an event stands. It is a pure function of the event's counters; see StatusOf.
type Status string

// The statuses of an event.
const (
	Received   Status = "received"
	Forwarding Status = "forwarding"
	Forwarded  Status = "forwarded"
	Failed     Status = "failed"
	DeadLetter Status = "dead_letter"
)

// Statuses returns every status.
func Statuses() []Status { return []Status{Received, Forwarding, Forwarded, Failed, DeadLetter} }

// Encoding says how a body is shown: as JSON, as text, or in base64. The stored bytes are exact in every case.
type Encoding string

// The encodings of a body.
const (
	JSON   Encoding = "json"
	Text   Encoding = "text"
	Base64 Encoding = "base64"
)

// UnknownType is the type of an event whose type cannot be derived.
const UnknownType = "unknown"

// OwnProvider is the provider of events that no provider has sent: those that are published over the API, and the
// gateway's own.
const OwnProvider = "sallyport"

// OwnPrefix begins the types of the gateway's own events. Nobody can publish one.
const OwnPrefix = OwnProvider + "."

// Sources of the idempotency key of an event of OwnProvider.
const (
	// SourcePublisher: whoever published the event gave the key.
	SourcePublisher = "api"
	// SourceEvent: there is none, and the event's uuid stands for it.
	SourceEvent = "event_uuid"
)

// SuspectSameBody marks an event whose body came before under another, unsigned id.
const SuspectSameBody = "same_body_new_id"

// Event is a stored event without its payload.
type Event struct {
	UUID              string
	Environment       id.Environment
	ConnectionUUID    string
	ConnectionID      string
	Provider          string
	ProviderConfigKey string
	// Type is the first of Types where the delivery was a batch.
	Type string
	// Types are the different types of a batch's items; nil where the delivery told of one event.
	Types             []string
	Status            Status
	IdempotencyKey    string
	IdempotencySource string
	// DuplicateOf is the event that this one repeats; nil for an event of its own.
	DuplicateOf *string
	// Suspect is SuspectSameBody or nil.
	Suspect *string
	// Control marks a provider's ping or confirmation: stored, never forwarded.
	Control bool
	// Verification is the JSON object {result, scheme, key_id}.
	Verification string
	ContentType  string
	BodySize     int64
	// Hops is how many gateways the event passed before this one.
	Hops int64
	// AttemptCount is the number of tries recorded over all deliveries.
	AttemptCount int64
	// LastError is the JSON object of the last failed try, or nil.
	LastError  *string
	ReceivedAt time.Time
	UpdatedAt  time.Time
	// ForwardedAt is when the event first stood at forwarded.
	ForwardedAt *time.Time
	// ExpungedAt is when the payload was removed on request.
	ExpungedAt *time.Time
	// PayloadExpired says that the payload is gone: nothing can be sent or shown of it any more. A duplicate never had
	// one.
	PayloadExpired bool
	// PayloadExpiresAt is when the payload goes or went; nil for a duplicate, and where the time is not known.
	PayloadExpiresAt *time.Time
	// ExpiresAt is when the event goes.
	ExpiresAt time.Time
}

// KeyScope is what the event's idempotency keys are unique in: its connection or, where it has none, its environment.
func (e *Event) KeyScope() string {
	if e.ConnectionUUID == "" {
		return string(e.Environment)
	}
	return e.ConnectionUUID
}

// AllTypes are the types by which the event is matched.
func (e *Event) AllTypes() []string {
	if e.Types != nil {
		return e.Types
	}
	return []string{e.Type}
}

// Payload is what the provider sent.
type Payload struct {
	// Headers is a JSON object of lower-case names, credentials redacted.
	Headers  string
	Body     []byte
	Encoding Encoding
}

// Counters count an event's deliveries by where they stand.
type Counters struct {
	Sending, Pending, RetryWait int64
	// HeldFailed counts deliveries held after a failed try of whatever generation, with no success since; Held counts the
	// others that are held.
	Held, HeldFailed           int64
	Dead, Succeeded, Cancelled int64
	// Tried counts the deliveries that were ever tried or have died.
	Tried int64
}

// StatusOf returns the status that follows from the counters: the first rule that holds. The CASE expression of the
// counters' UPDATE says the same in SQL, and a property test holds the two together.
func StatusOf(c Counters) Status {
	switch {
	case c.Sending == 0 && c.Tried == 0:
		return Received
	case c.Sending > 0 || c.Pending > 0:
		return Forwarding
	case c.RetryWait > 0 || c.HeldFailed > 0:
		return Failed
	case c.Dead > 0:
		return DeadLetter
	case c.Succeeded > 0:
		return Forwarded
	default:
		return Failed
	}
}

// Change is what a transaction does to one event's counters.
type Change struct {
	Environment id.Environment
	EventUUID   string
	Counters
	// Attempts is how many tries were recorded.
	Attempts int64
	// LastError is the JSON object of a failed try; empty keeps the last one.
	LastError string
	At        time.Time
}

// Merge adds other to c. Both are about the same event.
func (c *Change) Merge(other Change) {
	c.Sending += other.Sending
	c.Pending += other.Pending
	c.RetryWait += other.RetryWait
	c.Held += other.Held
	c.HeldFailed += other.HeldFailed
	c.Dead += other.Dead
	c.Succeeded += other.Succeeded
	c.Cancelled += other.Cancelled
	c.Tried += other.Tried
	c.Attempts += other.Attempts
	if other.LastError != "" {
		c.LastError = other.LastError
	}
	if other.At.After(c.At) {
		c.At = other.At
	}
}
