package verification

import "strings"

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
)

// Reasons returns every reason.
func Reasons() []Reason {
	return []Reason{
		ReasonSecretMissing, ReasonSignatureMissing, ReasonSignatureMalformed, ReasonSignatureMismatch,
		ReasonTimestampMissing, ReasonTimestampMalformed, ReasonTimestampOutOfRange,
		ReasonHeaderMissing, ReasonHeaderMalformed,
	}
}

// Refusal is why a delivery was refused.
type Refusal struct {
	Reason Reason
	// Message names what to fix, for the operator of the connection. It contains no secret, no signature and no value taken
	// from the request.
	Message string
}

// Error returns the reason and the message, so that a Refusal can travel as an error.
func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Message }

func refuse(reason Reason, message string) *Refusal {
	return &Refusal{Reason: reason, Message: message}
}

func refuseNoSecret() *Refusal {
	return refuse(ReasonSecretMissing, "The connection has no webhook secret, so nothing can be verified. Store the provider's secret on it.")
}

func refuseUnfit(reason Reason, header string) *Refusal {
	return refuse(reason, "The header "+header+" must stand once, within its limits of length and with no separator inside a signed value.")
}

func (p *plan) refuseNoSignature() *Refusal {
	return refuse(ReasonSignatureMissing, "The delivery has no signature: the header "+p.signatureHeaders()+
		" is missing. Set a secret for this webhook at the provider.")
}

// signatureHeaders names the headers in which signatures are looked for.
func (p *plan) signatureHeaders() string {
	names := make([]string, len(p.signatures))
	for i := range p.signatures {
		names[i] = p.signatures[i].header
	}
	return strings.Join(names, " or ")
}
