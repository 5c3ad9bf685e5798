package connecting

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"maps"
	"strings"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/tokens"
)

// NewBrowser returns the value of a browser's cookie.
func NewBrowser() secretbox.Secret { return newToken() }

// IsBrowser reports whether a text can be the value of a browser's cookie.
func IsBrowser(browser secretbox.Secret) bool { return hashOf(browser) != nil }

// Submit takes the form of a link's page from a browser, to which the link belongs from then on. values are by the
// names of inputs. The error is a *Problem where words for the person exist.
func (s *Service) Submit(ctx context.Context, token secretbox.Secret, v Visitor, mode string,
	values map[string]string) (*Step, error) {
	browser := v.Browser
	o, err := s.find(ctx, token, browser)
	switch {
	case err != nil:
		return nil, s.counted(err)
	case o.connected:
		return s.connected(ctx, o)
	case hashOf(browser) == nil:
		return nil, s.counted(linkProblem(wordsCookies))
	}
	begun := false
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		if o.unstored {
			if err := s.standing.keep(ctx, tx, &o.link, hashOf(browser)); err != nil {
				return err
			}
		}
		begun, err = begin(ctx, tx, &o.link, hashOf(browser))
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !begun: // another request was faster
		now, err := s.find(ctx, token, browser)
		switch {
		case err != nil:
			return nil, s.counted(err)
		case now.connected:
			return s.connected(ctx, now)
		}
		return nil, s.counted(linkProblem(wordsMany))
	}
	o.browserHash, o.client = hashOf(browser), v.Client
	if o.awaitsSignIn(s.cfg.Clock.Now()) {
		return s.signIn(ctx, o, v, values)
	}
	if state := values["choice"]; state != "" {
		return s.choose(ctx, o, secretbox.Secret(state), values["account"])
	}
	page, err := s.page(ctx, o, mode, values)
	if err != nil {
		return nil, err
	}
	if page.Mode == nil {
		return &Step{Form: page}, nil
	}
	config, secrets := map[string]string{}, map[string]secretbox.Secret{}
	for i := range page.Fields {
		value := values[page.Fields[i].Input]
		if !page.Fields[i].Secret && !page.Fields[i].Multiline { // the API takes secrets as they are, too
			value = strings.TrimSpace(value)
		}
		if value == "" {
			continue
		}
		if name, ok := strings.CutPrefix(page.Fields[i].Input, inputConfig); ok {
			config[name] = value
		} else if name, ok := strings.CutPrefix(page.Fields[i].Input, inputCredential); ok {
			secrets[name] = secretbox.Secret(value)
		}
	}
	if !page.Mode.Entered() {
		return s.depart(ctx, o, page, config)
	}
	err = s.connect(ctx, o, page.Mode, config, connections.Credentials{Values: secrets})
	return s.concluded(ctx, o, page, err)
}

// source returns what requests to the provider's endpoints are made from.
func (s *Service) source(o *opened, target outbound.Target) tokens.Source {
	return tokens.Source{Engine: o.engine, Target: target, OpenClient: func(hosts []string) (outbound.Client, error) {
		c, err := s.cfg.Configs.OpenClient(o.config, hosts)
		return outbound.Client{ID: c.ID, Secret: c.Secret, PrivateKey: c.PrivateKey, KeyID: c.KeyID}, err
	}}
}

// given returns the settings of a connection with those that were entered or found.
func (o *opened) given(more ...map[string]string) map[string]string {
	out := maps.Clone(o.connection.Config)
	for _, m := range more {
		maps.Copy(out, m)
	}
	return out
}

// depart returns the step to the provider.
func (s *Service) depart(ctx context.Context, o *opened, page *Page, config map[string]string) (*Step, error) {
	target, err := s.cfg.Connections.Where(ctx, &o.connection, o.engine, page.Mode.Name, o.given(config))
	if err != nil {
		return s.concluded(ctx, o, page, err)
	}
	state := newToken()
	f := flow{linkID: o.id, environment: o.environment, expiresAt: s.cfg.Clock.Now().Add(flowLifetime),
		flowSecrets: flowSecrets{Mode: page.Mode.Name, ClientID: o.config.ClientID, Given: config,
			Scopes: o.requested(page.Mode), Link: o.token.Reveal()}}
	to, err := s.authorize(ctx, o, page.Mode, target, &f, state)
	if err != nil {
		return s.concluded(ctx, o, page, err)
	}
	sealed, err := s.flows.seal(&f, state)
	if err != nil {
		return nil, err
	}
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return insertFlow(ctx, tx, &f, state, sealed) })
	if err != nil {
		return nil, err
	}
	return &Step{To: to, Team: page.Team, Provider: page.Provider, Host: hostOf(to)}, nil
}

