package ingest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/rejections"
)

// disabledOnly has one connection, which is disabled.
type disabledOnly struct{ Connections }

func (disabledOnly) Lookup(context.Context, string) (*connections.Inbound, error) {
	return &connections.Inbound{Connection: connections.Connection{Status: connections.Disabled}}, nil
}

type ignoredRejections struct{}

func (ignoredRejections) Note(rejections.Rejection, func(*rejections.Rejection),
	func(context.Context) rejections.Diagnosis) {
}

// The metric says "unavailable", for which an operator is paged and looks at the database, only when the service could
// not store an event. Every other error of Receive has an outcome of its own, also those that share its code.
func TestOutcomeOfEachError(t *testing.T) {
	t.Parallel()
	r := &Request{HTTP: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)}
	_, disabled := (&Service{conns: disabledOnly{}, clock: clock.System(), rejections: ignoredRejections{}}).receive(
		t.Context(), r)
	require.True(t, apperr.Is(disabled, apperr.CodeConnectionDisabled))
	noKeys := (&Service{clock: clock.System(), rejections: ignoredRejections{}}).rejectWebhook(t.Context(),
		&connections.Inbound{}, r, nil, &verification.Refusal{Reason: verification.ReasonKeysUnavailable})
	require.True(t, apperr.Is(noKeys, apperr.CodeUnavailable))

	seen := map[string]bool{outcomePublished: true} // Publish counts it
	for _, c := range []struct {
		outcome string
		receipt Receipt
		err     error
	}{
		{"received", Receipt{EventUUID: "an event"}, nil},
		{"duplicate", Receipt{EventUUID: "an event", Duplicate: true}, nil},
		{"handshake", Receipt{}, nil},
		{"unknown_connection", Receipt{}, apperr.NotFound("connection")},
		{"connection_disabled", Receipt{}, disabled},
		{"refused", Receipt{}, apperr.New(apperr.CodeSignatureMissing, "")},
		{"refused", Receipt{}, apperr.New(apperr.CodeSignatureInvalid, "")},
		{"refused", Receipt{}, apperr.New(apperr.CodeHandshakeRefused, "")},
		{"refused", Receipt{}, apperr.HTTP(http.StatusMethodNotAllowed, "")},
		{"too_large", Receipt{}, tooLarge()},
		{"rate_limited", Receipt{}, apperr.New(apperr.CodeRateLimited, "")},
		{"refusal_limited", Receipt{}, (&Service{}).tooManyRefusals(ratelimit.Decision{})},
		{"keys_unavailable", Receipt{}, noKeys},
		{"overloaded", Receipt{}, errOverloaded},
		{"overloaded", Receipt{}, errFiltersBusy},
		{"unavailable", Receipt{}, apperr.Unavailable(errStopped)},
		{"unavailable", Receipt{}, errors.New("the definition of the provider is gone")},
	} {
		require.Equal(t, c.outcome, outcomeOf(c.receipt, c.err), "%v", c.err)
		seen[c.outcome] = true
	}
	for _, outcome := range outcomes() {
		require.Contains(t, seen, outcome)
	}
	require.Len(t, outcomes(), len(seen), "an outcome that the metric does not begin with")
}
