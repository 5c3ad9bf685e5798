// Package tokens gets the tokens with which requests to providers are made, and renews and revokes them. See README.md.
package tokens

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/masking"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
)

// The names of the values that a grant has, as the vault stores them.
const (
	AccessToken  = outbound.AccessToken
	RefreshToken = "refresh_token"
	// OAuth1Token and OAuth1Secret are those of a token of OAuth 1.0a.
	OAuth1Token  = "token"
	OAuth1Secret = "token_secret"
)

// ExchangeTimeout limits one request to an endpoint, from the resolution of its name to the last byte of the response.
const ExchangeTimeout = 20 * time.Second

// maxResponseBytes is how much of a response is read.
const maxResponseBytes = 1 << 20

// ErrHosts says that the credentials were given for other hosts than the endpoints have now. Nothing was opened or
// sent.
var ErrHosts = errors.New("the credentials were given for other hosts")

// Source is what requests to the endpoints of a connection's provider are made from. Its secrets are opened after the
// hosts of all endpoints were checked.
type Source struct {
	Engine *outbound.Engine
	// Target has the mode and the settings of the connection.
	Target outbound.Target
	// Hosts are those to which the credentials belong; nil for credentials that are given by this request.
	Hosts []string
	// OpenClient opens the OAuth client of the provider config, unless it does not belong to one of the hosts, which are
	// outbound.Engine.ChosenHosts. It may be nil for modes without one.
	OpenClient func(hosts []string) (outbound.Client, error)
	// OpenCredentials opens the values of the connection. It may be nil before there are any.
	OpenCredentials func() (map[string]secretbox.Secret, error)
	// Permit, unless it is nil, is asked before the first byte of a request is sent, which is not sent if it returns
	// false.
	Permit func() bool
}

// Grant is what a provider has granted.
type Grant struct {
	// Values are for the vault, by their names. A refresh without a new refresh token has none: the former stays.
	Values map[string]secretbox.Secret
	// ExpiresAt is when the access token expires; zero for one without a known end.
	ExpiresAt time.Time
	// Scopes are the granted ones; nil if the provider does not name any, and they are those that were asked for.
	Scopes []string
	// Config has values of connection_config that were in the response and that their fields accept. They are foreign
	// input, and none of them has a token in it.
	Config map[string]string
}

// Protocol makes the requests by which connections get, renew and revoke tokens. It stores nothing, follows no
// redirect, and reads at most a mebibyte of a response. It is safe for concurrent use.
//
// Besides a grant its methods return *oauth.TokenError, ErrHosts, and errors of opening secrets. No error contains a
// secret or a URL. Settings from which no request can be made are a *oauth.TokenError of kind Misconfigured.
type Protocol struct {
	client  *egress.Client
	clock   clock.Clock
	timeout time.Duration
	// observe is called with the time of each request; a Service measures those of its Protocol.
	observe func(took time.Duration)
}

// NewProtocol returns a Protocol that sends requests with the client.
func NewProtocol(client *egress.Client, c clock.Clock) *Protocol {
	return &Protocol{client: client, clock: c, timeout: ExchangeTimeout, observe: func(time.Duration) {}}
}

// opened is a Source with its secrets and rendered endpoints.
type opened struct {
	engine    *outbound.Engine
	mode      *outbound.Mode
	values    outbound.Values
	endpoints *outbound.Endpoints
	permit    func() bool
	// secrets are all that a request can be made from: no error and no setting has one of them.
	secrets []secretbox.Secret
}

