// Package rejections keeps the last requests that each connection rejected, with the reasons. See README.md.
package rejections

import (
	"time"

	"sallyport/internal/platform/id"
)

// Limits of what is kept.
const (
	// PerConnection is the number of rejected requests that are kept per connection; a further one replaces the oldest.
	PerConnection = 200
	// PerAlias is the number of further ones that came by the connection's alias.
	PerAlias = 20
	// Lifetime is how long a rejection is kept at most.
	Lifetime = 30 * 24 * time.Hour
	// MaxBody is the number of bytes of a body that are kept.
	MaxBody = 4 << 10
	// MaxHeaders is the limit in bytes of the headers as JSON; of a request with more, none are kept.
	MaxHeaders = 16 << 10
	// MaxDiagnosed is the size in bytes up to which a request is diagnosed.
	MaxDiagnosed = 64 << 10
)

// Rejection is one rejected request.
type Rejection struct {
	ID                string
	Environment       id.Environment
	ConnectionUUID    string
	ConnectionID      string
	Provider          string
	ProviderConfigKey string
	ReceivedAt        time.Time
	// Reason is a word for programs: a reason of verification, or of ingest.
	Reason string
	// Message explains it to people. It contains no secret and nothing from the request.
	Message string
	// Diagnosis is the result of a diagnosis; its zero value if there was none or it found nothing.
	Diagnosis Diagnosis
	// ByAlias is set when the request came by the connection's alias, which anyone can guess.
	ByAlias  bool
	ClientIP string
	Method   string
	// Headers is a JSON object of lower-case names, with credentials and signatures redacted.
	Headers string
	// Body holds the first MaxBody bytes.
	Body []byte
	// BodySize is the size in bytes of the whole body, as far as it was read, or as it was announced.
	BodySize int64
	// Suppressed counts further rejections of the connection that were not kept, up to the next one that was.
	Suppressed int64
}

// Diagnosis is the likely cause of a rejection.
type Diagnosis struct {
	// Code is a word for programs, for example body_rewritten; empty if nothing was found.
	Code string
	// Message suggests what to check. It contains no secret and no signature.
	Message string
}
