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

// Reasons of rejections beside those of verification.
const (
	reasonIncomplete = "body_incomplete"
	reasonTimeout    = "body_timeout"

	reasonTooLarge verification.Reason = "payload_too_large"
	// reasonNoHandshake: by a method that only handshakes use came something else.
	reasonNoHandshake verification.Reason = "handshake_unknown"
	// reasonNotEnrolled: a handshake brings a secret, and no enrolment is open.
	reasonNotEnrolled verification.Reason = "handshake_not_enrolled"
)

const (
	messageTooLarge = "The body is larger than the connection accepts. Raise webhook.max_body_bytes if such bodies " +
		"are wanted."
	messageNoHandshake = "The request is no handshake as the provider sends it: a value that marks one is missing, or " +
		"is another than the " +
		"connection's parameters say."
)

// Rejections keeps what was refused.
type Rejections interface {
	Note(r rejections.Rejection, fill func(*rejections.Rejection), diagnose func(context.Context) rejections.Diagnosis)
}

// refused turns a refusal into the answer, and notes it. The reason goes to the log and to those who may read the
// connection; to the caller only as far as it helps someone who holds no secret.
func (s *Service) refused(ctx context.Context, in *connections.Inbound, r *Request, req *verification.Request,
	refusal *verification.Refusal) error {
	obs.EventFrom(ctx).Add(slog.String("refusal", string(refusal.Reason)))
	s.note(in, r, req, string(refusal.Reason), refusal.Message, func(ctx context.Context) rejections.Diagnosis {
		d := in.Verifier.Diagnose(ctx, req, refusal)
		return rejections.Diagnosis{Code: string(d.Cause), Message: d.Message}
	})
	e := apperr.New(apperr.CodeSignatureInvalid, "The signature of the delivery does not verify")
	switch refusal.Reason {
	case verification.ReasonKeysUnavailable:
		// Nobody knows whether the delivery is good. The provider must send it again.
		return &apperr.Error{Code: apperr.CodeUnavailable, Message: "The provider's keys cannot be fetched now; try again",
			RetryAfter: 10 * time.Second}
	case verification.ReasonSignatureMissing:
		e = apperr.New(apperr.CodeSignatureMissing, "The delivery carries no signature")
	case verification.ReasonSourceRefused:
		e.Message = "The delivery comes from an address that the connection does not take deliveries from"
	case verification.ReasonHandshakeMalformed, reasonNotEnrolled:
		e.Message = "The handshake cannot be answered"
	default:
	}
	e.Status = in.Verifier.RejectStatus()
	return e
}

// unread notes a body that was not taken and returns err. What the service could not do now is no refusal.
func (s *Service) unread(in *connections.Inbound, r *Request, err error) error {
	var e *apperr.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == apperr.CodePayloadTooLarge:
		s.note(in, r, nil, string(reasonTooLarge), messageTooLarge, nil)
	case e.Code == apperr.CodeHTTP && e.Status == http.StatusBadRequest:
		s.note(in, r, nil, reasonIncomplete,
			"The body ended before its announced length: the sender broke off, or something between it and here did.", nil)
	case e.Code == apperr.CodeHTTP && e.Status == http.StatusRequestTimeout:
		s.note(in, r, nil, reasonTimeout, "The body did not arrive in time.", nil)
	}
	return err
}

// note keeps the refusal. req is nil where the body was not read.
func (s *Service) note(in *connections.Inbound, r *Request, req *verification.Request, reason, message string,
	diagnose func(context.Context) rejections.Diagnosis) {
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
		kept.Headers = storedHeaders(r.HTTP.Header, secretNames(r.HTTP.Header, in.Verifier.RedactHeaders()))
		if req != nil && !in.Unusable { // otherwise nobody knows what in it is secret
			kept.Body = in.Verifier.RedactBody(req)
		}
	}, diagnose)
}

// secretNames adds to names, in lower case, the headers whose name says that they hold a secret. What is refused may
// come from another provider than the connection's, whose definition does not know where that one puts its token.
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