// open checks the hosts of all endpoints, then opens the secrets and renders the endpoints.
func (p *Protocol) open(s Source) (*opened, error) {
	mode, ok := s.Engine.Mode(s.Target.Mode)
	if !ok {
		return nil, misconfigured("the mode is not one of this provider")
	}
	hosts, err := s.Engine.EndpointHosts(s.Target)
	if err != nil {
		return nil, wrongSettings(err)
	}
	for _, host := range hosts {
		if s.Hosts != nil && !slices.Contains(s.Hosts, host) {
			return nil, ErrHosts
		}
	}
	o := &opened{engine: s.Engine, mode: mode, permit: s.Permit,
		values: outbound.Values{Target: s.Target, Now: p.clock.Now()}}
	if mode.Client {
		if s.OpenClient == nil {
			return nil, misconfigured("the provider config has no OAuth client")
		}
		chosen, err := s.Engine.ChosenHosts(s.Target)
		if err != nil {
			return nil, wrongSettings(err)
		}
		if o.values.Client, err = s.OpenClient(chosen); err != nil {
			return nil, err
		}
	}
	if s.OpenCredentials != nil {
		if o.values.Credentials, err = s.OpenCredentials(); err != nil {
			return nil, err
		}
	}
	o.secrets = append(o.secrets, o.values.Client.Secret, o.values.Client.PrivateKey)
	for _, value := range o.values.Credentials {
		o.secrets = append(o.secrets, value)
	}
	for _, f := range s.Engine.ConfigFields() {
		if f.Secret {
			o.secrets = append(o.secrets, s.Target.Config[f.Name])
		}
	}
	if o.endpoints, err = s.Engine.Endpoints(o.values); err != nil {
		return nil, wrongSettings(err)
	}
	return o, nil
}

// misconfigured is the error of settings from which no request can be made.
func misconfigured(why string) *oauth.TokenError {
	return &oauth.TokenError{Kind: oauth.Misconfigured, Description: why}
}

// wrongSettings makes an error of settings, which quotes no value, one of the protocol.
func wrongSettings(err error) error {
	var config *outbound.ConfigError
	if errors.As(err, &config) || errors.Is(err, oauth.ErrSettings) {
		return misconfigured(err.Error())
	}
	return err
}

// client returns the OAuth client: that of the provider config, or of the connection's own credentials.
func (o *opened) client() oauth.Client {
	if o.mode.Kind == outbound.ClientCredentials {
		return oauth.Client{ID: o.credential("client_id").Reveal(), Secret: o.credential("client_secret"),
			Key: o.credential("key"), KeyID: o.credential("key_id").Reveal()}
	}
	c := o.values.Client
	return oauth.Client{ID: c.ID, Secret: c.Secret, Key: c.PrivateKey, KeyID: c.KeyID}
}

func (o *opened) credential(name string) secretbox.Secret { return o.values.Credentials[name] }

// endpoint returns how requests to a URL of the mode are written.
func (o *opened) endpoint(url string) oauth.Endpoint {
	e := oauth.Endpoint{URL: url, Auth: oauth.ClientAuth(o.mode.OAuth.ClientAuth), Format: oauth.FormatForm,
		ScopeSeparator: o.mode.OAuth.ScopeSeparator, Params: o.endpoints.TokenParams}
	if o.mode.Kind != outbound.OAuth2 && o.mode.Kind != outbound.ClientCredentials {
		e.Auth = oauth.AuthNone // the assertion proves enough
	}
	if o.mode.OAuth.JSONBody {
		e.Format = oauth.FormatJSON
	}
	return e
}

// hide adds secrets that no error may quote.
func (o *opened) hide(secrets ...secretbox.Secret) { o.secrets = append(o.secrets, secrets...) }

// grant sends a request for a token and reads the response.
func (p *Protocol) grant(o *opened, req *http.Request, err error, spec oauth.TokenSpec) (*Grant, error) {
	resp, err := p.send(o, req, err)
	if err != nil {
		return nil, err
	}
	spec.Sent = o.secrets
	token, err := oauth.ParseToken(spec, resp.Status, resp.Header, resp.Body, p.clock.Now())
	if err != nil {
		return nil, err //nolint:wrapcheck // it is a *oauth.TokenError, as is documented
	}
	g := &Grant{Values: map[string]secretbox.Secret{AccessToken: token.Access}, ExpiresAt: token.ExpiresAt}
	if token.Refresh != "" {
		g.Values[RefreshToken] = token.Refresh
	}
	o.hide(token.Access, token.Refresh)
	g.Config = o.settings(token.Metadata)
	// Scopes are stored and shown in clear, and a response can have a token among them.
	if left := slices.DeleteFunc(token.Scopes, o.shows); len(left) > 0 {
		g.Scopes = left
	}
	return g, nil
}

// settings returns the values that their fields accept and that have no secret in them.
func (o *opened) settings(found map[string]string) map[string]string {
	if len(found) == 0 {
		return nil
	}
	accepted, _ := o.engine.ResolveConfig(o.mode.Name, found)
	out := map[string]string{}
	for name, value := range found {
		if checked := accepted[name].Reveal(); checked != "" && !o.shows(value) {
			out[name] = checked
		}
	}
	return out
}

