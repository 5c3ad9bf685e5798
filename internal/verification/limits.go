package verification

// Limits on what a request may make the engine do, and on what a declaration may ask for.
const (
	maxHeaderName  = 128
	maxHeaderValue = 8 << 10 // bytes of one header that is read
	maxSignatures  = 32      // elements of all signature headers together, those passed over included
	maxSecrets     = 16      // valid at once on one connection
	maxSecretBytes = 4 << 10
	maxIDBytes     = 512
	maxTypeBytes   = 256
	maxJSONDepth   = 512
	maxParams      = 32
	maxParamValue  = 256
	maxEntries     = 64 // entries of one list of a declaration
	maxMapEntries  = 1024
	maxText        = 1024 // bytes of one text field of a declaration
	maxWindowS     = 24 * 60 * 60
)
