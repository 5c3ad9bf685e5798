package outbound

import (
	"time"

	"sallyport/internal/providers/oauth"
)

// Mode is a compiled entry of auth. It is shared: read it only.
type Mode struct {
	// Name is the mode's name in a connection, unique in the definition.
	Name        string
	Kind        Kind
	Title       string
	Description string
	// DocsURL is the provider's page; empty if the definition names none.
	DocsURL string
	// Setup is Markdown for operators; empty if there is nothing to set up.
	Setup string
	// Fields are the credentials, in the order of a form.
	Fields []Field
	// Config are the fields of connection_config that requests of the mode use, in the order of a form. Others mean
	// nothing to its connections.
	Config []Field
	// BaseURLs are the templates of the mode's own base URL; empty where it has the definition's.
	BaseURLs []string
	// OAuth has the differences of oauth2, and what of it holds for other modes with a token endpoint.
	OAuth OAuthRules
	// Token says how a response with a token is read. Its paths are JSON pointers; Metadata has, by the field of
	// connection_config, where its value is.
	Token oauth.TokenSpec
	// TokenBuffer is how long before its end a token is renewed.
	TokenBuffer time.Duration
	// Refresh says how tokens are renewed.
	Refresh RefreshRules
	// SignatureMethod is HMAC-SHA1 or HMAC-SHA256, for oauth1.
	SignatureMethod string
	// Scopes says in words what scopes permit, by their names. All modes share it.
	Scopes map[string]string
	// Client is true for a mode that needs an OAuth client in the provider config: its id and, unless OAuth.ClientAuth is
	// none, a secret or a private key.
	Client bool
	// ClientKey is true if the client needs a private key instead of a secret.
	ClientKey bool

	bases                                                          []*urlTemplate
	authorizeURL, tokenURL, refreshURL, requestTokenURL, revokeURL *urlTemplate
	issuer                                                         *template
	authorizeParams, tokenParams, refreshParams                    []pair
	revoke, login                                                  *exchange
	headers, query                                                 []pair
	jwt                                                            *assertionTemplate
	aws                                                            *awsTemplate
	signature                                                      *signatureTemplate
}

// OAuthRules are the parts of OAuth 2.0's protocol in which providers differ, with their defaults.
type OAuthRules struct {
	// PKCE is true for S256 (RFC 7636).
	PKCE           bool
	ScopeSeparator string
	DefaultScopes  []string
	// ParamRename has the provider's names of parameters of the authorization request, by the usual ones.
	ParamRename map[string]string
	ClientAuth  ClientAuth
	// JSONBody is true if the token endpoint takes JSON, and not a form.
	JSONBody  bool
	CodeParam string
	// RedirectMetadata has, by the field of connection_config, the parameter of the redirect with its value.
	RedirectMetadata map[string]string
}

// ClientAuth is how a client authenticates at the token endpoint.
type ClientAuth string

// The ways in which a client authenticates.
const (
	ClientAuthBody          ClientAuth = "body"
	ClientAuthBasic         ClientAuth = "basic"
	ClientAuthPrivateKeyJWT ClientAuth = "private_key_jwt" // RFC 7523 section 2.2
	ClientAuthNone          ClientAuth = "none"
)

// RefreshRules say how tokens are renewed.
type RefreshRules struct {
	// Reauth is true if a user has to connect again when the token ends.
	Reauth bool
	// Rotating is true if a refresh ends the old refresh token.
	Rotating bool
	// MaxIdle is how long a refresh token lives without use; 0 for ever.
	MaxIdle time.Duration
}

// pair is a name and a value, both templates.
type pair struct {
	name, value *template
	// field is its place in the declaration.
	field string
}

// constant reports whether the pair is the same for all connections.
func (p pair) constant() bool { return len(p.name.names())+len(p.value.names()) == 0 }

// exchange is a compiled Exchange.
type exchange struct {
	method      string
	url         *urlTemplate
	headers     []pair
	form, json  []pair
	ok, gone    statusSet
	successWhen *Test
	goneWhen    []Test
}

type assertionTemplate struct {
	algorithm                        string
	keyID, issuer, subject, audience *template
	claims                           []pair
	lifetime                         time.Duration
}

type awsTemplate struct{ region, service *template }

type signatureTemplate struct {
	algorithm, key, encoding string
	content, header, prefix  *template
}

// Modes returns the ways in which a connection can authenticate; the first is the default. They are shared: do not
// modify them.
func (e *Engine) Modes() []*Mode { return e.modes }

// Mode returns the mode with that name, and the first one for an empty name; false if there is none.
func (e *Engine) Mode(name string) (*Mode, bool) {
	for i, m := range e.modes {
		if m.Name == name || name == "" && i == 0 {
			return m, true
		}
	}
	return nil, false
}

// Entered reports whether a person enters the credentials; else a redirect to the provider makes them.
func (m *Mode) Entered() bool { return m.Kind != OAuth2 && m.Kind != OAuth1 && m.Kind != None }

// Mints reports whether the mode's access tokens come from a request or an assertion that the gateway makes, so that
// they are made again and not refreshed by a user.
func (m *Mode) Mints() bool {
	switch m.Kind {
	case ClientCredentials, JWTBearer, ServiceAccount, GitHubApp, SessionToken:
		return true
	default:
		return false
	}
}