// shows reports whether a text has a secret in it, in any form.
func (o *opened) shows(text string) bool {
	var m masking.Masker
	for _, s := range o.secrets {
		if !o.isPublic(s) {
			m.Add(s.Reveal())
		}
	}
	return m.Shows(text)
}

// isPublic reports whether a value is that of a credential that is no secret, such as a user name, which a host may
// have in it.
func (o *opened) isPublic(value secretbox.Secret) bool {
	return slices.ContainsFunc(o.mode.Fields, func(f outbound.Field) bool {
		return !f.Secret && o.values.Credentials[f.Name] == value
	})
}

// send sends a request and reads the response. It takes the error of making the request, too.
func (p *Protocol) send(o *opened, req *http.Request, err error) (outbound.Response, error) {
	var none outbound.Response
	if err != nil {
		return none, wrongSettings(err)
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "Sallyport")
	}
	if authorization := req.Header.Get("Authorization"); authorization != "" {
		_, token, _ := strings.Cut(authorization, " ")
		o.hide(secretbox.Secret(token))
	}
	begun := p.clock.Now()
	defer func() { p.observe(p.clock.Now().Sub(begun)) }()
	resp, err := p.client.RoundTripper(egress.Bounds{Timeout: p.timeout, MaxResponseBytes: maxResponseBytes,
		Permit: o.permit}).
		RoundTrip(req)
	if err != nil {
		return none, notReached(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // the exchange is over; its errors came from the reading
	if err != nil {
		return none, notReached(err)
	}
	return outbound.Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// notReached is the error of a request without a response.
func notReached(err error) *oauth.TokenError {
	var failure *egress.Error
	if !errors.As(err, &failure) {
		return &oauth.TokenError{Kind: oauth.Temporary, Description: "the endpoint's response is not valid HTTP"}
	}
	kind := oauth.Temporary
	switch failure.Code {
	case egress.CodeTargetRefused, egress.CodeSchemeRefused, egress.CodeURLInvalid:
		kind = oauth.Misconfigured
	}
	return &oauth.TokenError{Kind: kind, Code: failure.Code, Description: failure.Message, Unsent: !failure.BytesSent}
}

// Authorize returns what a browser is sent to the provider with. Its URL, client and parameters are those of the mode;
// the caller adds the redirect URI, the state and, if PKCE is set, the verifier. Scopes replace those of the
// definition unless they are nil.
func (p *Protocol) Authorize(s Source, scopes []string) (oauth.Authorization, error) {
	o, err := p.open(s)
	if err != nil {
		return oauth.Authorization{}, err
	}
	return oauth.Authorization{URL: o.endpoints.AuthorizeURL, ClientID: o.values.Client.ID, Scopes: o.scopes(scopes),
		ScopeSeparator: o.mode.OAuth.ScopeSeparator, Params: o.endpoints.AuthorizeParams,
		Rename: o.mode.OAuth.ParamRename}, nil
}

func (o *opened) scopes(chosen []string) []string {
	if chosen == nil {
		return o.mode.OAuth.DefaultScopes
	}
	return chosen
}

// Issuer returns what the provider sends as iss to the redirect URI (RFC 9207); empty if it sends none.
func (p *Protocol) Issuer(s Source) (string, error) {
	o, err := p.open(s)
	if err != nil {
		return "", err
	}
	return o.endpoints.Issuer, nil
}

// Exchange exchanges the code that came to the redirect URI for tokens.
func (p *Protocol) Exchange(ctx context.Context, s Source, code oauth.Code) (*Grant, error) {
	o, err := p.open(s)
	if err != nil {
		return nil, err
	}
	o.hide(code.Code, code.Verifier)
	req, err := o.endpoint(o.endpoints.TokenURL).Exchange(ctx, o.client(), code, o.values.Now)
	return p.grant(o, req, err, o.mode.Token)
}

// Refresh uses the refresh token of an OAuth 2.0 connection.
func (p *Protocol) Refresh(ctx context.Context, s Source) (*Grant, error) {
	o, err := p.open(s)
	if err != nil {
		return nil, err
	}
	req, err := o.endpoint(o.endpoints.RefreshURL).Refresh(ctx, o.client(),
		oauth.Refresh{Token: o.credential(RefreshToken), Params: o.endpoints.RefreshParams}, o.values.Now)
	return p.grant(o, req, err, o.mode.Token)
}
