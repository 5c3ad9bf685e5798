// Package connecting owns the links under which a person connects an account to a connection: what their pages show and
// accept, the way to a provider and back, and what follows. See README.md.
package connecting

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/registry"
)

// Limits of links.
const (
	// DefaultLifetime, minLifetime and MaxLifetime are how long a link can be used.
	DefaultLifetime = 30 * time.Minute
	minLifetime     = time.Minute
	MaxLifetime     = 24 * time.Hour
	// pendingLifetime is how long a connection waits that no one has connected, since its last link.
	pendingLifetime = 7 * 24 * time.Hour
	// flowLifetime is how long a browser may stay at the provider.
	flowLifetime = 10 * time.Minute
	// maxAttempts is how often a link can be submitted. Each time the provider gets requests.
	maxAttempts = 20
)

// Made is a link. Its URL is shown once.
type Made struct {
	Connection connections.Connection
	URL        secretbox.Secret
	ExpiresAt  time.Time
	// Modes are the ways to connect, in the order of the provider's definition.
	Modes []ModeOffer
}

// ModeOffer is a mode of a provider's definition with which a person could connect.
type ModeOffer struct {
	AuthMode, Title string
	// Offered is false if the mode needs an OAuth client that the provider configuration does not have. The page leaves
	// it out then.
	Offered bool
}

// link is a stored link.
type link struct {
	id                string
	tokenHash         []byte
	connectionUUID    string
	environment       id.Environment
	team              id.Team
	providerConfigKey string
	connectionID      string
	// mode is the only one that can be chosen; empty for any.
	mode string
	// modes are what a link offers that is made now. They are not stored.
	modes []ModeOffer
	// clientID is the OAuth client for which the link was made.
	clientID    string
	redirectURL string
	state       string
	// scopes are nil where the configuration decides.
	scopes []string
	// browserHash is of the cookie of the browser that has begun; nil before.
	browserHash []byte
	// signedInMillis is when the owner of the connection has signed in there; 0 before.
	signedInMillis int64
	attempts       int64
	connected      bool
	// credentialsMillis is when the credentials that the connection had were given: 0 without any, and negative if that is
	// not known.
	credentialsMillis int64
	// returned is the state with which a browser came back last, as the id of a flow.
	returned  string
	createdAt time.Time
	expiresAt time.Time
	// unstored is true of a standing link that has no row yet.
	unstored bool
}

// Problem says in words why a page cannot go on. The words are for people and have no secret.
type Problem struct {
	// Code is what the redirect URL gets as error.
	Code string
	// Title is the heading; empty for that of a failure.
	Title string
	// Words are sentences. Quote is the provider's message, if it sent one: foreign input.
	Words, Quote string
	// Retry is true if the link can be used for another attempt, and Again is the path of its page then, if it is known.
	Retry bool
	Again string
	// Back is where the browser goes at the end; empty for nowhere.
	Back string
}

// Error implements error.
func (p *Problem) Error() string { return p.Code + ": " + p.Words }

// The codes that the redirect URL gets as error.
const (
	codeDeclined        = "access_denied"
	codeMismatch        = "account_mismatch"
	codeCredentials     = "invalid_credentials" //nolint:gosec // a code
	codeProvider        = "provider_error"
	codeClient          = "client_refused"
	codeMisconfigured   = "misconfigured"
	codeUnavailable     = "provider_unavailable"
	codeSettingsChanged = "settings_changed"
	// codeLink is of problems of links themselves, which lead nowhere.
	codeLink = "link"
)

// Page is what a link shows.
type Page struct {
	// Team and Provider are names for people, which the team chooses. Definition is the name that the provider has in its
	// definition; empty if it is the same.
	Team, Provider, Definition string
	// SentTo are the hosts to which what is entered is sent; empty where a field decides that, or nothing is entered.
	SentTo []string
	// Modes are the ways to connect; Mode is the chosen one, nil while there is a choice.
	Modes []*outbound.Mode
	Mode  *outbound.Mode
	// Fields are what is asked for, in their order.
	Fields []Field
	// Settings are values that are fixed, as title and value.
	Settings [][2]string
	// Scopes are what a provider is asked for.
	Scopes []Scope
	// Host is the one that the browser is sent back to; empty for none. Again is true if credentials are replaced.
	Host  string
	Again bool
	// Owned is true if only the person at the browser can use the connection. SignIn asks who that is, in place of fields;
	// nil if it is known, or anyone may have the link.
	Owned bool
	// Person is the email address of the one who has signed in.
	Person string
	SignIn *SignInForm
	// Choices are the accounts of which one has to be chosen, in place of fields; Choosing names the choice in the form,
	// which Path takes. They are empty where there is no choice.
	Choices        []outbound.Choice
	Choosing, Path string
	// Errors are about no field.
	Errors []string
}

// Field is an input.
type Field struct {
	outbound.Field
	// Input is its name in the form.
	Input string
	// Value is what was entered, but for secrets.
	Value string
	// Error says what is wrong with it; empty for nothing.
	Error string
}

// Step is what a link shows, or what follows a submission or a return.
type Step struct {
	// Form is shown, perhaps again with its errors; nil if it was accepted.
	Form *Page
	// To is where the browser goes: to the provider, or back; empty for nowhere.
	To string
	// Connected is true at the end, and Owned if only the person can use the connection. Entering is true on the way to a
	// sign-in that the service itself needs.
	Connected, Owned, Entering bool
	// Team and Provider are names for people, and Host the one that To leads to.
	Team, Provider, Host string
	// Missing are scopes that were asked for and not granted.
	Missing []Scope
}

// Scope is a permission at a provider.
type Scope struct {
	// Name is the provider's, and Words what it permits; empty where the definition does not say it.
	Name, Words string
}

// Providers returns the present definition of a provider.
type Providers interface {
	// Find returns the definition that a slug has in an environment.
	Find(env id.Environment, slug string) (*registry.Provider, bool)
}

// Teams knows teams and their environments.
type Teams interface {
	// RedirectURLs returns the URLs to which browsers may be sent back, or not_found.
	RedirectURLs(ctx context.Context, env id.Environment) ([]string, error)
	// TeamOfEnvironment returns the team of an environment, or not_found.
	TeamOfEnvironment(ctx context.Context, env id.Environment) (id.Team, error)
	// NameOf returns the name of a team.
	NameOf(ctx context.Context, team id.Team) (string, error)
}

// newToken returns 256 random bits.
func newToken() secretbox.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails: the process ends instead
	return secretbox.Secret(base64.RawURLEncoding.EncodeToString(b[:]))
}

// hashOf returns the hash of a token; nil for a text that is none, so that it costs no query.
func hashOf(token secretbox.Secret) []byte {
	if b, err := base64.RawURLEncoding.DecodeString(token.Reveal()); err != nil || len(b) != 32 {
		return nil
	}
	return sumOf(token)
}

func sumOf(token secretbox.Secret) []byte {
	sum := sha256.Sum256([]byte(token.Reveal()))
	return sum[:]
}

// linkHash returns the hash of a link's token; nil for a text that is none.
func linkHash(token secretbox.Secret) []byte {
	if _, _, ok := standingParts(token); ok {
		return sumOf(token)
	}
	return hashOf(token)
}
