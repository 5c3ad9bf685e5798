package verification

// MaxBodyBytes is the size of the largest body that the gateway accepts from any provider: 25 MiB.
const MaxBodyBytes int64 = 25 << 20

// Limits on what a request may make the engine do, and on what a declaration may ask for.
const (
	maxHeaderName  = 128
	maxHeaderNames = 4       // under which one header may come
	maxHeaderValue = 8 << 10 // bytes of one header or query value that is read
	maxSignatures  = 32      // elements of all places of signatures together, those passed over included
	maxPublic      = 8       // signatures that are checked with public keys, which costs far more than an HMAC
	maxSequence    = 100     // headers of one header_seq
	maxSecrets     = 16      // valid at the same time on one connection
	maxSecretBytes = 4 << 10
	minSecretBytes = 8 // of a symmetric key or token: fewer are guessed from one webhook
	maxIDBytes     = 512
	maxTypeBytes   = 256
	maxJSONDepth   = 512
	maxQueryBytes  = 8 << 10
	maxFormFields  = 1000    // of a form, empty ones included
	maxItems       = 100     // items of a body of which each is verified
	maxTokenItems  = 1000    // items of a body of which each carries the secret, which is compared and not computed
	maxBatch       = 100_000 // items of a batch
	maxBatchTypes  = 1000    // different types of one batch
	maxParams      = 32
	maxParamValue  = 1024
	maxLiteral     = 256 // bytes of a prefix
	maxEntries     = 64  // entries of one list of a declaration
	maxKnown       = 2000
	maxMapEntries  = 1024
	maxText        = 1024 // bytes of one text field of a declaration
	maxWindowS     = 24 * 60 * 60
	maxResponse    = 1024 // bytes of the body of a response, and of each of its headers
	maxChallenge   = 128
	maxProofs      = 8 // of one declaration
	maxProofDepth  = 3 // of any_of and all_of
	maxURLVariants = 4
)
