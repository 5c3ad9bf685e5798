package outbound

import "sallyport/internal/platform/httpapi/oas"

// Kind is a way to authenticate.
type Kind string

// The modes of authentication.
const (
	None              Kind = "none"                      // an open API
	APIKey            Kind = "api_key"                   // a key in a place of the provider's own
	Basic             Kind = "basic"                     // RFC 7617
	Bearer            Kind = "bearer"                    // a token that was made elsewhere (RFC 6750)
	OAuth2            Kind = "oauth2"                    // the authorization code grant (RFC 6749)
	ClientCredentials Kind = "oauth2_client_credentials" //nolint:gosec // a name, of RFC 6749 section 4.4
	OAuth1            Kind = "oauth1"                    // RFC 5849
	JWTBearer         Kind = "jwt_bearer"                // an assertion (RFC 7523), or a token that is one
	ServiceAccount    Kind = "service_account"           // a key file of Google's, and an assertion made with it
	GitHubApp         Kind = "github_app"                // tokens of an installation
	SessionToken      Kind = "session_token"             // a login that returns a token
	AWSSigV4          Kind = "aws_sigv4"                 // AWS Signature Version 4
	HMAC              Kind = "hmac"                      // a signature over parts of the request
)

// Schema returns the schema with the kinds, for the API.
func (Kind) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]Kind{None, APIKey, Basic, Bearer, OAuth2, ClientCredentials, OAuth1, JWTBearer,
		ServiceAccount, GitHubApp, SessionToken, AWSSigV4, HMAC})
}

// Auth is one mode of authentication. A field that has no meaning for the mode is an error.
type Auth struct {
	Mode Kind `yaml:"mode"`
	// Name is the mode's name in a connection; Mode if empty. Modes of one kind need different names.
	Name string `yaml:"name"`
	// Title and Description are for people who choose; one line each.
	Title       string `yaml:"title"`
	Description string `yaml:"description"`
	// DocsURL is the page of the provider that the mode was written from; https.
	DocsURL string `yaml:"docs_url"`
	// Setup shows operators how to register the OAuth client or where credentials are made. Markdown.
	Setup string `yaml:"setup"`
	// Fields changes how credentials are described, by their name.
	Fields map[string]CredentialField `yaml:"fields"`
	// BaseURL replaces the definition's for connections of the mode.
	BaseURL Texts `yaml:"base_url"`
	// Request adds to the definition's. Without any credential in both, the mode has its usual header: see README.md.
	Request Request `yaml:"request"`

	// AuthorizeURL, TokenURL and RefreshURL are templates. RefreshURL is TokenURL if empty. For oauth1, TokenURL returns
	// access tokens and RequestTokenURL temporary ones.
	AuthorizeURL    string `yaml:"authorize_url"`
	TokenURL        string `yaml:"token_url"`
	RefreshURL      string `yaml:"refresh_url"`
	RequestTokenURL string `yaml:"request_token_url"`
	// RevokeURL is the template of an endpoint of RFC 7009. Revoke is for a provider with a request of its own.
	RevokeURL string    `yaml:"revoke_url"`
	Revoke    *Exchange `yaml:"revoke"`
	Login     *Exchange `yaml:"login"` // of session_token
	OAuth     `yaml:",inline"`
	// Token locates the token in the response of the token endpoint, or of Login.
	Token *Token `yaml:"token"`
	// Refresh describes how tokens are renewed; nil for the usual way of the mode.
	Refresh *Refresh `yaml:"refresh"`

	// JWT describes the assertion of jwt_bearer.
	JWT *JWT `yaml:"jwt"`
	// AWS describes the signatures of aws_sigv4.
	AWS *AWS `yaml:"aws"`
	// Signature describes the signatures of hmac.
	Signature *Signature `yaml:"signature"`
	// SignatureMethod is HMAC-SHA1 or HMAC-SHA256, for oauth1; HMAC-SHA1 if empty.
	SignatureMethod string `yaml:"signature_method"`
}

// CredentialField changes how one credential is described; empty fields change nothing.
type CredentialField struct {
	Title       string `yaml:"title"`
	Description string `yaml:"description"`
	// Pattern is an RE2 expression that must match the whole value.
	Pattern string `yaml:"pattern"`
	// Example is shown in an empty field; Pattern accepts it.
	Example string `yaml:"example"`
	// Optional makes a credential optional, such as the password of an API that uses only the user name.
	Optional bool `yaml:"optional"`
}

// OAuth are the parts of OAuth 2.0's protocol in which providers differ.
type OAuth struct {
	// Issuer is the issuer that the provider sends as iss (RFC 9207); a template. If it is given, iss must be there.
	Issuer string `yaml:"issuer"`
	// PKCE is S256 or none (RFC 7636); S256 if empty.
	PKCE string `yaml:"pkce"`
	// ScopeSeparator stands between scopes; a space if empty.
	ScopeSeparator string `yaml:"scope_separator"`
	// DefaultScopes are requested if the provider config names none.
	DefaultScopes []string `yaml:"default_scopes"`
	// ParamRename gives parameters of the authorization request other names.
	ParamRename map[string]string `yaml:"param_rename"`
	// AuthorizeParams, TokenParams and RefreshParams are additional parameters; their values are templates. TokenParams
	// are also sent with a refresh.
	AuthorizeParams map[string]string `yaml:"authorize_params"`
	TokenParams     map[string]string `yaml:"token_params"`
	RefreshParams   map[string]string `yaml:"refresh_params"`
	// ClientAuth is how the client authenticates at the token endpoint: basic, body, private_key_jwt or none; body if
	// empty. With private_key_jwt the credentials of oauth2_client_credentials are a key and its name, not a secret.
	ClientAuth string `yaml:"client_auth"`
	// BodyFormat is form or json; form if empty.
	BodyFormat string `yaml:"body_format"`
	// CodeParam is the parameter of the redirect with the code; code if empty.
	CodeParam string `yaml:"code_param"`
	// RedirectMetadata names, by a field of connection_config whose source is redirect, the parameter of the redirect with
	// its value.
	RedirectMetadata map[string]string `yaml:"redirect_metadata"`
	// TokenMetadata names, by a field of connection_config whose source is token_response, the JSON pointer to its value
	// in the token response.
	TokenMetadata map[string]string `yaml:"token_metadata"`
}

