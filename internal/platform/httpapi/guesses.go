package httpapi

import (
	"context"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
)

const (
	// maxGuesses limits the credentials that are looked up at the same time for addresses over their limit, and
	// maxGuessWait how long one waits for its turn.
	maxGuesses   = 2
	maxGuessWait = time.Second
)

// admitGuess waits until a credential that may be a guess may be looked up, and returns the function that ends the
// look-up. It returns immediately for an address within its limit. Beyond it the credentials of all addresses take
// turns, so that guesses keep only these turns busy, and the credential of someone else behind the address is still
// found. A credential that finds no turn is refused like other requests from the address. No look-up helps to guess:
// credentials have at least 128 random bits.
func (a *API) admitGuess(ctx context.Context) (end func(), err error) {
	if a.cfg.Limits.Limiter == nil {
		return func() {}, nil
	}
	bucket, limit := a.cfg.Limits.bucketOf(access.Principal{}, ClientAddr(ctx))
	wait := a.cfg.Limits.Limiter.Exhausted(bucket, limit)
	if wait == 0 {
		return func() {}, nil
	}
	end = func() { <-a.guesses }
	select {
	case a.guesses <- struct{}{}:
		return end, nil
	default:
	}
	timer := a.cfg.Clock.NewTimer(maxGuessWait)
	defer timer.Stop()
	select {
	case a.guesses <- struct{}{}:
		return end, nil
	case <-timer.C():
	case <-ctx.Done():
	}
	return nil, apperr.New(apperr.CodeRateLimited, tooManyMessage(bucket.Kind)).RetryIn(wait)
}
