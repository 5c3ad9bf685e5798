// Package idempotency stores the responses to requests with an Idempotency-Key, so that a retried request takes effect
// only once. It follows draft-ietf-httpapi-idempotency-key-header-07, with 422 for a key that was used with another
// request and 409 while the first request is in progress.
package idempotency

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

const (
	// Lifetime is how long a key is kept, from its first request.
	Lifetime = 24 * time.Hour
	// Lease is the time after which a request without a response is considered abandoned by its process. It is longer than
	// any operation takes.
	Lease = time.Minute
	// MaxResponseBytes bounds the body of a stored response.
	MaxResponseBytes = 256 << 10
	// MaxKeyLength is the maximum length of a key in bytes.
	MaxKeyLength = 255
)

// ValidKey reports whether a key consists of 1 to MaxKeyLength printable ASCII characters, including spaces.
func ValidKey(key string) bool {
	if key == "" || len(key) > MaxKeyLength {
		return false
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

// Request is a request with a key. Two requests share a key only if all fields except Query and Body are equal.
type Request struct {
	// Principal is the caller. Its environment is empty if the operation works on none.
	Principal access.Principal
	Method    string
	// Path is the path as it was sent, without unescaping.
	Path string
	Key  string
	// Query and Body must be equal when the request is retried.
	Query string
	Body  []byte
}

// id returns the id of the key's row.
func (r Request) id() string {
	return hex.EncodeToString(digest(string(r.Principal.Environment), string(r.Principal.Kind), r.Principal.ID, r.Method,
		r.Path, r.Key))
}

func (r Request) fingerprint() []byte { return digest(r.Query, string(r.Body)) }

// digest hashes the parts, each after its length, so that different lists never hash the same bytes.
func digest(parts ...string) []byte {
	h := sha256.New()
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// Response is a response to a request.
type Response struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// Store stores keys and responses in the database. It is safe for concurrent use, also by several processes.
type Store struct {
	db    *db.DB
	box   *secretbox.Box
	clock clock.Clock
}

// Config configures a Store.
type Config struct {
	DB  *db.DB
	Box *secretbox.Box
	// Clock is the clock of the database on PostgreSQL, so that all nodes agree on the time.
	Clock clock.Clock
}

// New returns a Store.
func New(c Config) *Store { return &Store{db: c.DB, box: c.Box, clock: c.Clock} }

// SealedColumns lists the columns that a rotation of the keyset encrypts again.
func SealedColumns() []secretbox.Column {
	return []secretbox.Column{{Table: table, Column: recordColumn, IDColumn: "id"}}
}

func errMismatch() error {
	return apperr.New(apperr.CodeIdempotencyMismatch, "The Idempotency-Key was sent before with another body or query")
}

// errInProgress returns the error of a request in progress. Most requests finish within its Retry-After of a second.
func errInProgress() error {
	return apperr.New(apperr.CodeIdempotencyInProgress,
		"The first request with this Idempotency-Key is still in progress").RetryIn(time.Second)
}

func errOutcomeUnknown() error {
	return apperr.New(apperr.CodeIdempotencyOutcomeUnknown,
		"The first request with this Idempotency-Key took effect, but its response was not stored; "+
			"check its effect before you send the request with another key")
}

// errLost reports that another request has claimed the key.
var errLost = errors.New("another request has claimed the idempotency key: this request took longer than its lease")

// Begin claims the request's key. It returns a Run if the request must be executed, or the stored response.
//
// Errors: idempotency_mismatch for a key that was used with another request; idempotency_in_progress while the first
// request is in progress; idempotency_outcome_unknown if the first request took effect but its response was lost with
// its process or was too large to store; grant_denied and forbidden for a caller who has lost rights since the first
// request, because its response may show what they may no longer see.
func (s *Store) Begin(ctx context.Context, r Request) (*Run, *Response, error) {
	held, err := rightsOf(r.Principal)
	if err != nil {
		return nil, nil, err
	}
	run := &Run{store: s, id: r.id(), env: r.Principal.Environment, claim: id.NewUUID(), fingerprint: r.fingerprint(),
		rights: held}
	// If the key is released between the two statements of a round, the next round can claim it.
	for range 3 {
		claimed, err := s.claim(ctx, run)
		if err != nil {
			return nil, nil, err
		}
		if claimed {
			return run, nil, nil
		}
		found, ok, err := s.read(ctx, run.env, run.id)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			response, err := found.responseTo(run.fingerprint, r.Principal, s.clock.Now())
			return nil, response, err
		}
	}
	return nil, nil, errInProgress()
}

// responseTo returns the stored response to a request of the caller with the fingerprint.
func (e entry) responseTo(fingerprint []byte, p access.Principal, now time.Time) (*Response, error) {
	switch {
	case subtle.ConstantTimeCompare(e.Fingerprint, fingerprint) != 1:
		return nil, errMismatch()
	case e.state == stateDone && e.Response != nil:
		if err := e.Rights.check(p); err != nil {
			return nil, err
		}
		return e.Response, nil
	case e.state == stateDone, e.state == stateEffected && e.leaseMillis <= clock.Millis(now):
		return nil, errOutcomeUnknown()
	default:
		return nil, errInProgress()
	}
}
