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

// respondHandshakeOnly responds to a request that carries no event: with any method but POST a provider only verifies
// the URL.
func (s *Service) respondHandshakeOnly(ctx context.Context, in *connections.Inbound, r *Request,
	req *verification.Request) (Receipt, error) {
	methods := in.Verifier.HandshakeMethods()
	if !slices.Contains(methods, r.HTTP.Method) {
		allow := append([]string{http.MethodPost}, slices.DeleteFunc(methods, func(m string) bool {
			return m == http.MethodPost
		})...)
		e := apperr.HTTP(http.StatusMethodNotAllowed, "The provider sends its webhooks by POST")
		e.Allow = strings.Join(allow, ", ")
		return Receipt{}, e
	}
	answer, err := s.respondHandshake(ctx, in, r, req)
	if answer == nil && err == nil {
		s.recordRejection(in, r, nil, string(reasonNoHandshake), messageNoHandshake, nil)
		err = apperr.HTTP(http.StatusBadRequest, "The request is not a handshake of the provider")
	}
	return Receipt{Response: answer}, err
}

// respondHandshake responds to a handshake. Both results are nil for a request that is not a handshake.
func (s *Service) respondHandshake(ctx context.Context, in *connections.Inbound, r *Request,
	req *verification.Request) (*verification.Response, error) {
	answer, refusal := in.Verifier.Handshake(ctx, req)
	if refusal != nil {
		return nil, s.rejectWebhook(ctx, in, r, req, refusal)
	}
	if answer == nil {
		return nil, nil
	}
	obs.LineFrom(ctx).Add(slog.Bool("handshake", true))
	if answer.Capture == nil {
		return answer, nil
	}
	switch err := s.conns.Capture(ctx, in, answer.Capture); {
	case errors.Is(err, connections.ErrNotEnrolled):
		return nil, s.rejectWebhook(ctx, in, r, req, &verification.Refusal{Reason: reasonNotEnrolled,
			Message: "A handshake carries a webhook secret, and " +
				"the connection expects none. Open a webhook enrolment on it, then let the provider send the handshake again."})
	case errors.Is(err, connections.ErrCaptureByAlias):
		return nil, s.rejectWebhook(ctx, in, r, req, &verification.Refusal{Reason: reasonNotEnrolled,
			Message: "A handshake carries a webhook secret to the " +
				"connection's alias, which strangers can guess. Register the connection's webhook_url at the provider, which " +
				"ends in its path token."})
	case errors.Is(err, connections.ErrUnfitSecret):
		return nil, s.rejectWebhook(ctx, in, r, req, &verification.Refusal{Reason: verification.ReasonHandshakeMalformed,
			Message: "A handshake carries a " +
				"webhook secret that does not have the provider's form."})
	case err != nil:
		return nil, apperr.Unavailable(err)
	}
	return answer, nil
}

// checkSource rejects a sender outside the networks that the connection allows.
func checkSource(in *connections.Inbound, address netip.Addr) *verification.Refusal {
	if len(in.Sources) == 0 {
		return nil
	}
	if clientaddr.In(address, in.Sources) {
		return nil
	}
	return &verification.Refusal{Reason: verification.ReasonSourceRefused,
		Message: "The request comes from an address outside the connection's " +
			"source_cidrs. If there is a proxy before the gateway, configure it as a trusted proxy."}
}
