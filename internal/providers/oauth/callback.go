package oauth

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"sallyport/internal/platform/secretbox"
)

// ErrCallback means that a request to the redirect URI is not one of the protocol: a parameter is missing, occurs twice
// or is malformed.
var ErrCallback = errors.New("the request to the redirect URI is malformed")

// ErrIssuer means that the response came from another authorization server than the one that was asked (RFC 9207).
var ErrIssuer = errors.New("the response comes from another issuer")

// CallbackSpec is how a request to the redirect URI is read.
type CallbackSpec struct {
	// CodeParam is the provider's name of the parameter code, which is "code" if it is empty.
	CodeParam string
	// Metadata are further parameters to keep: name and parameter, such as realmId.
	Metadata map[string]string
}

// Callback is what a provider sent with a browser to the redirect URI. All of it is foreign input.
type Callback struct {
	Code  secretbox.Secret
	State secretbox.Secret
	// Issuer is the parameter iss, or empty.
	Issuer string
	// Metadata has those of CallbackSpec.Metadata that were sent: at most 1,024 bytes, without control characters.
	Metadata map[string]string
}

// AuthorizationError is the error with which a provider sent a browser back (RFC 6749, section 4.1.2.1).
type AuthorizationError struct {
	// Code is the provider's error code, or empty if it is malformed.
	Code string
	// Description is the provider's, printable and at most 300 characters. It is foreign input.
	Description string
}

// Error returns the words for a page.
func (e *AuthorizationError) Error() string { return e.Words() }

// Words says what happened, for the person in front of the page.
func (e *AuthorizationError) Words() string {
	var words string
	switch e.Code {
	case "access_denied":
		words = "Access was declined at the provider."
	case "invalid_scope":
		words = "The provider does not grant the permissions that were asked for."
	case "unauthorized_client", "unsupported_response_type", "invalid_request", "redirect_uri_mismatch":
		words = "The provider does not accept the request of this application. Its settings at the provider need a check."
	case "server_error", "temporarily_unavailable":
		words = "The provider has a problem at the moment. Start again in a few minutes."
	case "login_required", "interaction_required", "consent_required", "account_selection_required":
		words = "The provider needs you to sign in or to agree. Start again."
	default:
		words = "The provider returned an error."
		if e.Code != "" {
			words = "The provider returned the error " + e.Code + "."
		}
	}
	if e.Description != "" {
		words += " Its message: " + e.Description
	}
	return words
}

// ParseCallback reads the query of a request to the redirect URI. If the provider sent an error, the state and the
// issuer are returned with an *AuthorizationError, because they are checked in that case too.
func ParseCallback(spec CallbackSpec, query url.Values) (Callback, error) {
	name := spec.CodeParam
	if name == "" {
		name = "code"
	}
	for _, param := range slices.AppendSeq([]string{name, "state", "iss", "error", "error_description"},
		maps.Values(spec.Metadata)) {
		if len(query[param]) > 1 {
			return Callback{}, ErrCallback
		}
	}
	c := Callback{State: secretbox.Secret(query.Get("state")), Issuer: query.Get("iss"), Metadata: map[string]string{}}
	if !isVisible(c.State.Reveal(), maxToken) || c.Issuer != "" && !isVisible(c.Issuer, maxMetadata) {
		return Callback{}, ErrCallback
	}
	if query.Has("error") {
		return c, &AuthorizationError{Code: cleanCode(query.Get("error"), nil),
			Description: clean(query.Get("error_description"), maxDescription, nil)}
	}
	for field, param := range spec.Metadata {
		if value := query.Get(param); isPlain(value) {
			c.Metadata[field] = value
		}
	}
	c.Code = secretbox.Secret(query.Get(name))
	if !isVisible(c.Code.Reveal(), maxToken) {
		return Callback{}, ErrCallback
	}
	return c, nil
}

// CheckIssuer compares the iss of a response with the issuer that was asked (RFC 9207, section 2.4). It may be missing
// unless the issuer promises it. If no issuer is known, there is nothing to compare with.
func CheckIssuer(known, sent string, promised bool) error {
	if known == "" || sent == known || sent == "" && !promised {
		return nil
	}
	return ErrIssuer
}

// isPlain reports whether a foreign text can be stored and shown: not empty, bounded, and without control characters.
func isPlain(s string) bool {
	return s != "" && len(s) <= maxMetadata && strings.ToValidUTF8(s, "") == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
