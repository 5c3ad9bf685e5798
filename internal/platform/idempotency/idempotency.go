// Package idempotency remembers what requests with an Idempotency-Key did and were answered, so that sending one again
// does nothing twice. It follows the draft of the IETF's HTTPAPI group (draft-ietf-httpapi-idempotency-key-header-07),
// with 422 for a key that comes with another request and 409 while the first is under way.
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
	// Lifetime is for how long a key is remembered, from its first request.
	Lifetime = 24 * time.Hour
	// Lease is after what time without an answer the process that began a request is taken for dead. It outlives every
	// operation.
	Lease = time.Minute
	// MaxAnswerBytes bounds the body of an answer that is kept.
	MaxAnswerBytes = 256 << 10
	// MaxKeyLength bounds a key, in bytes.
	MaxKeyLength = 255
)

// ValidKey reports whether a key has the form that is taken: 1 to MaxKeyLength printable ASCII characters, space
// included.
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

// Request is a request with a key: equal keys meet only where everything but Query and Body is equal too.
type Request struct {
	// Principal is who asks. Its environment is empty where the operation works on none.
	Principal access.Principal
	Method    string
	// Path is the path as it was sent.
	Path string
	Key  string
	// Query and Body must be the same when the request is sent again.
	Query string
	Body  []byte
}

// id is the row of the request's key.
func (r Request) id() string {
	return hex.EncodeToString(digest(string(r.Principal.Environment), string(r.Principal.Kind), r.Principal.ID, r.Method,
		r.Path, r.Key))
}

func (r Request) fingerprint() []byte { return digest(r.Query, string(r.Body)) }

// digest hashes the parts, each after its length, so that no two lists give the same bytes.
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

// Answer is what a request was answered.
type Answer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// Store keeps keys in the database. It is safe for concurrent use, also by several processes.
type Store struct {
	db    *db.DB
	box   *secretbox.Box
	clock clock.Clock
}

// Config is what a Store is made from.
type Config struct {
	DB  *db.DB
	Box *secretbox.Box
	// Clock is the database's on PostgreSQL, because several nodes go by it.
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

// errInProgress asks for a second's patience: most requests take less.
func errInProgress() error {
	return &apperr.Error{Code: apperr.CodeIdempotencyInProgress, RetryAfter: time.Second,
		Message: "The first request with this Idempotency-Key is still under way"}
}

func errOutcomeUnknown() error {
	return apperr.New(apperr.CodeIdempotencyOutcomeUnknown,
		"The first request with this Idempotency-Key took effect, but its answer is not there "+
			"to be given again; look for what it made before you send the request with another key")
}

// errLost says that somebody else has taken the key over.
var errLost = errors.New("the idempotency key has been taken over: this request took longer than its lease")

// Begin takes the request's key. It returns a Run when the request is to be carried out, or the answer to give again.
//
// Errors: idempotency_mismatch for a key that came with another request; idempotency_in_progress while the first one is
// under way; idempotency_outcome_unknown where it took effect and its answer was lost with its process, or was too
// large to keep.
func (s *Store) Begin(ctx context.Context, r Request) (*Run, *Answer, error) {
	run := &Run{store: s, id: r.id(), env: r.Principal.Environment, claim: id.NewUUID(), fingerprint: r.fingerprint()}
	// A key that is released between the two statements of a round is free in the next.
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
			answer, err := found.answer(run.fingerprint, s.clock.Now())
			return nil, answer, err
		}
	}
	return nil, nil, errInProgress()
}

// answer is what the row of another run says to a request with that fingerprint.
func (e entry) answer(fingerprint []byte, now time.Time) (*Answer, error) {
	switch {
	case subtle.ConstantTimeCompare(e.Fingerprint, fingerprint) != 1:
		return nil, errMismatch()
	case e.state == stateDone && e.Answer != nil:
		return e.Answer, nil
	case e.state == stateDone, e.state == stateEffected && e.leaseMillis <= clock.Millis(now):
		return nil, errOutcomeUnknown()
	default:
		return nil, errInProgress()
	}
}
