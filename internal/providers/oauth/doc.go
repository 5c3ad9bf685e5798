// Package oauth is the protocol by which connections get tokens: OAuth 2.0 with the ways in which providers depart from
// it, OAuth 1.0a, GitHub Apps and logins that return a session. It makes the requests and reads the responses. It sends
// nothing, stores nothing and knows no provider.
//
// Responses are foreign input. They are read up to a limit, and what is taken from them is bounded and printable.
package oauth

import (
	"errors"
	"fmt"
)

// ErrSettings means that a request cannot be made of the given settings and credentials. The error names which of them,
// and never contains a credential or a URL.
var ErrSettings = errors.New("the settings of OAuth are not usable")

func unusable(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSettings}, args...)...)
}
