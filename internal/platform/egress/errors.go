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

// Codes of Error, beside those of TargetError.
const (
	// CodeTimeout: the deadline over the whole exchange passed, or a connection could not be made in time.
	CodeTimeout = "timeout"
	// CodeCanceled: the caller's context was cancelled.
	CodeCanceled = "canceled"
	// CodeDNSFailed: the name has no address, or no name server answered.
	CodeDNSFailed = "dns_failed"
	// CodeConnectionRefused: nothing listens at the address.
	CodeConnectionRefused = "connection_refused"
	// CodeConnectionReset: the peer ended the connection before its answer was complete.
	CodeConnectionReset = "connection_reset"
	// CodeConnectFailed: no connection for another reason, such as no route.
	CodeConnectFailed = "connect_failed"
	// CodeTLSFailed: the TLS handshake failed, mostly over the certificate.
	CodeTLSFailed = "tls_failed"
	// CodeResponseInvalid: the answer is not HTTP, its headers are over 64 KiB, or it switches to another protocol.
	CodeResponseInvalid = "response_invalid"
	// CodeRequestInvalid: method, URL or a header cannot be sent.
	CodeRequestInvalid = "request_invalid"
)

// Error says why an exchange failed. Message is a sentence of ours that holds neither URL nor address nor the text of
// an underlying error, so it may be stored and shown.
type Error struct {
	Code    string
	Message string
	Timings Timings
	// Permanent is true when another try of the same request cannot do better.
	Permanent bool
	// BytesSent is false only when it is certain that no byte of the request has left. It is true in case of doubt.
	BytesSent bool
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// message is the sentence of each code.
func message(code string) string {
	switch code {
	case CodeTimeout:
		return "The target did not complete its answer in time."
	case CodeCanceled:
		return "The request was cancelled before its answer was complete."
	case CodeDNSFailed:
		return "The target's name could not be resolved."
	case CodeConnectionRefused:
		return "The target refused the connection."
	case CodeConnectionReset:
		return "The target closed the connection before its answer was complete."
	case CodeConnectFailed:
		return "No connection to the target could be made."
	case CodeTLSFailed:
		return "The TLS handshake with the target failed."
	case CodeTargetRefused:
		return messageTargetRefused
	case CodeRequestInvalid:
		return "The request has a method, URL or header that cannot be sent."
	default:
		return "The target's answer is not valid HTTP."
	}
}

// phase is how far an exchange had come when it failed.
type phase int

const (
	phaseStart phase = iota
	phaseDial
	phaseTLS
	phaseConnected
	phaseAnswering
)

// classify gives the code of a transport error. net/http has few typed errors, so what no type tells, the phase does.
func classify(parent, own context.Context, err error, at phase) string {
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.Is(parent.Err(), context.Canceled):
		return CodeCanceled
	case own.Err() != nil:
		return CodeTimeout
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
	case phaseAnswering:
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

// isReset recognises every way in which a peer goes away. An HTTP/2 peer that resets one stream is known only by the
// text, for net/http does not export the type.
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
