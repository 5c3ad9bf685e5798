package sso

import (
	"context"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// cacheFor is how long metadata and keys are used without a new request.
	cacheFor = 5 * time.Minute
	// keysAgain is how long keys are not requested again, although a token names an unknown one.
	keysAgain = 30 * time.Second
	// maxCached bounds the issuers that are kept.
	maxCached = 100
)

// published holds the documents that an issuer publishes.
type published struct {
	metadata metadata
	keys     []jose.JSONWebKey
}

// published returns what an issuer publishes, not older than age. It is kept, so that strangers who begin sign-ins do
// not cause a request each time.
func (s *Service) published(ctx context.Context, issuer string, age time.Duration) (published, *providerError) {
	p, err := s.issuers.Get(ctx, issuer, age)
	var f *providerError
	switch {
	case err == nil:
		return p, nil
	case errors.As(err, &f):
		return published{}, f
	default:
		return published{}, &providerError{Message: "The request ended before the identity provider responded.",
			Unreachable: true}
	}
}

// ask loads what an issuer publishes. Each exchange has a deadline of its own.
func (s *Service) ask(ctx context.Context, issuer string) (published, error) {
	m, f := s.peer.fetchMetadata(ctx, issuer)
	if f != nil {
		return published{}, f
	}
	keys, f := s.peer.fetchKeys(ctx, m.JWKSURI)
	if f != nil {
		return published{}, f
	}
	return published{metadata: m, keys: keys}, nil
}
