package ingest

import (
	"context"
	"net/http"
	"slices"
	"time"

	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/verification"
)

// Trial is what would become of a request, told to the operator of its connection. It holds no secret and no signature.
type Trial struct {
	// Refusal is why the request would be refused; nil when it would be taken.
	Refusal *verification.Refusal
	// Diagnosis is what Refusal goes back to, as far as trying tells.
	Diagnosis verification.Diagnosis
	// Handshake is the status with which a handshake would be answered; 0 for a delivery.
	Handshake int
	// Captures says that the handshake hands over a secret, and would be answered only while an enrolment waits for it.
	Captures bool
	// Result and Event are those of a delivery that would be taken.
	Result verification.Result
	Event  verification.Event
	// BodyWindow is how long the same body would be a repeat of a delivery without an id; 0 where it would be a further
	// event, and where an id decides.
	BodyWindow time.Duration
}

// Refusals that Receive answers with another status than the rest.
const reasonMethod verification.Reason = "method_not_allowed"

// Try does with a request what Receive does, in the same order, and neither stores nor answers anything. mostBody
// bounds the body beside what the connection and its provider's definition take, in bytes; window is how long bodies
// are compared where the connection says nothing. Where the request's RemoteIP is not known, nobody's networks are
// asked for.
func Try(ctx context.Context, in *connections.Inbound, r *verification.Request, mostBody int64,
	window time.Duration) Trial {
	refused := func(refusal *verification.Refusal) Trial {
		return Trial{Refusal: refusal, Diagnosis: in.Verifier.Diagnose(ctx, r, refusal)}
	}
	known := *r
	r = &known
	if !r.RemoteIP.IsValid() {
		if networks := in.Verifier.Networks(); len(networks) > 0 {
			r.RemoteIP = networks[0].Addr()
		}
	} else if refusal := checkSource(in, r.RemoteIP); refusal != nil {
		return refused(refusal)
	}
	if r.Method != http.MethodPost {
		r.Body = nil // a handshake by another method is its head
		if !slices.Contains(in.Verifier.HandshakeMethods(), r.Method) {
			return refused(&verification.Refusal{Reason: reasonMethod,
				Message: "The provider delivers its webhooks by POST, and sends no handshakes by this method."})
		}
	} else {
		if int64(len(r.Body)) > bodyLimit(in, mostBody) {
			return refused(&verification.Refusal{Reason: reasonTooLarge, Message: messageTooLarge})
		}
		if refusal := in.Verifier.Precheck(r.Header); refusal != nil {
			return refused(refusal)
		}
	}
	answer, refusal := in.Verifier.Handshake(ctx, r)
	switch {
	case refusal != nil:
		return refused(refusal)
	case answer != nil:
		return Trial{Handshake: answer.Status, Captures: answer.Capture != nil}
	case r.Method != http.MethodPost:
		return refused(&verification.Refusal{Reason: reasonNoHandshake, Message: messageNoHandshake})
	}
	result, refusal := in.Verifier.Verify(ctx, r)
	if refusal != nil {
		return refused(refusal)
	}
	trial := Trial{Result: result, Event: in.Verifier.Describe(r)}
	if trial.Event.ID == "" {
		trial.BodyWindow = bodyWindow(in, window)
	}
	return trial
}
