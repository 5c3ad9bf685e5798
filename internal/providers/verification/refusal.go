package verification

import "slices"

// Reason is why a delivery was refused. The set is closed.
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
	// ReasonHeaderMissing: a header that the signature covers, or that carries the delivery's id under it, is not there.
	ReasonHeaderMissing Reason = "header_missing"
	// ReasonHeaderMalformed: such a header, or the one with the delivery's id, occurs twice or cannot be used.
	ReasonHeaderMalformed Reason = "header_malformed"
	// ReasonBodyMalformed: the body does not have the form that the signature's content is made from.
	ReasonBodyMalformed Reason = "body_malformed"
	// ReasonURLUnknown: the signature covers the URL, and the one that the provider calls is not known.
	ReasonURLUnknown Reason = "url_unknown"
	// ReasonURLMalformed: the signature covers the URL, and the delivery's has something in it that the scheme cannot
	// carry.
	ReasonURLMalformed Reason = "url_malformed"
	// ReasonClaimRefused: a token is right, and a claim of it is not what the connection expects.
	ReasonClaimRefused Reason = "claim_refused"
	// ReasonAccountMismatch: the delivery comes from the provider, but for another account than the connection's.
	ReasonAccountMismatch Reason = "account_mismatch"
	// ReasonSourceRefused: the delivery comes from an address that is none of the provider's.
	ReasonSourceRefused Reason = "source_refused"
	// ReasonHandshakeMalformed: a handshake lacks a value that the answer needs, or has one that must not be answered
	// with.
	ReasonHandshakeMalformed Reason = "handshake_malformed"
	// ReasonKeysUnavailable: the provider's public keys cannot be fetched. Whether the delivery is good is not known: the
	// answer must make the provider repeat it.
	ReasonKeysUnavailable Reason = "keys_unavailable"
)

// Refusal is why a delivery was refused.
type Refusal struct {
	Reason Reason
	// Message names what to fix, for the operator of the connection. It contains no secret, no signature and no value
	// taken from the request.
	Message string
}

// Error returns the reason and the message, so that a Refusal can travel as an error.
func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Message }

func refuse(reason Reason, message string) *Refusal {
	return &Refusal{Reason: reason, Message: message}
}

func refuseNoSecret() *Refusal {
	return refuse(ReasonSecretMissing,
		"The connection has no webhook secret, so nothing can be verified. Store the provider's secret on it.")
}

func refuseUnfit(reason Reason, place string) *Refusal {
	return refuse(reason, "The "+place+
		" must stand once, within its limits of length and with no separator inside a signed value.")
}

func refuseAbsent(src *source) *Refusal {
	return refuse(ReasonHeaderMissing, "The "+src.place()+", which the signature covers, is missing.")
}

func refuseURL() *Refusal {
	return refuse(ReasonURLMalformed,
		"The signature covers the URL, and its query is too long or contains a character that leaves open where the URL "+
			"ends. "+
			"Register the webhook URL as the connection shows it.")
}

func refuseTooMany(src *source) *Refusal {
	return refuse(ReasonSignatureMalformed, "The "+src.place()+" lists more signatures than are looked at.")
}

func refuseMismatch() *Refusal {
	return refuse(ReasonSignatureMismatch, "No signature matches the body and a secret of this connection. "+
		"Check that the secret at the provider is the one stored here, and that nothing on the way rewrites the body.")
}

func (p *proof) refuseNoSignature() *Refusal {
	return refuse(ReasonSignatureMissing, "The delivery has no signature: the "+p.signaturePlaces()+
		" is missing. Set a secret for this webhook at the provider.")
}

func (p *proof) refuseUnreadable() *Refusal {
	return refuse(ReasonSignatureMalformed, "No signature of the expected form was found in the "+p.signaturePlaces()+
		". Check that the connection's provider and parameters are those of the sender.")
}

// rank orders reasons by how far a delivery came, so that of several refusals the one that tells most is given.
func (r Reason) rank() int { return slices.Index(rankedReasons(), r) }

func rankedReasons() []Reason {
	return []Reason{
		ReasonSecretMissing, ReasonSignatureMissing, ReasonSignatureMalformed, ReasonTimestampMissing,
		ReasonTimestampMalformed, ReasonBodyMalformed, ReasonHeaderMissing, ReasonHeaderMalformed, ReasonURLUnknown,
		ReasonURLMalformed, ReasonSignatureMismatch, ReasonClaimRefused, ReasonTimestampOutOfRange, ReasonKeysUnavailable,
	}
}