// Token locates the parts of a token response, as JSON pointers (RFC 6901).
type Token struct {
	// Access is the access token; /access_token if empty.
	Access string `yaml:"access"`
	// Alternate is the access token of a response without one at Access.
	Alternate string `yaml:"alternate"`
	// Refresh is the refresh token; /refresh_token if empty.
	Refresh string `yaml:"refresh"`
	// ExpiresIn is the lifetime; /expires_in if empty.
	ExpiresIn string `yaml:"expires_in"`
	// ExpiresAt is the end of the life instead: seconds since 1970, or RFC 3339.
	ExpiresAt string `yaml:"expires_at"`
	// Unit is that of ExpiresIn: s or ms; s if empty.
	Unit string `yaml:"unit"`
	// DefaultTTL is the lifetime of a token without one in the response, such as 24h; none if empty: it does not expire.
	DefaultTTL string `yaml:"default_ttl"`
	// Buffer is how long before its end a token is renewed; 15m if empty.
	Buffer string `yaml:"buffer"`
	// Scope is the text with the granted scopes; /scope if empty.
	Scope string `yaml:"scope"`
	// SuccessWhen must hold for a response with a status of 2xx; nil if the status says it.
	SuccessWhen *Condition `yaml:"success_when"`
}

// Refresh describes how tokens are renewed.
type Refresh struct {
	// Grant is refresh_token, or reauth if a user has to connect again; refresh_token if empty.
	Grant string `yaml:"grant"`
	// Rotating says that every refresh returns a new refresh token and ends the old one.
	Rotating bool `yaml:"rotating"`
	// MaxIdle is how long a refresh token lives without use, such as 90d; for ever if empty.
	MaxIdle string `yaml:"max_idle"`
	// DeadWhen lists the marks of a refresh token that is dead, besides the error invalid_grant.
	DeadWhen []Condition `yaml:"dead_when"`
}

// Exchange is a request of the provider's own in its token protocol. All texts are templates.
type Exchange struct {
	// Method is GET, POST, PUT or DELETE; POST if empty.
	Method  string            `yaml:"method"`
	URL     string            `yaml:"url"`
	Headers map[string]string `yaml:"headers"`
	// Form or JSON is the body; none if both are empty. JSON is an object of texts.
	Form map[string]string `yaml:"form"`
	JSON map[string]string `yaml:"json"`
	// OK lists the statuses of success; 2xx if empty.
	OK Texts `yaml:"ok"`
	// Gone lists the statuses of a token that does not exist any more, which counts as revoked. Only revoke has it.
	Gone Texts `yaml:"gone"`
	// SuccessWhen must hold for a response with a status of OK; nil if the status says it.
	SuccessWhen *Condition `yaml:"success_when"`
	// GoneWhen lists other marks of a token that does not exist any more. Only revoke has it.
	GoneWhen []Condition `yaml:"gone_when"`
}

// JWT describes an assertion (RFC 7519, RFC 7523). Texts but Algorithm are templates.
type JWT struct {
	// Algorithm is RS256, RS384, RS512, PS256, ES256, EdDSA or HS256.
	Algorithm string `yaml:"algorithm"`
	// KeyID is the header kid; none if empty. With ${cred.key_id} connections have that credential, which is optional.
	KeyID    string `yaml:"key_id"`
	Issuer   string `yaml:"iss"`
	Subject  string `yaml:"sub"`
	Audience string `yaml:"aud"`
	// Claims are further claims, as texts.
	Claims map[string]string `yaml:"claims"`
	// Lifetime is the time from iat to exp; 5m if empty, at most 1h.
	Lifetime string `yaml:"lifetime"`
}

// AWS describes Signature Version 4. Both texts are templates.
type AWS struct {
	Region  string `yaml:"region"`
	Service string `yaml:"service"`
}

// Signature describes a signature over parts of a request.
type Signature struct {
	// Algorithm is sha1, sha256 or sha512 (HMAC, RFC 2104).
	Algorithm string `yaml:"algorithm"`
	// Key is how the text of the secret becomes the key: utf8, hex or base64; utf8 if empty.
	Key string `yaml:"key"`
	// Content is a template of the signed bytes. It may have ${request.…}, such as ${request.target}: the path and the
	// query as they are sent.
	Content string `yaml:"content"`
	// Encoding is that of the signature: hex or base64; hex if empty.
	Encoding string `yaml:"encoding"`
	// Header is a template of the name of the header with the signature, Prefix a template of the text before it.
	Header string `yaml:"header"`
	Prefix string `yaml:"prefix"`
}
