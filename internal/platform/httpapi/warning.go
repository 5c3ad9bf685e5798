package httpapi

// Warning points out a part of a valid request, or of a resource, that is probably not what was meant.
type Warning struct {
	// The location, for example `event_types[0]`, relative to the body of the request.
	Location string `json:"location" example:"event_types[0]"`
	// The name of the rule. `known_type`: the provider is not known to send an event of such a type. `signature_age`: the
	// provider's own signature expires before the last retry. `signature_replaced`: the provider's own signature has the
	// headers of the gateway's, and is left out. `signature_removed`: the provider's own signature is a value of the body
	// that is removed.
	Rule string `json:"rule" example:"known_type"`
	// A human-readable message.
	Message string `json:"message"`
}
