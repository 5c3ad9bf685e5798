package identity

import (
	"context"
	"errors"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

// purpose parts the counts of what strangers may try: who fails at one thing does not wait at another.
type purpose string

const purposeSetup purpose = "set-up"

// addressAttempt is an attempt that counts against the client's address alone: what it needs is no guessable password,
// so that nothing is won by trying from many.
func addressAttempt(pepper []byte, what purpose, c access.Client) attempt {
	return attempt{account: bucket{id: bucketID(pepper, "address of "+string(what), c.Origin()),
		free: freeAddressFailures}}
}

// admit counts an attempt before anything is looked up for it, or refuses it with rate_limited. Whoever finds that it
// was right takes it back with forgive. It holds one of the places to compute in while it writes, as sign-ins do:
// strangers cannot make the database write faster than that.
func (s *Service) admit(ctx context.Context, a attempt) error {
	until, err := readBlocked(ctx, s.db.Read(), a)
	if err != nil {
		return err
	}
	if wait := clock.FromMillis(until).Sub(s.clock.Now()); wait > 0 {
		return tooManyAttempts(errTooMany(wait))
	}
	release, err := s.hasher.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return tooManyAttempts(s.charge(ctx, a))
}

// tooManyAttempts words the refusal for what is no sign-in.
func tooManyAttempts(err error) error {
	var e *apperr.Error
	if errors.As(err, &e) && e.Code == apperr.CodeRateLimited {
		return &apperr.Error{Code: e.Code, Message: "Too many attempts; try again later", RetryAfter: e.RetryAfter,
			Cause: e.Cause}
	}
	return err
}

// maxTokenBytesSent bounds a one-time token that a client sends. Ours are shorter; the configuration holds those of
// operators to it.
const maxTokenBytesSent = 256

// tokenFaults returns what is wrong with the form of a one-time token, at the location "token".
func tokenFaults(t secretbox.Secret) []apperr.Detail {
	if n := len(t.Reveal()); n < 1 || n > maxTokenBytesSent {
		return []apperr.Detail{{Location: "token", Rule: "length", Message: "must have 1 to 256 bytes"}}
	}
	return nil
}
