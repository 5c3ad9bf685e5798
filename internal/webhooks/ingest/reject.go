package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/obs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/rejections"
)

// Reasons of rejections in addition to those of verification.
const (
	reasonIncomplete = "body_incomplete"
	reasonTimeout    = "body_timeout"
	reasonDisabled   = "connection_disabled"
	reasonRate       = "rate_limited"

	reasonTooLarge verification.Reason = "payload_too_large"
	// reasonNoHandshake: a request with a method that only handshakes use was not a handshake.
	reasonNoHandshake verification.Reason = "handshake_unknown"
	// reasonNotEnrolled: a handshake carries a secret, and no enrolment is open.
	reasonNotEnrolled verification.Reason = "handshake_not_enrolled"
)

const (
	messageTooLarge = "The body is larger than the connection accepts. Raise webhook.max_body_bytes if such bodies " +
		"are wanted."
	messageDisabled = "The connection is disabled and accepts no webhooks. Enable it, and have the provider send again " +
		"what it has not sent again by itself."
	messageRate = "The webhook is valid, and comes beyond the connection's limit. Raise " +
		"webhook.rate_limit_per_second, and have the provider send it again if it does not by itself."
	messageNoHandshake = "The request is not a handshake of the provider: a value that marks one is missing, or " +
		"differs from the connection's parameters."
)

// errKeysUnavailable is the error when a webhook cannot be verified because the provider's keys cannot be fetched.
//
//nolint:gochecknoglobals,errname // one value, so that the metric can recognise it
var errKeysUnavailable error = apperr.New(apperr.CodeUnavailable,
	"The provider's keys cannot be fetched now; try again").RetryIn(10 * time.Second)

// Rejections keeps rejected requests.
type Rejections interface {
	Note(r rejections.Rejection, fill func(*rejections.Rejection), diagnose func(context.Context) rejections.Diagnosis)
}

// rejectWebhook records a rejection and returns its error. The log and readers of the connection see the reason; the
// caller sees only what helps a sender without the secret.
func (s *Service) rejectWebhook(ctx context.Context, in *connections.Inbound, r *Request, req *verification.Request,
	refusal *verification.Refusal) error {
	obs.LineFrom(ctx).Add(slog.String("refusal", string(refusal.Reason)))
	s.recordRejection(in, r, req, string(refusal.Reason), refusal.Message, func(ctx context.Context) rejections.Diagnosis {
		d := in.Verifier.Diagnose(ctx, req, refusal)
		return rejections.Diagnosis{Code: string(d.Cause), Message: d.Message}
	})
	e := apperr.New(apperr.CodeSignatureInvalid, "The webhook could not be verified")
	switch refusal.Reason {
	case verification.ReasonKeysUnavailable:
		// The webhook could not be verified, so the provider must resend it.
		return errKeysUnavailable
	case verification.ReasonSignatureMissing:
		e = apperr.New(apperr.CodeSignatureMissing, "The webhook has no signature")
	case verification.ReasonSourceRefused:
		e.Message = "The webhook comes from an address from which the connection accepts no webhooks"
	case verification.ReasonHandshakeRefused:
		return apperr.New(apperr.CodeHandshakeRefused, "The handshake is rejected")
	case verification.ReasonBatchTooLarge:
		return apperr.New(apperr.CodePayloadTooLarge, "The webhook has too many items")
	case verification.ReasonHandshakeMalformed, reasonNotEnrolled:
		e.Message = "The handshake is rejected"
	default:
	}
	e.Status = in.Verifier.RejectStatus()
	return e
}

// rejectUnread records a body that was not accepted and returns err. Temporary errors of the service are not
// rejections.
func (s *Service) rejectUnread(in *connections.Inbound, r *Request, err error) error {
	var e *apperr.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == apperr.CodePayloadTooLarge:
		s.recordRejection(in, r, nil, string(reasonTooLarge), messageTooLarge, nil)
	case e.Code == apperr.CodeHTTP && e.Status == http.StatusBadRequest:
		s.recordRejection(in, r, nil, reasonIncomplete,
			"The body ended before its announced length: the sender, or a proxy on the way, closed the connection.", nil)
	case e.Code == apperr.CodeHTTP && e.Status == http.StatusRequestTimeout:
		s.recordRejection(in, r, nil, reasonTimeout, "The body did not arrive in time.", nil)
	}
	return err
}

// recordRejection keeps the rejection. req is nil if the body was not read.
func (s *Service) recordRejection(in *connections.Inbound, r *Request, req *verification.Request, reason,
	message string, diagnose func(context.Context) rejections.Diagnosis) {
	c := &in.Connection
	clientIP := ""
	if r.Address.IsValid() {
		clientIP = r.Address.Unmap().String()
	}
	size := max(r.HTTP.ContentLength, 0)
	if req != nil && req.Body != nil {
		size = int64(len(req.Body))
	}
	s.rejections.Note(rejections.Rejection{
		Environment: c.Environment, ConnectionUUID: c.UUID, ConnectionID: c.ConnectionID, Provider: c.Provider,
		ProviderConfigKey: c.ProviderConfigKey, ReceivedAt: s.clock.Now(), Reason: reason, Message: message,
		ByAlias: in.ByAlias, ClientIP: clientIP, Method: r.HTTP.Method, BodySize: size,
	}, func(kept *rejections.Rejection) {
		kept.Headers, _ = storedHeaders(r.HTTP.Header,
			&headerRules{secret: secretNames(r.HTTP.Header, in.Verifier.RedactHeaders())})
		if req != nil && !in.Unusable { // otherwise it is unknown which parts are secret
			kept.Body = in.Verifier.RedactBody(req)
		}
	}, diagnose)
}

// secretNames adds to names, in lower case, the headers whose name suggests a secret. A rejected request may come from
// another provider, whose secret headers the definition does not name.
func secretNames(h http.Header, names []string) []string {
	for name := range h {
		lower := strings.ToLower(name)
		for _, word := range []string{"auth", "cookie", "credential", "hmac", "key", "pass", "secret", "session", "sign",
			"token"} {
			if strings.Contains(lower, word) {
				names = append(names, lower)
				break
			}
		}
	}
	return names
}