// authorize returns the URL at the provider, and notes in the flow what the way back needs.
func (s *Service) authorize(ctx context.Context, o *opened, m *outbound.Mode, target outbound.Target, f *flow,
	state secretbox.Secret) (string, error) {
	redirect := configs.RedirectURI(s.cfg.PublicURL, o.environment, o.providerConfigKey)
	if m.Kind == outbound.OAuth1 {
		// OAuth 1.0a has no state: the callback carries it.
		token, to, err := s.cfg.Protocol.TemporaryToken(ctx, s.source(o, target), redirect+"?state="+state.Reveal(),
			f.Scopes)
		f.Token, f.Secret = token.Token.Reveal(), token.Secret.Reveal()
		return to, err
	}
	a, err := s.cfg.Protocol.Authorize(s.source(o, target), f.Scopes)
	if err != nil {
		return "", err
	}
	a.RedirectURI, a.State = redirect, state
	if m.OAuth.PKCE {
		a.Verifier = oauth.NewVerifier()
		f.Verifier = a.Verifier.Reveal()
	}
	return oauth.AuthorizeURL(a)
}

// errMismatch and errUnnamed say that credentials are not for the account that the connection has.
var (
	errMismatch = errors.New("the credentials are for another account")
	errUnnamed  = errors.New("the provider does not say which account the credentials are for")
	errUsed     = errors.New("the link has been used or replaced")
	errDisabled = errors.New("the connection has been disabled")
	errReplaced = errors.New("the credentials have been given or removed in another way")
)

// errSettings says that someone has changed a setting while a person was at the provider.
func errSettings() error {
	return apperr.New(apperr.CodePreconditionFailed, "Another request has changed the connection meanwhile; try again")
}

// differs reports whether one of the settings that a person has entered has another value by now.
func (o *opened) differs(given map[string]string) bool {
	for name, value := range given {
		if now := o.connection.Config[name]; now != "" && now != value {
			return true
		}
	}
	return false
}

// overwrites reports whether one of the settings to store is another than it was when the link was read.
func (o *opened) overwrites(config map[string]string, now *connections.Connection) bool {
	for name := range config {
		if now.Config[name] != o.connection.Config[name] {
			return true
		}
	}
	return false
}

// connect tests credentials and stores them, and marks the link as used.
func (s *Service) connect(ctx context.Context, o *opened, m *outbound.Mode, config map[string]string,
	given connections.Credentials) error {
	actor, err := s.actor(ctx, s.cfg.DB.Read(), o)
	if err != nil {
		return err
	}
	ch := connections.Change{AuthMode: &m.Name, Credentials: patch.To(given), Details: audit.State{"link_id": o.id},
		Entered: m.Entered(), Granted: m.Kind == outbound.OAuth2 || m.Kind == outbound.OAuth1, GrantedTo: o.config.ClientID,
		Within: func(ctx context.Context, tx *sql.Tx, before, after *connections.Connection) error {
			switch {
			case before.Status == connections.Disabled:
				return errDisabled
			case o.isStale(before):
				return errReplaced
			case o.overwrites(config, before):
				return errSettings()
			case after.EnabledReason == connections.ReasonClientChanged:
				return linkProblem(wordsChanged)
			case before.Account.ID == "" || before.Account.ID == after.Account.ID:
			case after.Account.ID == "":
				return errUnnamed
			default:
				return errMismatch
			}
			if _, err := s.actor(ctx, tx, o); err != nil { // who may have left meanwhile
				return err
			}
			ended, err := o.endedSignIn(ctx, tx, s.cfg.People)
			if err != nil {
				return err
			}
			if ended {
				return linkProblem(wordsSignIn)
			}
			done, err := finish(ctx, tx, &o.link)
			if err == nil && !done {
				err = errUsed
			}
			return err
		}}
	if len(config) > 0 {
		ch.ConnectionConfig = patch.To(map[string]*string{})
		for name, value := range config {
			ch.ConnectionConfig.Value[name] = &value
		}
	}
	_, err = s.cfg.Connections.Update(ctx, actor, o.providerConfigKey, o.connectionID, ch)
	return err
}

// reached returns the end of a link that another request of the same browser has connected meanwhile; nil for others.
func (s *Service) reached(ctx context.Context, o *opened) (*Step, error) {
	l, found, err := findLink(ctx, s.cfg.DB.Read(), new(db.Where).And("environment_id = ?", string(o.environment)).
		And("id = ?", o.id))
	if err != nil || !found || !l.connected || subtle.ConstantTimeCompare(l.browserHash, o.browserHash) != 1 {
		return nil, err
	}
	return s.connected(ctx, o)
}

