package signin

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
)

// Failed sign-ins are counted by account and by address. Beyond the free ones each makes the next wait, from one second
// doubling up to maxDelay; after forgetAfter without an attempt they are forgotten.
const (
	freeAccountFailures = 5
	freeAddressFailures = 20 // an address may be a whole office's
	firstDelay          = time.Second
	maxDelay            = 30 * time.Second
	forgetAfter         = 15 * time.Minute
)

// bucket counts the failed sign-ins of one account or one address.
type bucket struct {
	id   string
	free int64
}

// delay is how long after so many failures the next attempt has to wait.
func (b bucket) delay(failures int64) time.Duration {
	over := failures - b.free
	if over <= 0 {
		return 0
	}
	const doublings = 5 // 32 s, which is over maxDelay
	return min(maxDelay, firstDelay<<min(over-1, doublings))
}

// accountBucket is that of an e-mail address, which may have no account. An address that the user is known to sign in
// from has a count of its own, which strangers cannot raise, so that they cannot keep the user out. The typed text is
// not stored: it may be a password in the wrong field.
func accountBucket(pepper []byte, email, knownOrigin string) bucket {
	return bucket{id: bucketID(pepper, "account", email, knownOrigin), free: freeAccountFailures}
}

func addressBucket(pepper []byte, origin string) bucket {
	return bucket{id: bucketID(pepper, "address", origin), free: freeAddressFailures}
}

func bucketID(pepper []byte, parts ...string) string {
	m := hmac.New(sha256.New, pepper)
	m.Write([]byte("failed sign-ins"))
	for _, p := range parts {
		m.Write([]byte{0})
		m.Write([]byte(p))
	}
	return hex.EncodeToString(m.Sum(nil))
}

// throttle makes clients wait that fail too often.
type throttle struct {
	db     *db.DB
	clock  clock.Clock
	pepper installation.Pepper
	hasher *hasher
}

// Attempt is one check of a password, with the counts that it is counted in. At an address that the user is known to
// sign in from, that is the account's count for this address alone, so that others behind the address cannot lock the
// user out.
type Attempt struct {
	account bucket
	address *bucket
}

func (a Attempt) buckets() []bucket {
	if a.address == nil {
		return []bucket{a.account}
	}
	return []bucket{a.account, *a.address}
}

// newAttempt prepares an attempt for an e-mail address as it was typed. user is the id of the user with that address;
// empty for none.
func (t *throttle) newAttempt(ctx context.Context, user, email string, c access.Client) (Attempt, error) {
	origin := c.Origin()
	email = strings.ToLower(email)
	known, err := isKnownOrigin(ctx, t.db.Read(), user, origin)
	if err != nil {
		return Attempt{}, err
	}
	if known {
		return Attempt{account: accountBucket(t.pepper, email, origin)}, nil
	}
	address := addressBucket(t.pepper, origin)
	return Attempt{account: accountBucket(t.pepper, email, ""), address: &address}, nil
}

var errBackoff = errors.New("too many failed sign-ins of the account or from the address")

func errTooMany(wait time.Duration) error {
	return apperr.Wrap(apperr.CodeRateLimited, "Too many failed sign-ins; try again later", errBackoff).RetryIn(wait)
}

// checkPassword reports whether the password is the one behind the hash. The attempt is counted as a failure before the
// password is checked, so that many at a time are no more guesses than one after the other. A caller that finds the
// password right removes the count with forgiveAttempt. An attempt that has to wait costs one read. Any other is
// counted while it holds one of the places to compute in, so that strangers cannot make the database write faster than
// that.
func (t *throttle) checkPassword(ctx context.Context, a Attempt, hash passwordHash,
	password secretbox.Secret) (bool, error) {
	now := t.clock.Now()
	until, err := readBlocked(ctx, t.db.Read(), a)
	if err != nil {
		return false, err
	}
	if wait := clock.FromMillis(until).Sub(now); wait > 0 {
		return false, errTooMany(wait)
	}
	release, err := t.hasher.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	if err := t.countAttempt(ctx, a); err != nil {
		return false, err
	}
	return t.hasher.matches(hash, password), nil
}

// countAttempt counts the attempt in each of its buckets, or in none when one of them has to wait.
func (t *throttle) countAttempt(ctx context.Context, a Attempt) error {
	return t.db.Tx(ctx, func(tx *sql.Tx) error {
		now := t.clock.Now()
		for _, b := range a.buckets() {
			failures, ok, err := addFailure(ctx, tx, b.id, now)
			if err != nil {
				return err
			}
			if !ok {
				until, err := readBlocked(ctx, tx, a)
				if err != nil {
					return err
				}
				return errTooMany(max(clock.FromMillis(until).Sub(now), time.Millisecond))
			}
			if delay := b.delay(failures); delay > 0 {
				if err := blockUntil(ctx, tx, b.id, now.Add(delay)); err != nil {
					return err
				}
			}
		}
		return sweepFailures(ctx, t.db, tx, now)
	})
}

// forgiveAttempt removes the count of an attempt with the right password: the account's count is reset, and that of the
// address is reduced by one.
func forgiveAttempt(ctx context.Context, tx *sql.Tx, a Attempt) error {
	if err := forgetFailures(ctx, tx, a.account); err != nil {
		return err
	}
	if a.address == nil {
		return nil
	}
	return uncountFailure(ctx, tx, *a.address)
}
