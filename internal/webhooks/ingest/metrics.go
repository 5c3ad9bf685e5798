package ingest

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/apperr"
)

// newRequests counts inbound requests and published events by outcome; outcomes lists the values.
func newRequests() *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_webhook_events_total",
		Help: "Inbound webhook requests by outcome."}, []string{"outcome"})
	for _, outcome := range outcomes() {
		c.WithLabelValues(outcome) // so that the first count is seen as growth
	}
	return c
}

// Outcomes of an inbound request, as the metric names them.
const (
	outcomeReceived    = "received"
	outcomeDuplicate   = "duplicate"
	outcomePublished   = "published"
	outcomeHandshake   = "handshake"
	outcomeRefused     = "refused"
	outcomeRateLimited = "rate_limited"
	// outcomeRefusalLimited is for requests of senders with too many refusals.
	outcomeRefusalLimited  = "refusal_limited"
	outcomeUnknown         = "unknown_connection"
	outcomeDisabled        = "connection_disabled"
	outcomeTooLarge        = "too_large"
	outcomeKeysUnavailable = "keys_unavailable"
	outcomeOverloaded      = "overloaded"
	// outcomeUnavailable is for errors of the service itself. An alert pages for it.
	outcomeUnavailable = "unavailable"
)

func outcomes() []string {
	return []string{outcomeReceived, outcomeDuplicate, outcomePublished, outcomeHandshake, outcomeRefused,
		outcomeRateLimited, outcomeRefusalLimited, outcomeUnknown, outcomeDisabled, outcomeTooLarge, outcomeKeysUnavailable,
		outcomeOverloaded, outcomeUnavailable}
}

func outcomeOf(r Receipt, err error) string {
	switch {
	case err == nil && r.EventUUID == "":
		return outcomeHandshake
	case err == nil && r.Duplicate:
		return outcomeDuplicate
	case err == nil:
		return outcomeReceived
	case apperr.Is(err, apperr.CodeNotFound):
		return outcomeUnknown
	case apperr.Is(err, apperr.CodeConnectionDisabled):
		return outcomeDisabled
	case apperr.Is(err, apperr.CodePayloadTooLarge):
		return outcomeTooLarge
	case errors.Is(err, errRefusals):
		return outcomeRefusalLimited
	case apperr.Is(err, apperr.CodeRateLimited):
		return outcomeRateLimited
	case apperr.Is(err, apperr.CodeSignatureMissing), apperr.Is(err, apperr.CodeSignatureInvalid),
		apperr.Is(err, apperr.CodeHandshakeRefused), apperr.Is(err, apperr.CodeHTTP):
		return outcomeRefused
	case errors.Is(err, errKeysUnavailable):
		return outcomeKeysUnavailable
	case errors.Is(err, errOverloaded), errors.Is(err, errFiltersBusy):
		return outcomeOverloaded
	default:
		return outcomeUnavailable
	}
}