// concluded returns what follows the outcome of a submission: the end, the form with its errors, or a *Problem.
func (s *Service) concluded(ctx context.Context, o *opened, page *Page, err error) (*Step, error) {
	if err == nil {
		s.metrics.links.WithLabelValues(outcomeConnected).Inc()
		return o.end(page.Team), nil
	}
	// The form may have been sent twice, and the other request was faster. That shows in several errors: the link is used,
	// the credentials or settings are new, or the test had to wait.
	if step, err := s.reached(ctx, o); step != nil || err != nil {
		return step, err
	}
	var e *apperr.Error
	if errors.As(err, &e) && e.Code == apperr.CodeValidation {
		var locations, messages []string
		for _, d := range e.Details {
			locations, messages = append(locations, strings.TrimPrefix(d.Location, "body.")), append(messages, d.Message)
		}
		page.addErrors(locations, messages)
		return &Step{Form: page}, nil
	}
	p := o.problem(err)
	if p == nil {
		return nil, err
	}
	if errors.As(err, &e) && e.Code == apperr.CodeRateLimited && page.Mode.Entered() {
		// The credentials were not tested: others may have used up what all share, which is no attempt of this person.
		if err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return giveBack(ctx, tx, &o.link) }); err != nil {
			return nil, err
		}
		s.metrics.links.WithLabelValues(p.Code).Inc()
		page.Errors = append(page.Errors, p.Words)
		return &Step{Form: page}, nil
	}
	if err := o.noteFailure(ctx, s, p); err != nil {
		return nil, err
	}
	if page.Mode.Entered() && p.Retry {
		page.Errors = append(page.Errors, strings.TrimSpace(p.Words+" "+p.Quote))
		return &Step{Form: page}, nil
	}
	return nil, p
}

// problem says an error in words; nil for one that is the service's own.
func (o *opened) problem(err error) *Problem {
	p := &Problem{Retry: true}
	var e *apperr.Error
	var refused *oauth.TokenError
	var declined *oauth.AuthorizationError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, errUsed):
		return linkProblem(wordsUsed)
	case errors.Is(err, errReplaced):
		return linkProblem(wordsReplaced)
	case errors.Is(err, errDisabled):
		return linkProblem(wordsDisabled)
	case errors.Is(err, errMismatch):
		p.Code, p.Words = codeMismatch, "This is another account than the one that this connection is for. Nothing was "+
			"replaced. Sign in with the right account at the provider, and try again."
	case errors.Is(err, errUnnamed):
		p.Code, p.Words = codeUnavailable, "The provider does not say at the moment which account this is. Try again in a "+
			"few minutes."
	case errors.Is(err, oauth.ErrIssuer):
		p.Code, p.Words = codeProvider, "The response came from another server than the one that was asked. Nothing was "+
			"connected."
	case errors.Is(err, oauth.ErrCallback), errors.Is(err, oauth.ErrSettings):
		p.Code, p.Words = codeProvider, "The provider's response is incomplete or malformed. Try again."
	case errors.As(err, &declined):
		p.Code = codeOf(declined)
		plain := *declined
		plain.Description = ""
		p.Words, p.Quote = plain.Words(), declined.Description
	case errors.As(err, &refused):
		p.refused(refused)
	case errors.As(err, &e) && e.Code == apperr.CodeInvalidCredentials:
		p.Code, p.Words = codeCredentials, sentence(e.Message)
	case errors.As(err, &e) && e.Code == apperr.CodeProviderNotConfigured:
		p.Code, p.Words = codeMisconfigured, wordsSettings
	case errors.As(err, &e) && e.Code == apperr.CodeRateLimited:
		p.Code, p.Words = codeUnavailable, "There were too many attempts with this provider. Wait a minute, and try again."
	case errors.As(err, &e) && e.Code == apperr.CodeValidation:
		p.Code, p.Words = codeProvider, "The provider's response does not fit the settings of this connection. Nothing was "+
			"connected."
	case errors.As(err, &e) && e.Code == apperr.CodePreconditionFailed:
		p.Code, p.Words = codeSettingsChanged, "The connection was changed meanwhile. Try again."
	default:
		return nil
	}
	p.Back = o.back("failed", p.Code)
	if o.token != "" {
		p.Again = PagePath + o.token.Reveal()
	}
	return p
}

// Words for what an operator has to repair: the application at the provider, or the settings of this service for it.
const (
	wordsClient = "The provider does not accept this application. Its operator has to check the settings at the " +
		"provider."
	wordsSettings = "The settings that this service has for the provider do not allow this connection. Its operator has " +
		"to check them."
)

// sentence ends a text with a full stop, unless it has one, also in a quotation.
func sentence(text string) string {
	if strings.HasSuffix(strings.TrimRight(text, `"`), ".") {
		return text
	}
	return text + "."
}

// refused says an error of an endpoint in words.
func (p *Problem) refused(e *oauth.TokenError) {
	switch p.Code = codeProvider; e.Kind {
	case oauth.Temporary:
		p.Code, p.Words = codeUnavailable, "The provider cannot be reached, or has a problem at the moment. Try again in a "+
			"few minutes."
		return
	case oauth.GrantDead:
		p.Words = "The provider does not accept the sign-in any more; it may have taken too long. Try again."
	case oauth.ClientRefused:
		p.Code, p.Words = codeClient, wordsClient
	case oauth.Misconfigured:
		if p.Code, p.Words = codeMisconfigured, wordsClient; e.Status == 0 { // nothing was sent
			p.Words = wordsSettings
		}
	case oauth.Refused:
		p.Words = "The provider refuses the connection."
	}
	if p.Words == "" {
		p.Words = "The provider refuses the connection."
	}
	p.Quote = e.Description
}
