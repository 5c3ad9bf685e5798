package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// Codes of Error, in addition to those of TargetError.
const (
	// CodeTimeout: a deadline passed, or a connection could not be made in time.
	CodeTimeout = "timeout"
	// CodeCanceled: the caller's context was cancelled.
	CodeCanceled = "canceled"
	// CodeDNSFailed: the name has no address, or no name server responded.
	CodeDNSFailed = "dns_failed"
	// CodeConnectionRefused: nothing listens at the address.
	CodeConnectionRefused = "connection_refused"
	// CodeConnectionReset: the peer closed the connection before its response was complete.
	CodeConnectionReset = "connection_reset"
	// CodeConnectFailed: no connection for another reason, such as no route.
	CodeConnectFailed = "connect_failed"
	// CodeTLSFailed: the TLS handshake failed, usually because of the certificate.
	CodeTLSFailed = "tls_failed"
	// CodeResponseInvalid: the response is not HTTP, has more than 64 KiB of headers, or switches to another protocol.
	CodeResponseInvalid = "response_invalid"
	// CodeResponseTooLarge: the response body is larger than Bounds.MaxResponseBytes. Do truncates it instead.
	CodeResponseTooLarge = "response_too_large"
	// CodeRequestInvalid: the request has a method, URL or header that cannot be sent.
	CodeRequestInvalid = "request_invalid"
	// CodeRequestBodyFailed: reading a streamed request body failed, or its length is not as announced. The Error wraps
	// the error of the body.
	CodeRequestBodyFailed = "request_body_failed"
)

// Error describes why an exchange failed. Message is a sentence of ours that contains neither URL nor address nor the
// text of an underlying error, so it may be stored and shown.
type Error struct {
	Code    string
	Message string
	Timings Timings
	// Permanent reports whether another attempt of the same request is bound to fail too.
	Permanent bool
	// BytesSent is false only if it is certain that no byte of the request was sent.
	BytesSent bool

	cause error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the error of the caller's own request body, which is the only one an Error wraps.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is the context error with the meaning of e.
func (e *Error) Is(target error) bool {
	return e.Code == CodeCanceled && target == context.Canceled ||
		e.Code == CodeTimeout && target == context.DeadlineExceeded
}

// Timeout reports whether a deadline passed. Users of http.Client ask for it by this name.
func (e *Error) Timeout() bool { return e.Code == CodeTimeout }

// newError returns an Error of this exchange.
func (x *exchange) newError(code string, sent bool) *Error {
	e := &Error{Code: code, Message: message(code), Timings: x.trace.timings(), BytesSent: sent,
		Permanent: code == CodeTargetRefused || code == CodeRequestInvalid}
	if code == CodeRequestBodyFailed {
		e.cause = x.upload.failed()
	}
	return e
}

// explain gives the message of an error that is more exact than that of its code.
func (x *exchange) explain(e *Error, cause error) *Error {
	if e.Code == CodeResponseInvalid && areHeadersTooLong(cause) {
		e.Message = "The headers of the target's response are larger than 64 KiB."
	}
	return e
}

// areHeadersTooLong recognises headers of a response above the limit. net/http exports no error for that, so its text
// is compared.
func areHeadersTooLong(err error) bool {
	if errors.Is(err, errHeadersTooLong) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "response headers exceeded") || strings.Contains(text, "response header list larger")
}

// message is the sentence for each code.
func message(code string) string {
	switch code {
	case CodeTimeout:
		return "The target did not complete its response in time."
	case CodeCanceled:
		return "The request was cancelled before its response was complete."
	case CodeDNSFailed:
		return "The target's name could not be resolved."
	case CodeConnectionRefused:
		return "The target refused the connection."
	case CodeConnectionReset:
		return "The target closed the connection before its response was complete."
	case CodeConnectFailed:
		return "No connection to the target could be made."
	case CodeTLSFailed:
		return "The TLS handshake with the target failed."
	case CodeTargetRefused:
		return messageTargetRefused
	case CodeRequestInvalid:
		return "The request has a method, URL or header that cannot be sent."
	case CodeRequestBodyFailed:
		return "The body of the request could not be read as announced."
	case CodeResponseTooLarge:
		return "The target's response is larger than the limit."
	default:
		return "The target's response is not valid HTTP."
	}
}

// phase is how far an exchange had come when it failed.
type phase int

const (
	phaseStart phase = iota
	phaseDial
	phaseTLS
	phaseConnected
	phaseResponse
)

// classify returns the code of a transport error. net/http has few typed errors, so the phase decides about the others.
func (x *exchange) classify(err error, at phase) string {
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.Is(x.parent.Err(), context.Canceled), x.ended.Load():
		return CodeCanceled
	case x.own.Err() != nil:
		return CodeTimeout
	case x.upload.failed() != nil:
		return CodeRequestBodyFailed
	case errors.Is(err, errRefused):
		return CodeTargetRefused
	case errors.As(err, &dns):
		return CodeDNSFailed
	case errors.As(err, &netErr) && netErr.Timeout():
		return CodeTimeout
	case at == phaseTLS || isTLS(err):
		return CodeTLSFailed
	case errors.Is(err, syscall.ECONNREFUSED):
		return CodeConnectionRefused
	case isReset(err):
		return CodeConnectionReset
	}
	switch at {
	case phaseStart:
		return CodeRequestInvalid
	case phaseDial:
		return CodeConnectFailed
	case phaseResponse:
		return CodeResponseInvalid
	case phaseTLS, phaseConnected:
	}
	return CodeConnectionReset
}

func isTLS(err error) bool {
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &cert) || errors.As(err, &record) || errors.As(err, &alert)
}

// isReset recognises every way in which a peer closes a connection. net/http does not export the error of an HTTP/2
// peer that resets a stream, so its text is compared.
func isReset(err error) bool {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, syscall.ECONNRESET,
		syscall.EPIPE, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	text := err.Error()
	return strings.Contains(text, "stream error:") || strings.Contains(text, "server closed idle connection")
}
