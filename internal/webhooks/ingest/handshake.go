package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/obs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/verification"
)

// handshakeOnly answers a request that brings no delivery: by every method but POST a provider only makes sure that the
// URL is ours.
func (s *Service) handshakeOnly(ctx context.Context, in *connections.Inbound, r *Request,
	req *verification.Request) (Receipt, error) {
	methods := in.Verifier.HandshakeMethods()
	if !slices.Contains(methods, r.HTTP.Method) {
		allow := append([]string{http.MethodPost}, slices.DeleteFunc(methods, func(m string) bool {
			return m == http.MethodPost
		})...)
		e := apperr.HTTP(http.StatusMethodNotAllowed, "The provider delivers its webhooks by POST")
		e.Allow = strings.Join(allow, ", ")
		return Receipt{}, e
	}
	answer, err := s.handshake(ctx, in, r, req)
	if answer == nil && err == nil {
		s.note(in, r, nil, string(reasonNoHandshake), messageNoHandshake, nil)
		err = apperr.HTTP(http.StatusBadRequest, "The request is no handshake of the provider")
	}
	return Receipt{Answer: answer}, err
}

// handshake answers a handshake. Both results are nil for a request that is none.
func (s *Service) handshake(ctx context.Context, in *connections.Inbound, r *Request,
	req *verification.Request) (*verification.Response, error) {
	answer, refusal := in.Verifier.Handshake(ctx, req)
	if refusal != nil {
		return nil, s.refused(ctx, in, r, req, refusal)
	}
	if answer == nil {
		return nil, nil
	}
	obs.EventFrom(ctx).Add(slog.Bool("handshake", true))
	if answer.Capture == nil {
		return answer, nil
	}
	switch err := s.conns.Capture(ctx, in, answer.Capture); {
	case errors.Is(err, connections.ErrNotEnrolled):
		return nil, s.refused(ctx, in, r, req, &verification.Refusal{Reason: reasonNotEnrolled,
			Message: "A handshake brought a webhook secret, and " +
				"the connection waits for none. Open a webhook enrolment on it, then let the provider send the handshake again."})
	case errors.Is(err, connections.ErrCaptureByAlias):
		return nil, s.refused(ctx, in, r, req, &verification.Refusal{Reason: reasonNotEnrolled,
			Message: "A handshake brought a webhook secret by the " +
				"connection's alias, which strangers can guess. Register the connection's webhook_url at the provider, which " +
				"ends in its path token."})
	case errors.Is(err, connections.ErrUnfitSecret):
		return nil, s.refused(ctx, in, r, req, &verification.Refusal{Reason: verification.ReasonHandshakeMalformed,
			Message: "A handshake brought a " +
				"webhook secret that does not have the provider's form."})
	case err != nil:
		return nil, apperr.Unavailable(err)
	}
	return answer, nil
}

// checkSource refuses a sender outside the networks that the connection names.
func checkSource(in *connections.Inbound, address netip.Addr) *verification.Refusal {
	if len(in.Sources) == 0 {
		return nil
	}
	if clientaddr.In(address, in.Sources) {
		return nil
	}
	return &verification.Refusal{Reason: verification.ReasonSourceRefused,
		Message: "The request comes from an address outside the connection's " +
			"source_cidrs. Where a proxy stands before the gateway it must be named as a trusted one."}
}
