package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

const (
	saltBytes = 16
	hashBytes = 32
	// maxConcurrentHashes bounds the memory that sign-ins take: 19 MiB each.
	maxConcurrentHashes = 2
	// waitingHashes bounds the queue. A full queue is less than a second of work.
	waitingHashes = 32
)

// concurrentHashes is how many passwords are hashed at a time: on no more than half of the processors, so that password
// spraying does not delay events.
func concurrentHashes() int { return max(1, min(maxConcurrentHashes, runtime.GOMAXPROCS(0)/2)) }

// hashParams are Argon2id's costs (RFC 9106).
type hashParams struct {
	memoryKiB uint32
	passes    uint32
	lanes     uint8
}

// currentParams are the second of the equal choices that the OWASP Password Storage Cheat Sheet gives for Argon2id.
func currentParams() hashParams { return hashParams{memoryKiB: 19 * 1024, passes: 2, lanes: 1} }

// passwordHash is a parsed PHC string.
type passwordHash struct {
	params hashParams
	salt   []byte
	sum    []byte
}

// String is the PHC string format: $argon2id$v=19$m=…,t=…,p=…$salt$hash.
func (h passwordHash) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.params.memoryKiB, h.params.passes,
		h.params.lanes, b64.EncodeToString(h.salt), b64.EncodeToString(h.sum))
}

var errHashForm = errors.New("the stored password hash has an unknown form")

// parseHash reads what String wrote. Costs far over ours are refused, so that a damaged row cannot take the memory of
// the process.
func parseHash(s string) (passwordHash, error) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return passwordHash{}, errHashForm
	}
	var h passwordHash
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.params.memoryKiB, &h.params.passes,
		&h.params.lanes); err != nil || n != 3 {
		return passwordHash{}, errHashForm
	}
	if p := h.params; p.memoryKiB > 256*1024 || p.passes == 0 || p.passes > 16 || p.lanes == 0 {
		return passwordHash{}, errHashForm
	}
	var err error
	if h.salt, err = base64.RawStdEncoding.Strict().DecodeString(parts[4]); err != nil {
		return passwordHash{}, errHashForm
	}
	if h.sum, err = base64.RawStdEncoding.Strict().DecodeString(parts[5]); err != nil || len(h.sum) != hashBytes {
		return passwordHash{}, errHashForm
	}
	if h.String() != s {
		return passwordHash{}, errHashForm
	}
	return h, nil
}

// unknownUser is checked where there is no user, so that the response takes the same time. No password matches it,
// short of finding an input that Argon2id turns into zeros.
func unknownUser() passwordHash {
	return passwordHash{params: currentParams(), salt: make([]byte, saltBytes), sum: make([]byte, hashBytes)}
}

// hasher makes and checks password hashes, a bounded number at a time.
type hasher struct {
	running chan struct{}
	waiting chan struct{}
	// derive is argon2.IDKey. Tests count its runs: equal work is what makes responses take equal time.
	derive DeriveFunc
}

// DeriveFunc derives a key from a password, as argon2.IDKey does.
type DeriveFunc func(password, salt []byte, passes, memoryKiB uint32, lanes uint8, length uint32) []byte

func newHasher(derive DeriveFunc) *hasher {
	if derive == nil {
		derive = argon2.IDKey
	}
	return &hasher{running: make(chan struct{}, concurrentHashes()), waiting: make(chan struct{}, waitingHashes),
		derive: derive}
}

// hash returns a new PHC string of the password.
func (h *hasher) hash(ctx context.Context, password secretbox.Secret) (string, error) {
	p := passwordHash{params: currentParams(), salt: make([]byte, saltBytes)}
	// crypto/rand.Read never returns an error; it ends the program when the system has no entropy.
	_, _ = rand.Read(p.salt)
	release, err := h.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	p.sum = h.sum(p, password)
	return p.String(), nil
}

// verify reports whether the password is the one behind the hash, in a time that depends on the hash's costs alone.
func (h *hasher) verify(ctx context.Context, p passwordHash, password secretbox.Secret) (bool, error) {
	release, err := h.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	return h.matches(p, password), nil
}

// matches is verify for a caller who holds a place.
func (h *hasher) matches(p passwordHash, password secretbox.Secret) bool {
	return subtle.ConstantTimeCompare(h.sum(p, password), p.sum) == 1
}

// sum derives from the password in Unicode's form NFC, so that it is the same regardless of which keyboard composed its
// letters (RFC 8265, section 4.2).
func (h *hasher) sum(p passwordHash, password secretbox.Secret) []byte {
	return h.derive(norm.NFC.Bytes([]byte(password.Reveal())), p.salt, p.params.passes, p.params.memoryKiB,
		p.params.lanes, hashBytes)
}

// Turn waits for one of the few places that strangers who want to sign in share. Only the holder of a place makes the
// database write for them, so that permitted requests need not wait for strangers. It returns unavailable when many
// wait already.
func (s *Service) Turn(ctx context.Context) (release func(), err error) { return s.hasher.acquire(ctx) }

// Turns returns how many places Turn gives at a time.
func (s *Service) Turns() int { return cap(s.hasher.running) }

// acquire waits for a place. It fails immediately when the queue is full, and with ctx's error when that ends first.
func (h *hasher) acquire(ctx context.Context) (release func(), err error) {
	release = func() { <-h.running }
	select {
	case h.running <- struct{}{}:
		return release, nil
	default:
	}
	select {
	case h.waiting <- struct{}{}:
		defer func() { <-h.waiting }()
	default:
		return nil, apperr.New(apperr.CodeUnavailable, "Too many concurrent sign-ins; try again").RetryIn(2 * time.Second)
	}
	select {
	case h.running <- struct{}{}:
		return release, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to check a password: %w", ctx.Err())
	}
}
