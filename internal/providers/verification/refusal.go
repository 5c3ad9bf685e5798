package verification

import (
	"fmt"
	"slices"
)

// Reason is the reason of a rejection. The set is closed.
type Reason string

// The reasons.
const (
	ReasonSecretMissing       Reason = "secret_missing"
	ReasonSignatureMissing    Reason = "signature_missing"
	ReasonSignatureMalformed  Reason = "signature_malformed"
	ReasonSignatureMismatch   Reason = "signature_mismatch"
	ReasonTimestampMissing    Reason = "timestamp_missing"
	ReasonTimestampMalformed  Reason = "timestamp_malformed"
	ReasonTimestampOutOfRange Reason = "timestamp_out_of_range"
	// ReasonHeaderMissing: a header that the signature covers, or that carries the webhook's id under it, is not there.
	ReasonHeaderMissing Reason = "header_missing"
	// ReasonHeaderMalformed: such a header, or the one with the webhook's id, occurs twice or cannot be used.
	ReasonHeaderMalformed Reason = "header_malformed"
	// ReasonBodyMalformed: the body does not have the form that the signed content is built from.
	ReasonBodyMalformed Reason = "body_malformed"
	// ReasonURLUnknown: the signature covers the URL, and the URL that the provider calls is not known.
	ReasonURLUnknown Reason = "url_unknown"
	// ReasonURLMalformed: the signature covers the URL, and the webhook's has something in it that the scheme cannot
	// carry.
	ReasonURLMalformed Reason = "url_malformed"
	// ReasonClaimRefused: a token is valid, but one of its claims has another value than the connection expects.
	ReasonClaimRefused Reason = "claim_refused"
	// ReasonAccountMismatch: the webhook comes from the provider, but from another account than the connection's.
	ReasonAccountMismatch Reason = "account_mismatch"
	// ReasonSourceRefused: the webhook comes from an address that is not one of the provider's.
	ReasonSourceRefused Reason = "source_refused"
	// ReasonHandshakeMalformed: a value that the response needs is missing in a handshake or not allowed.
	ReasonHandshakeMalformed Reason = "handshake_malformed"
	// ReasonHandshakeRefused: a value that the handshake must have, such as the verify token, is another one.
	ReasonHandshakeRefused Reason = "handshake_refused"
	// ReasonBatchTooLarge: the webhook is valid, and has more items or types than the gateway can match.
	ReasonBatchTooLarge Reason = "batch_too_large"
	// ReasonSample: the webhook is a sample that a gateway made and signed, and was sent on.
	ReasonSample Reason = "sample_forwarded"
	// ReasonKeysUnavailable: the provider's public keys cannot be fetched. It is unknown whether the webhook is valid, so
	// the response must make the provider send it again.
	ReasonKeysUnavailable Reason = "keys_unavailable"
)

// Refusal is the rejection of a webhook.
type Refusal struct {
	Reason Reason
	// Message names the fix, for the operator of the connection. It contains no secret, no signature and no value from the
	// request.
	Message string
}

// Error returns the reason and the message, so that a Refusal can travel as an error.
func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Message }

func reject(reason Reason, message string) *Refusal {
	return &Refusal{Reason: reason, Message: message}
}

func refuseNoSecret() *Refusal {
	return reject(ReasonSecretMissing,
		"The connection has no webhook secret, so nothing can be verified. Store the provider's secret on it.")
}

func refuseUnfit(reason Reason, place string) *Refusal {
	return reject(reason, "The "+place+
		" must occur once, within its length limits and without a separator inside a signed value.")
}

func refuseAbsent(src *source) *Refusal {
	return reject(ReasonHeaderMissing, "The "+src.place()+", which the signature covers, is missing.")
}

func refuseURL() *Refusal {
	return reject(ReasonURLMalformed,
		"The signature covers the URL, and its query is too long or contains a character that makes the end of the URL "+
			"ambiguous. Register the webhook URL as the connection shows it.")
}

func refuseBatch() *Refusal {
	return reject(ReasonBatchTooLarge, fmt.Sprintf(
		"The webhook has more than %d items or %d types. Let the provider send fewer of them in one request.", maxBatch,
		maxBatchTypes))
}

func refuseTooMany(src *source) *Refusal {
	return reject(ReasonSignatureMalformed, "The "+src.place()+" lists too many signatures.")
}

func refuseMismatch() *Refusal {
	return reject(ReasonSignatureMismatch, "No signature matches the body and a secret of this connection. "+
		"Check that the secret at the provider is the one stored here, and that nothing on the way rewrites the body.")
}

func (p *proof) refuseNoSignature() *Refusal {
	return reject(ReasonSignatureMissing, "The webhook has no signature: the "+p.signaturePlaces()+
		" is missing. Set a secret for this webhook at the provider.")
}

func (p *proof) refuseUnreadable() *Refusal {
	return reject(ReasonSignatureMalformed, "No signature of the expected form was found in the "+p.signaturePlaces()+
		". Check that the connection's provider and parameters are those of the sender.")
}

// rank orders reasons by how far a webhook got, so that the most specific of several rejections is returned.
func (r Reason) rank() int { return slices.Index(rankedReasons(), r) }

func rankedReasons() []Reason {
	return []Reason{
		ReasonSecretMissing, ReasonSignatureMissing, ReasonSignatureMalformed, ReasonTimestampMissing,
		ReasonTimestampMalformed, ReasonBodyMalformed, ReasonHeaderMissing, ReasonHeaderMalformed, ReasonURLUnknown,
		ReasonURLMalformed, ReasonSignatureMismatch, ReasonClaimRefused, ReasonTimestampOutOfRange, ReasonKeysUnavailable,
	}
}
