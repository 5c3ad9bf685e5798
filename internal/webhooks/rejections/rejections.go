// Package rejections keeps the last requests that each connection rejected, with the reasons. See README.md.
package rejections

import (
	"time"

	"sallyport/internal/platform/id"
)

// Limits of what is kept.
const (
	// PerConnection is how many refused requests of a connection are kept; a further one pushes out the oldest.
	PerConnection = 200
	// PerAlias is how many more are kept that came by the connection's alias.
	PerAlias = 20
	// Lifetime is how long one is kept at most.
	Lifetime = 30 * 24 * time.Hour
	// MaxBody is how many bytes of a body are kept.
	MaxBody = 4 << 10
	// MaxHeaders is how many bytes of headers, as JSON, are kept; of a request with more, none.
	MaxHeaders = 16 << 10
	// MaxDiagnosed is the size in bytes up to which a request is diagnosed.
	MaxDiagnosed = 64 << 10
)

// Rejection is one refused request.
type Rejection struct {
	ID                string
	Environment       id.Environment
	ConnectionUUID    string
	ConnectionID      string
	Provider          string
	ProviderConfigKey string
	ReceivedAt        time.Time
	// Reason is a word for programs: one of verification's reasons, or what ingest refused the request for.
	Reason string
	// Message says it to people. It contains no secret and nothing from the request.
	Message string
	// Diagnosis is what a closer look found; its zero value where there was none or it found nothing.
	Diagnosis Diagnosis
	// ByAlias says that the request came by the connection's alias. Anybody can guess one, so the body is not kept.
	ByAlias  bool
	ClientIP string
	Method   string
	// Headers is a JSON object of lower-case names, credentials and signatures redacted.
	Headers string
	// Body holds the first MaxBody bytes.
	Body []byte
	// BodySize is the size in bytes of the whole body as far as it was read, or as it was announced.
	BodySize int64
	// Suppressed is how many further refusals of the connection were counted and not kept, up to the next one that was.
	Suppressed int64
}

// Diagnosis is the likely cause of a refusal.
type Diagnosis struct {
	// Code is a word for programs, for instance body_rewritten; empty where nothing was found.
	Code string
	// Message says what to look at. It contains no secret and no signature.
	Message string
}
