package connecting

import (
	"context"
	"crypto/subtle"
	"net/url"
	"slices"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/registry"
)

// opened is a link with what it leads to.
type opened struct {
	link
	connection connections.Connection
	provider   *registry.Provider
	engine     *outbound.Engine
	config     *configs.Config
	// token is that of the link; empty if it is not known.
	token secretbox.Secret
	// client is that of the request, for the audit trail.
	client access.Client
}

func linkProblem(words string) *Problem {
	p := &Problem{Code: codeLink, Words: words}
	if words == wordsUsed || words == wordsState || words == wordsWorks { // the connection may well be there
		p.Title = "Nothing to do here"
	}
	return p
}

// Words of links that lead nowhere.
const (
	wordsUnknown = "This link is not valid. It may be incomplete, or a newer link has replaced it. Ask for another link " +
		"where you got this one."
	wordsUsed     = "This link has been used, and works once. Ask for another link if you need to connect again."
	wordsExpired  = "This link has expired. Ask for another link where you got this one."
	wordsBrowser  = "This link was opened in another browser, and belongs to it. Continue there, or ask for another link."
	wordsMany     = "This link has had too many attempts. Ask for another link where you got this one."
	wordsDisabled = "This connection has been disabled. Ask about it where you got this link."
	wordsChanged  = "The settings for this provider have changed since the link was made. Ask for another link where " +
		"you got this one."
	wordsState = "This page is out of date: the sign-in took longer than ten minutes, was finished before, or was " +
		"begun in another browser. Open the link again to see whether the account is connected."
	wordsReplaced = "This connection has got or lost its credentials in another way since the link was made. Ask for " +
		"another link where you got this one."
	wordsStanding = "This link has expired, or the account has been connected since. Ask for another link where you got " +
		"this one."
	wordsWorks   = "The account is connected, and does not have to be connected again."
	wordsCookies = "This page needs a cookie, which your browser has not sent. Permit cookies for this site, and open " +
		"the link again."
)

// find returns the link of a token for a browser, which may have no cookie yet. A link that has connected its
// connection is found by the browser to which it belongs.
func (s *Service) find(ctx context.Context, token, browser secretbox.Secret) (*opened, error) {
	hash := linkHash(token)
	if hash == nil {
		return nil, linkProblem(wordsUnknown)
	}
	l, found, err := findLink(ctx, s.cfg.DB.Read(), new(db.Where).And("token_hash = ?", hash))
	if err == nil && !found {
		l, err = s.standing.find(ctx, token)
	}
	if _, _, ok := standingParts(token); ok && err == nil && !l.connected && l.browserHash != nil && !l.isOf(browser) {
		l = l.freed()
	}
	switch {
	case err != nil:
		return nil, err
	case l.connected && l.isOf(browser):
	case l.connected:
		return nil, linkProblem(wordsUsed)
	case !s.cfg.Clock.Now().Before(l.expiresAt):
		return nil, linkProblem(wordsExpired)
	case l.attempts >= maxAttempts:
		return nil, linkProblem(wordsMany)
	case l.browserHash != nil && !l.isOf(browser):
		return nil, linkProblem(wordsBrowser)
	}
	o, err := s.lead(ctx, l, token)
	if err == nil && o.connected && !o.isOf(browser) {
		return nil, linkProblem(wordsUsed)
	}
	return o, err
}

// isOf reports whether the link belongs to a browser.
func (l *link) isOf(browser secretbox.Secret) bool {
	return l.browserHash != nil && subtle.ConstantTimeCompare(l.browserHash, hashOf(browser)) == 1
}

// isStale reports whether the connection has got or lost credentials since the link was made, other than by the link.
func (l *link) isStale(c *connections.Connection) bool {
	return !l.connected && l.credentialsMillis >= 0 && l.credentialsMillis != givenMillis(c)
}

// givenMillis is when the credentials of a connection were given: 0 without any.
func givenMillis(c *connections.Connection) int64 {
	if c.Credentials == nil {
		return 0
	}
	return clock.Millis(c.Credentials.StoredAt)
}

