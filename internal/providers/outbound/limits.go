package outbound

import "time"

// Limits on what a declaration may ask for, and on what a connection's settings and a response may make the engine do.
const (
	maxText        = 1024 // bytes of one text of a declaration
	maxTitle       = 80   // characters
	maxDescription = 300
	maxSetup       = 8 << 10
	maxEntries     = 64 // of one list or mapping of a declaration
	maxModes       = 16
	maxFields      = 32
	maxHosts       = 64
	maxBaseURLs    = 8
	maxConfigValue = 1024 // bytes
	maxCredential  = 16 << 10
	maxURL         = 2048
	maxHeaderValue = 8 << 10

	maxTemplate  = 2048 // bytes of a template
	maxParts     = 32   // of a template
	maxOperands  = 8    // that one argument concatenates
	maxJudged    = 1 << 20
	maxSearched  = 64 << 10 // bytes of a body in which a text is searched
	maxMessage   = 500      // bytes of a provider's message
	maxRequestID = 200
	maxAccount   = 200

	// maxWait limits a wait that a provider asks for. A longer one is an error of the provider, or a clock that is wrong.
	maxWait = 24 * time.Hour
	// maxLifetime limits times of a declaration.
	maxLifetime = 400 * 24 * time.Hour
)
