package ingest

import (
	"context"
	"net/http"
	"slices"
	"time"

	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/verification"
)

// DryRunResult is the result that a request would have, for the operator of its connection. It holds no secret and no
// signature.
type DryRunResult struct {
	// Refusal is why the request would be rejected; nil if it would be accepted.
	Refusal *verification.Refusal
	// Diagnosis is the cause of Refusal, as far as it can be found.
	Diagnosis verification.Diagnosis
	// Handshake is the status code of the response to a handshake; 0 for a webhook.
	Handshake int
	// Captures is set when the handshake hands over a secret, and would succeed only while an enrolment waits for it.
	Captures bool
	// Result and Event are those of a webhook that would be accepted.
	Result verification.Result
	Event  verification.Event
	// BodyWindow is how long the same body would be a duplicate of a webhook without an id; 0 if it would be a further
	// event, and if an id decides.
	BodyWindow time.Duration
}

// Rejections to which Receive responds with a status code of their own.
const reasonMethod verification.Reason = "method_not_allowed"

// DryRun treats a request like Receive, in the same order, and neither stores anything nor responds. mostBody limits
// the body in addition to the connection and its provider's definition, in bytes; window is how long bodies are
// compared if the connection sets nothing. Without the request's RemoteIP, networks are not checked.
func DryRun(ctx context.Context, in *connections.Inbound, r *verification.Request, mostBody int64,
	window time.Duration) DryRunResult {
	refused := func(refusal *verification.Refusal) DryRunResult {
		return DryRunResult{Refusal: refusal, Diagnosis: in.Verifier.Diagnose(ctx, r, refusal)}
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
				Message: "The provider sends its webhooks by POST, and no handshakes by this method."})
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
		return DryRunResult{Handshake: answer.Status, Captures: answer.Capture != nil}
	case r.Method != http.MethodPost:
		return refused(&verification.Refusal{Reason: reasonNoHandshake, Message: messageNoHandshake})
	}
	result, refusal := in.Verifier.Verify(ctx, r)
	if refusal != nil {
		return refused(refusal)
	}
	event, refusal := in.Verifier.Describe(r)
	if refusal != nil {
		return refused(refusal)
	}
	trial := DryRunResult{Result: result, Event: event}
	if trial.Event.ID == "" {
		trial.BodyWindow, _ = in.Connection.Webhook.BodyWindows(in.Verifier, window)
	}
	return trial
}
