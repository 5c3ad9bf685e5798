package signin

import (
	"context"
	"database/sql"
	"errors"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

// Purpose separates the counts of attempts: a client that fails at one purpose does not wait at another.
type Purpose string

// addressAttempt is an attempt that counts against the client's address alone: it needs no guessable password, so that
// many addresses give no advantage.
func addressAttempt(pepper []byte, what Purpose, c access.Client) Attempt {
	return Attempt{account: bucket{id: bucketID(pepper, "address of "+string(what), c.Origin()),
		free: freeAddressFailures}}
}

// Admit counts an attempt against the client's address, before anything is looked up for it, or returns rate_limited.
// Forgive withdraws an attempt that turns out to be right.
func (s *Service) Admit(ctx context.Context, what Purpose, c access.Client) (Attempt, error) {
	a := addressAttempt(s.pepper, what, c)
	return a, s.throttle.admitAttempt(ctx, a)
}

// Forgive withdraws, in tx, an attempt that turned out to be right.
func Forgive(ctx context.Context, tx *sql.Tx, a Attempt) error { return forgiveAttempt(ctx, tx, a) }

// admitAttempt counts an attempt before anything is looked up for it. It holds one of the places to compute in while it
// writes, as sign-ins do: strangers cannot make the database write faster than that.
func (t *throttle) admitAttempt(ctx context.Context, a Attempt) error {
	until, err := readBlocked(ctx, t.db.Read(), a)
	if err != nil {
		return err
	}
	if wait := clock.FromMillis(until).Sub(t.clock.Now()); wait > 0 {
		return tooManyAttempts(errTooMany(wait))
	}
	release, err := t.hasher.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return tooManyAttempts(t.countAttempt(ctx, a))
}

// tooManyAttempts words the refusal for what is no sign-in.
func tooManyAttempts(err error) error {
	var e *apperr.Error
	if errors.As(err, &e) && e.Code == apperr.CodeRateLimited {
		return apperr.Wrap(e.Code, "Too many attempts; try again later", e.Cause).RetryIn(e.RetryAfter)
	}
	return err
}

// maxTokenBytesSent bounds a one-time token that a client sends. Ours are shorter; the configuration holds those of
// operators to it.
const maxTokenBytesSent = 256

// TokenViolations returns what is wrong with the form of a one-time token, at the location "token".
func TokenViolations(t secretbox.Secret) []apperr.Detail {
	if n := len(t.Reveal()); n < 1 || n > maxTokenBytesSent {
		return []apperr.Detail{{Location: "token", Rule: "length", Message: "must have 1 to 256 bytes"}}
	}
	return nil
}