// lead returns a link with what it leads to now.
func (s *Service) lead(ctx context.Context, l link, token secretbox.Secret) (*opened, error) {
	c, err := s.cfg.Connections.Get(ctx, access.Whole(l.environment), l.providerConfigKey, l.connectionID)
	if err != nil {
		return nil, err // the link's row goes with its connection
	}
	if c.Status == connections.Disabled {
		return nil, linkProblem(wordsDisabled)
	}
	if l.isStale(&c) {
		// Another request may have connected it by this link, after the link was read.
		now, found, err := findLink(ctx, s.cfg.DB.Read(), new(db.Where).And("environment_id = ?", string(l.environment)).
			And("id = ?", l.id))
		if err != nil {
			return nil, err
		}
		if !found || !now.connected {
			return nil, linkProblem(wordsReplaced)
		}
		l = now
	}
	if l.redirectURL != "" {
		allowed, err := s.cfg.Teams.RedirectURLs(ctx, l.environment)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(allowed, l.redirectURL) { // it was removed since the link was made
			l.redirectURL = ""
		}
	}
	config, ok, err := s.cfg.Configs.Resolve(ctx, l.environment, l.providerConfigKey)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, linkProblem(wordsChanged)
	}
	provider, ok := s.cfg.Providers.Find(config.Environment, config.Provider)
	if !ok || provider.Outbound == nil {
		return nil, linkProblem(wordsChanged)
	}
	o := &opened{link: l, connection: c, provider: provider, engine: provider.Outbound, config: config, token: token}
	ended, err := o.endedSignIn(ctx, s.cfg.DB.Read(), s.cfg.People)
	if ended {
		o.signedInMillis = 0
	}
	return o, err
}

// Open returns what the page of a link shows. It changes nothing: programs open links that arrive in mail. mode is the
// chosen one, or empty. The error is a *Problem where words for the person exist.
func (s *Service) Open(ctx context.Context, token, browser secretbox.Secret, mode string) (*Step, error) {
	o, err := s.find(ctx, token, browser)
	switch {
	case err != nil:
		return nil, s.counted(err)
	case o.connected:
		return s.connected(ctx, o)
	}
	var page *Page
	if o.awaitsSignIn(s.cfg.Clock.Now()) {
		page, err = s.signInPage(ctx, o, "")
	} else {
		page, err = s.page(ctx, o, mode, nil)
	}
	if err != nil {
		return nil, err
	}
	return &Step{Form: page}, nil
}

// connected is the end, which the browser sees again that submits or loads a page again.
func (s *Service) connected(ctx context.Context, o *opened) (*Step, error) {
	team, err := s.cfg.Teams.NameOf(ctx, o.team)
	if err != nil {
		return nil, err
	}
	return o.end(team), nil
}

// end is the page that follows a success.
func (o *opened) end(team string) *Step {
	back := o.back("connected", "")
	return &Step{To: back, Connected: true, Owned: o.owned(), Team: team, Provider: o.providerName(), Host: hostOf(back)}
}

// counted counts a problem.
func (s *Service) counted(err error) error {
	if p, ok := err.(*Problem); ok { //nolint:errorlint // it is made in this package and never wrapped
		s.metrics.links.WithLabelValues(p.Code).Inc()
	}
	return err
}

// page returns what is shown. entered are the values of a form that was refused; nil for an empty one.
func (s *Service) page(ctx context.Context, o *opened, mode string, entered map[string]string) (*Page, error) {
	team, err := s.cfg.Teams.NameOf(ctx, o.team)
	if err != nil {
		return nil, err
	}
	p := &Page{Team: team, Provider: o.providerName(), Owned: o.owned(), Modes: connectable(o.engine, o.config, o.mode),
		Host: hostOf(o.redirectURL), Again: o.connection.Credentials != nil || o.connection.Account.ID != ""}
	if name := o.provider.Definition.DisplayName; name != p.Provider {
		p.Definition = name
	}
	if o.owned() {
		person, err := s.actor(ctx, s.cfg.DB.Read(), o)
		if err != nil {
			return nil, s.counted(err)
		}
		p.Person = person.Name
	}
	if len(p.Modes) > 1 { // else the page says why there is none
		p.Modes = slices.DeleteFunc(p.Modes, o.clientChanged)
	}
	for _, m := range p.Modes {
		if m.Name == mode || len(p.Modes) == 1 {
			p.Mode = m
		}
	}
	switch {
	case len(p.Modes) == 0, p.Mode != nil && o.clientChanged(p.Mode):
		return nil, s.counted(linkProblem(wordsChanged))
	case p.Mode == nil:
		return p, nil
	}
	p.Scopes = inWords(p.Mode, o.requested(p.Mode))
	o.addFields(p, entered)
	p.SentTo, err = s.sentTo(ctx, o, p.Mode)
	return p, err
}

