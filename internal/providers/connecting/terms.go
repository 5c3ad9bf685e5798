package connecting

import (
	"fmt"
	"strings"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// Terms describe a link to make. A nil field has a default.
type Terms struct {
	// RedirectURL is where browsers go at the end: one of those of the environment. Empty for nowhere.
	RedirectURL string
	// State comes back with the browser.
	State string
	// Scopes are requested instead of those of the provider configuration or definition.
	Scopes []string
	// UserID is the member of the team whose connection it is to be, and who has to sign in; empty for anyone.
	UserID string
	// Lifetime is how long the link can be used; 0 for DefaultLifetime.
	Lifetime time.Duration
}

// Limits of terms, in bytes and items.
const (
	maxRedirectURL = 2048
	maxState       = 512
	maxScopes      = 100
	maxScope       = 255
)

// Check adds the errors that can be found without the database. Their locations are relative to the terms.
func (n *Terms) Check(v *apperr.Violations) {
	if n.Lifetime != 0 && (n.Lifetime < minLifetime || n.Lifetime > MaxLifetime) {
		v.Add("expires_in", "range", fmt.Sprintf("must be from %d to %d seconds", int(minLifetime.Seconds()),
			int(MaxLifetime.Seconds())))
	}
	if len(n.State) > maxState || strings.ContainsFunc(n.State, func(r rune) bool { return r < ' ' || r > '~' }) {
		v.Add("state", "pattern", fmt.Sprintf("must be at most %d printable ASCII characters", maxState))
	}
	if n.UserID != "" && !id.Is(id.PrefixUser, n.UserID) {
		v.Add("user_id", "pattern", "must be the id of a user")
	}
	if len(n.RedirectURL) > maxRedirectURL {
		v.Add("redirect_url", "max_length", fmt.Sprintf("must be at most %d bytes long", maxRedirectURL))
	}
	if len(n.Scopes) > maxScopes {
		v.Add("scopes", "max_items", fmt.Sprintf("must have at most %d items", maxScopes))
	}
	for i, scope := range n.Scopes {
		// RFC 6749, section 3.3.
		if scope == "" || len(scope) > maxScope || strings.ContainsFunc(scope, func(r rune) bool {
			return r <= ' ' || r == '"' || r == '\\' || r > '~'
		}) {
			v.Add(fmt.Sprintf("scopes[%d]", i), "pattern", "must be 1 to 255 printable ASCII characters without blanks, "+
				"quotes and backslashes")
		}
	}
}
