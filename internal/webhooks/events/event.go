// Package events stores the events, their payloads and idempotency keys, and the log of changes to events. See
// README.md.
package events

import (
	"time"

	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
)

// Status is the state of an event. It is a pure function of the event's counters; see StatusOf.
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

// Schema returns the schema with the statuses, for the API.
func (Status) Schema(oas.Registry) *oas.Schema { return oas.Enum(Statuses()) }

// Encoding is the form in which a body is shown. The stored bytes are exact in every case.
type Encoding string

// The encodings of a body.
const (
	JSON   Encoding = "json"
	Text   Encoding = "text"
	Base64 Encoding = "base64"
)

// OwnProvider is the provider of events that no provider has sent: published events, and the gateway's own.
const OwnProvider = "sallyport"

// OwnPrefix is the prefix of the types of the gateway's own events. They cannot be published.
const OwnPrefix = OwnProvider + "."

// Sources of the idempotency key of an event of OwnProvider.
const (
	// SourcePublisher: the publisher of the event provided the key.
	SourcePublisher = "api"
	// SourceEvent: the event has no key, and its uuid is used.
	SourceEvent = "event_uuid"
)

const (
	// SuspectSameBody marks an event whose body was received before, under another, unsigned id or without one. The event
	// itself may have none.
	SuspectSameBody = "same_body_new_id"
	// SuspectNewBody marks a duplicate whose body is another than that of its original.
	SuspectNewBody = "same_id_new_body"
)

// Event is a stored event without its payload.
type Event struct {
	UUID              string
	Environment       id.Environment
	ConnectionUUID    string
	ConnectionID      string
	Provider          string
	ProviderConfigKey string
	// Type is the first of Types if the request was a batch.
	Type string
	// Types holds the distinct types of a batch's items; nil if the request contained a single event.
	Types             []string
	Status            Status
	IdempotencyKey    string
	IdempotencySource string
	// DuplicateOf is the event that this one duplicates; nil if it is not a duplicate.
	DuplicateOf *string
	// Suspect is SuspectSameBody, SuspectNewBody or nil.
	Suspect *string
	// Control marks a provider's ping or confirmation, which is stored and never forwarded.
	Control bool
	// Verification is the JSON object {result, scheme, key_id}.
	Verification string
	ContentType  string
	BodySize     int64
	// Hops is the number of gateways that the event passed before this one.
	Hops int64
	// AttemptCount counts the recorded attempts over all deliveries.
	AttemptCount int64
	// DeliveryCount counts the deliveries, including those that a worker has yet to store.
	DeliveryCount int64
	// HeldCount counts the deliveries that are held.
	HeldCount int64
	// LastError is the JSON object of the last failed attempt, or nil.
	LastError  *string
	ReceivedAt time.Time
	UpdatedAt  time.Time
	// ForwardedAt is when the event first had the status forwarded.
	ForwardedAt *time.Time
	// ExpungedAt is when the payload was removed on request.
	ExpungedAt *time.Time
	// PayloadExpired is true if the payload is gone, so that it cannot be sent or shown. A duplicate never had one.
	PayloadExpired bool
	// PayloadExpiresAt is when the payload is or was removed; nil for a duplicate, and if the time is not known.
	PayloadExpiresAt *time.Time
	// ExpiresAt is when the event is removed.
	ExpiresAt time.Time
}

// KeyScope returns the scope in which the event's idempotency keys are unique: its connection, or its environment if it
// has none.
func (e *Event) KeyScope() string {
	if e.ConnectionUUID == "" {
		return string(e.Environment)
	}
	return e.ConnectionUUID
}

// AllTypes returns the types by which the event is matched.
func (e *Event) AllTypes() []string {
	if e.Types != nil {
		return e.Types
	}
	return []string{e.Type}
}

// Payload is the content of a provider's request.
type Payload struct {
	// Headers is a JSON object of lower-case names, with credentials and signatures redacted.
	Headers string
	// Signatures is a JSON object of those of Headers that contain a signature of the provider over Body, as they came;
	// empty if there are none. Only receivers of the raw webhook get them.
	Signatures string
	Body       []byte
	Encoding   Encoding
}

// Size is about how much memory the payload takes, in bytes.
func (p *Payload) Size() int { return len(p.Body) + len(p.Headers) + len(p.Signatures) }

// Counters counts an event's deliveries by state.
type Counters struct {
	Sending, Pending, RetryWait int64
	// HeldFailed counts deliveries held after a failed attempt of any generation, with no success since. Held counts the
	// other held ones.
	Held, HeldFailed           int64
	Dead, Succeeded, Cancelled int64
	// Attempted counts the deliveries that were ever attempted or have died.
	Attempted int64
}

// StatusOf returns the status that follows from the counters by the first rule that applies. The CASE expression of the
// counters' UPDATE is the same in SQL; a property test compares the two.
func StatusOf(c Counters) Status {
	switch {
	case c.Sending == 0 && c.Attempted == 0:
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

// Change is a change of one event's counters.
type Change struct {
	Environment id.Environment
	EventUUID   string
	Counters
	// Attempts counts the recorded attempts.
	Attempts int64
	// LastError is the JSON object of a failed attempt. Empty keeps the last one.
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
	c.Attempted += other.Attempted
	c.Attempts += other.Attempts
	if other.LastError != "" {
		c.LastError = other.LastError
	}
	if other.At.After(c.At) {
		c.At = other.At
	}
}