// clientChanged reports whether the link was made for another OAuth client than the configuration has now.
func (o *opened) clientChanged(m *outbound.Mode) bool {
	return m.Client && o.config.ClientID != o.clientID
}

// sentTo returns the hosts to which what a person enters is sent, as far as the settings that are there say so.
func (s *Service) sentTo(ctx context.Context, o *opened, m *outbound.Mode) ([]string, error) {
	if !m.Entered() {
		return nil, nil
	}
	target, err := s.cfg.Connections.Where(ctx, &o.connection, o.engine, m.Name, o.connection.Config)
	if apperr.Is(err, apperr.CodeValidation) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	hosts, err := o.engine.Hosts(target)
	if err != nil {
		return nil, nil //nolint:nilerr // a field decides it
	}
	return hosts, nil
}

func (o *opened) providerName() string {
	if name := o.config.DisplayName; name != "" {
		return name
	}
	return o.provider.Definition.DisplayName
}

// requested are the scopes that a provider is asked for. With OAuth 1.0a there are none unless the link has them:
// parameters of the definition say what is granted.
func (o *opened) requested(m *outbound.Mode) []string {
	switch {
	case m.Kind != outbound.OAuth2 && m.Kind != outbound.OAuth1:
		return nil
	case m.Kind == outbound.OAuth1:
		return o.scopes
	}
	switch {
	case o.scopes != nil:
		return o.scopes
	case o.config.Scopes != nil:
		return o.config.Scopes
	default:
		return m.OAuth.DefaultScopes
	}
}

// inWords says what scopes permit, as far as the definition does.
func inWords(m *outbound.Mode, scopes []string) []Scope {
	var out []Scope
	for _, name := range scopes {
		out = append(out, Scope{Name: name, Words: m.Scopes[name]})
	}
	return out
}

// Prefixes of the names of inputs.
const (
	inputConfig     = "config."
	inputCredential = "credential." //nolint:gosec // a prefix
)

// addFields adds the fields that the mode needs from a person, and the settings that are there.
func (o *opened) addFields(p *Page, entered map[string]string) {
	for _, f := range p.Mode.Config {
		value, set := o.connection.Config[f.Name]
		switch {
		case f.Source != outbound.SourceUser:
		case set:
			p.Settings = append(p.Settings, [2]string{f.Title, value + f.Suffix})
		default:
			p.Fields = append(p.Fields, newField(f, inputConfig+f.Name, entered))
		}
	}
	if !p.Mode.Entered() {
		return
	}
	for _, f := range p.Mode.Fields {
		if !f.Minted {
			p.Fields = append(p.Fields, newField(f, inputCredential+f.Name, entered))
		}
	}
}

// newField returns an input. Secrets that were entered are not shown again.
func newField(f outbound.Field, input string, entered map[string]string) Field {
	out := Field{Field: f, Input: input, Value: f.Default}
	if value, given := entered[input]; given {
		out.Value = value
	}
	if f.Secret {
		out.Value = ""
	}
	return out
}

// addErrors puts validation errors at their fields.
func (p *Page) addErrors(locations, messages []string) {
	for i, location := range locations {
		input := strings.NewReplacer("connection_config.", inputConfig, "credentials.", inputCredential).Replace(location)
		at := slices.IndexFunc(p.Fields, func(f Field) bool { return f.Input == input })
		switch {
		case at < 0:
			p.Errors = append(p.Errors, messages[i])
		case p.Fields[at].Error == "":
			p.Fields[at].Error = messages[i]
		}
	}
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// back returns where a browser goes at the end; empty for nowhere. The query of the redirect URL is kept as it is, but
// for parameters that have the names of ours.
func (o *opened) back(status, code string) string {
	if o.redirectURL == "" {
		return ""
	}
	u, err := url.Parse(o.redirectURL)
	if err != nil {
		return ""
	}
	ours := url.Values{"connection_id": {o.connectionID}, "provider": {o.providerConfigKey}, "status": {status}}
	if code != "" {
		ours.Set("error", code)
	}
	if o.state != "" {
		ours.Set("state", o.state)
	}
	parts := slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		return part == "" || err == nil && slices.Contains([]string{"connection_id", "provider", "status", "error", "state"},
			name)
	})
	u.RawQuery = strings.Join(append(parts, ours.Encode()), "&")
	return u.String()
}
