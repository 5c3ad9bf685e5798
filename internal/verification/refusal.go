package verification

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
