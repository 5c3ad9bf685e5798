// Package requestsigning signs requests to providers in place: AWS Signature Version 4, OAuth 1.0a and HMAC over given
// content; and it signs JWT assertions. It sends nothing, stores nothing and knows no provider.
//
// After a signature the request is complete: host, path, query and body are those that were signed, and a change to one
// of them breaks the signature. No error of this package contains a key, a token or a part of the request.
package requestsigning

import "errors"

// The reasons for which nothing is signed, for errors.Is.
var (
	// ErrRequest: the request cannot be sent as it would be signed, for example because its query cannot be read.
	ErrRequest = errors.New("the request cannot be signed")
	// ErrSettings: the algorithm, the region, the header or another setting that is no secret has no usable value.
	ErrSettings = errors.New("the settings of the signature are not usable")
	// ErrKey: a credential is missing, cannot be read, or does not fit the algorithm.
	ErrKey = errors.New("the credentials of the signature are not usable")
)
