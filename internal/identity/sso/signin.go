package sso

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

const (
	// SignInLifetime is how long a person has at the identity provider.
	SignInLifetime = 10 * time.Minute
	secretBytes    = 32
	// MaxReturnTo bounds the path that a sign-in returns to, in bytes.
	MaxReturnTo = 512
	// maxAnswerParameter bounds what comes back through the browser.
	maxAnswerParameter = 4096
)

// Begun is a sign-in that goes on at the identity provider.
type Begun struct {
	// URL is where the browser goes.
	URL string
	// Browser is the secret that stays in the browser. The provider's response is accepted only together with it.
	Browser secretbox.Secret
}

// Callback contains the parameters of the provider's response, which the browser brings.
type Callback struct {
	State, Code, Issuer string
	// Error is the code of RFC 6749, section 4.1.2.1, where the provider refuses.
	Error string
}

// ValidReturnTo reports whether a sign-in may return to a path. It must be a path of this service, however browsers
// read it.
func ValidReturnTo(path string) bool {
	if len(path) > MaxReturnTo || !strings.HasPrefix(path, "/") || strings.Contains(path, "//") ||
		strings.ContainsFunc(path, func(r rune) bool {
			return r <= ' ' || r > '~' || r == '\\'
		}) {
		return false
	}
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || u.Opaque != "" {
		return false
	}
	return !slices.ContainsFunc(strings.Split(u.Path, "/"), func(s string) bool {
		return s == "." || s == ".."
	}) && !strings.ContainsAny(u.Path, `\`)
}

// derive makes a value of the sign-in from the browser's secret, so that the database holds nothing that finishes it.
func derive(browser []byte, purpose, state string) string {
	m := hmac.New(sha256.New, browser)
	m.Write([]byte(purpose + "\x00" + state))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

func hash(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:]
}

func newSecret() []byte {
	b := make([]byte, secretBytes)
	// crypto/rand.Read never returns an error; it ends the program when the system has no entropy.
	_, _ = rand.Read(b)
	return b
}

func decodeSecret(s string) ([]byte, bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return b, err == nil && len(b) == secretBytes
}

// provider returns an enabled provider for a person who has yet to sign in.
func (s *Service) provider(ctx context.Context, providerID string) (Provider, error) {
	if !id.Is(id.PrefixSSO, providerID) {
		return Provider{}, errNoProvider()
	}
	p, ok, err := readProvider(ctx, s.db.Read(), providerID)
	if err == nil && (!ok || !p.Enabled) {
		err = errNoProvider()
	}
	return p, err
}

// Start begins a sign-in that returns to a path of this service. It returns not_found for a provider that does not
// exist or is disabled, sso_unavailable or sso_failed for errors of the provider, and unavailable while many sign-ins
// begin at the same time.
func (s *Service) Start(ctx context.Context, providerID, returnTo string) (Begun, error) {
	p, err := s.provider(ctx, providerID)
	if err != nil {
		return Begun{}, err
	}
	pub, f := s.published(ctx, p.Issuer, cacheFor)
	if f != nil {
		return Begun{}, failed(f)
	}
	browser, state := newSecret(), base64.RawURLEncoding.EncodeToString(newSecret())
	if err := s.begin(ctx, signIn{stateHash: hash([]byte(state)), browserHash: hash(browser), provider: p.ID,
		returnTo: returnTo}); err != nil {
		return Begun{}, err
	}
	u, err := url.Parse(pub.metadata.AuthorizationEndpoint)
	if err != nil {
		return Begun{}, failed(newProviderError("The authorization endpoint's URL cannot be read."))
	}
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": p.ClientID, "redirect_uri": s.callback(p.ID), "scope": strings.Join(p.Scopes,
			" "),
		"state": state, "nonce": derive(browser, "nonce", state),
		"code_challenge":        base64.RawURLEncoding.EncodeToString(hash([]byte(derive(browser, "verifier", state)))),
		"code_challenge_method": methodS256,
	} {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return Begun{URL: u.String(), Browser: secretbox.Secret(base64.RawURLEncoding.EncodeToString(browser))}, nil
}

// begin stores a sign-in of a stranger, who takes turns with the others.
func (s *Service) begin(ctx context.Context, v signIn) error {
	release, err := s.signIn.Turn(ctx)
	if err != nil {
		return err
	}
	defer release()
	now := s.clock.Now()
	v.expiresMillis = clock.Millis(now.Add(SignInLifetime))
	return s.insertSignIn(ctx, v, now)
}

var errState = errors.New("the state is unknown, used, expired, or of another browser or provider")

// Finish ends a sign-in with the provider's response and starts a session, as Login of signin does. browser is the
// secret of Start; replaced is the refresh token that the client had until now. Finish returns the path of Start.
//
// It returns not_found as Start does; sso_state_invalid for a response to no sign-in that this browser has begun, or if
// the provider's settings were changed in the meantime; sso_failed if the provider rejects the sign-in or sends claims
// that are not accepted; sso_unavailable if it does not respond; and the errors of SignInFederated of signin.
func (s *Service) Finish(ctx context.Context, c access.Client, providerID string, browser secretbox.Secret, a Callback,
	replaced signin.RefreshToken) (signin.SignIn, string, error) {
	p, err := s.provider(ctx, providerID)
	if err != nil {
		return signin.SignIn{}, "", err
	}
	secret, ok := decodeSecret(browser.Reveal())
	if _, fits := decodeSecret(a.State); !ok || !fits {
		return signin.SignIn{}, "", errNoState()
	}
	returnTo, ok, err := s.useSignIn(ctx, signIn{stateHash: hash([]byte(a.State)), browserHash: hash(secret),
		provider: p.ID}, s.clock.Now())
	if err != nil {
		return signin.SignIn{}, "", err
	}
	if !ok {
		return signin.SignIn{}, "", errNoState()
	}
	who, err := s.identify(ctx, p, secret, a)
	if err != nil {
		return signin.SignIn{}, "", err
	}
	who.Recheck = func(ctx context.Context, tx *sql.Tx) error { return s.requireUnchanged(ctx, tx, p) }
	in, err := s.signIn.SignInFederated(ctx, c, who, replaced)
	return in, returnTo, err
}

// requireUnchanged locks the provider until the transaction ends. It returns not_found where the provider is gone or
// disabled by now, and sso_state_invalid where it changed during the exchange: a role that was taken from everyone must
// not be given again.
func (s *Service) requireUnchanged(ctx context.Context, tx *sql.Tx, asked Provider) error {
	now, ok, err := lockProvider(ctx, tx, asked.Team, asked.ID)
	switch {
	case err != nil:
		return err
	case !ok || !now.Enabled:
		return errNoProvider()
	case !reflect.DeepEqual(now.Settings, asked.Settings):
		return apperr.New(apperr.CodeSSOStateInvalid, "The identity provider was set up differently meanwhile; sign in again")
	}
	return nil
}

func errNoState() error {
	return apperr.Wrap(apperr.CodeSSOStateInvalid,
		"This browser has begun no such sign-in, or it took longer than ten minutes; sign in again", errState)
}

// identify finds the person of the provider's response.
func (s *Service) identify(ctx context.Context, p Provider, browser []byte, a Callback) (signin.Federated, error) {
	pub, f := s.published(ctx, p.Issuer, cacheFor)
	if f != nil {
		return signin.Federated{}, failed(f)
	}
	switch {
	// A mix-up would have the code of one provider sent to another (RFC 9207).
	case a.Issuer != "" && a.Issuer != p.Issuer, a.Issuer == "" && pub.metadata.IssuerInAnswer:
		return signin.Federated{}, failed(newProviderError("The response is not of the identity provider that was asked."))
	case a.Error != "":
		return signin.Federated{}, failed(refusal(a.Error))
	case a.Code == "" || len(a.Code) > maxAnswerParameter:
		return signin.Federated{}, failed(newProviderError("The identity provider's response has no code."))
	}
	clientSecret, err := s.openSecret(p)
	if err != nil {
		return signin.Federated{}, err
	}
	t, f := s.peer.redeemCode(ctx, pub.metadata, redemption{
		clientID: p.ClientID, clientSecret: clientSecret, code: a.Code, verifier: derive(browser, "verifier", a.State),
		redirectURI: s.callback(p.ID),
	})
	if f != nil {
		return signin.Federated{}, failed(f)
	}
	want := expected{issuer: p.Issuer, clientID: p.ClientID, nonce: derive(browser, "nonce", a.State), now: s.clock.Now()}
	subject, about, unknown, f := want.verify(t.IDToken, pub.keys)
	if unknown {
		if pub, f = s.published(ctx, p.Issuer, keysAgain); f == nil {
			subject, about, _, f = want.verify(t.IDToken, pub.keys)
		}
	}
	if f != nil {
		return signin.Federated{}, failed(f)
	}
	if about, f = s.peer.addUserinfo(ctx, pub.metadata, t, subject, about, []string{claimEmail, claimVerified,
		p.GroupsClaim}); f != nil {
		return signin.Federated{}, failed(f)
	}
	return s.person(p, subject, about)
}

// person is whom the claims are about, if the provider may speak for them.
func (s *Service) person(p Provider, subject string, about claims) (signin.Federated, error) {
	email := about.text(claimEmail)
	groups, f := about.list(p.GroupsClaim)
	switch {
	case f != nil:
	case email == "":
		f = newProviderError("The identity provider sends no e-mail address; does it offer the scope email to this client?")
	case !about.verified():
		f = newProviderError("The identity provider has not verified the e-mail address.")
	case !p.speaksFor(email):
		f = newProviderError("The e-mail address is of no domain for which the identity provider may speak here.")
	}
	if f != nil {
		return signin.Federated{}, failed(f)
	}
	return signin.Federated{
		Team: p.Team, Provider: p.ID, Issuer: p.Issuer, Subject: subject, Email: email, Roles: p.roles(groups),
		MayJoin: p.JustInTime, MayLink: p.LinkExisting,
	}, nil
}

// refusal words the errors of RFC 6749, section 4.1.2.1, and of OpenID Connect Core 1.0, section 3.1.2.6, that people
// cause.
func refusal(code string) *providerError {
	switch code {
	case "access_denied":
		return newProviderError("The identity provider refuses the sign-in, or it was cancelled there.")
	case "login_required", "interaction_required", "consent_required", "account_selection_required":
		return newProviderError("The identity provider wants to ask the user something first; sign in again.")
	case "invalid_scope":
		return newProviderError("The identity provider does not offer the scopes to this client.")
	case "temporarily_unavailable", "server_error":
		f := newProviderError("The identity provider cannot sign users in right now.")
		f.Unreachable = true
		return f
	default:
		return newProviderError("The identity provider refuses the request; are client id and redirect URI registered " +
			"there as they " +
			"are here?")
	}
}

// failed returns the API error of a provider error.
func failed(f *providerError) error {
	if f.Unreachable {
		return apperr.New(apperr.CodeSSOUnavailable, f.Message).RetryIn(5 * time.Second)
	}
	return apperr.New(apperr.CodeSSOFailed, f.Message)
}

// Check is one thing that Test looked at.
type Check struct {
	// Name is the checked item.
	Name CheckName
	OK   bool
	// Message says what is wrong; empty where nothing is.
	Message string
}

// CheckName names a check.
type CheckName string

// The checks, in their order: one that fails ends them.
const (
	// CheckDiscovery: the discovery document is there, is the issuer's, and offers what is needed.
	CheckDiscovery CheckName = "discovery"
	// CheckKeys: the key set is there and has keys for signatures.
	CheckKeys CheckName = "keys"
)

// checkNames returns every check.
func checkNames() []CheckName { return []CheckName{CheckDiscovery, CheckKeys} }

// Schema returns the schema with the checks, for the API.
func (CheckName) Schema(oas.Registry) *oas.Schema { return oas.Enum(checkNames()) }

// Test asks a provider of the team, now, for what it publishes, and returns the checks made. A provider need not be
// enabled.
func (s *Service) Test(ctx context.Context, p Provider) []Check {
	m, f := s.peer.fetchMetadata(ctx, p.Issuer)
	if f != nil {
		return []Check{{Name: CheckDiscovery, Message: f.Message}}
	}
	keys, f := s.peer.fetchKeys(ctx, m.JWKSURI)
	if f != nil {
		return []Check{{Name: CheckDiscovery, OK: true}, {Name: CheckKeys, Message: f.Message}}
	}
	s.issuers.Put(p.Issuer, published{metadata: m, keys: keys})
	return []Check{{Name: CheckDiscovery, OK: true}, {Name: CheckKeys, OK: true}}
}
