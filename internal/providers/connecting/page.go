package connecting

import (
	"context"
	"crypto/subtle"
	"net/url"
	"slices"
	"strings"

	"sallyport/internal/platform/access"
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
}

func linkProblem(words string) *Problem { return &Problem{Code: codeLink, Words: words} }

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
		"begun in another browser. Open the link again."
)

// find returns the link of a token for a browser, which may have no cookie yet.
func (s *Service) find(ctx context.Context, token, browser secretbox.Secret) (*opened, error) {
	hash := hashOf(token)
	if hash == nil {
		return nil, linkProblem(wordsUnknown)
	}
	l, found, err := findLink(ctx, s.cfg.DB.Read(), new(db.Where).And("token_hash = ?", hash))
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, linkProblem(wordsUnknown)
	case l.connected:
		return nil, linkProblem(wordsUsed)
	case !s.cfg.Clock.Now().Before(l.expiresAt):
		return nil, linkProblem(wordsExpired)
	case l.attempts >= maxAttempts:
		return nil, linkProblem(wordsMany)
	case l.browserHash != nil && subtle.ConstantTimeCompare(l.browserHash, hashOf(browser)) != 1:
		return nil, linkProblem(wordsBrowser)
	}
	return s.lead(ctx, l)
}

// lead returns a link with what it leads to now.
func (s *Service) lead(ctx context.Context, l link) (*opened, error) {
	c, err := s.cfg.Connections.Get(ctx, access.Whole(l.environment), l.providerConfigKey, l.connectionID)
	if err != nil {
		return nil, err // the link's row goes with its connection
	}
	if c.Status == connections.Disabled {
		return nil, linkProblem(wordsDisabled)
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
	provider, ok := s.cfg.Providers.Get(config.Provider)
	if !ok || provider.Outbound == nil {
		return nil, linkProblem(wordsChanged)
	}
	return &opened{link: l, connection: c, provider: provider, engine: provider.Outbound, config: config}, nil
}

// Open returns what the page of a link shows. It changes nothing: programs open links that arrive in mail. mode is the
// chosen one, or empty. The error is a *Problem where words for the person exist.
func (s *Service) Open(ctx context.Context, token, browser secretbox.Secret, mode string) (*Page, error) {
	o, err := s.find(ctx, token, browser)
	if err != nil {
		return nil, s.counted(err)
	}
	return s.page(ctx, o, mode, nil)
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
	p := &Page{Team: team, Provider: o.providerName(), Modes: connectable(o.engine, o.config, o.mode),
		Host: hostOf(o.redirectURL), Again: o.connection.EnabledStatus != connections.Pending}
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
	p.Scopes = o.requested(p.Mode)
	o.addFields(p, entered)
	return p, nil
}

// clientChanged reports whether the link was made for another OAuth client than the configuration has now.
func (o *opened) clientChanged(m *outbound.Mode) bool {
	return m.Client && o.config.ClientID != o.clientID
}

func (o *opened) providerName() string {
	if name := o.config.DisplayName; name != "" {
		return name
	}
	return o.provider.Definition.DisplayName
}

// requested are the scopes that a provider is asked for.
func (o *opened) requested(m *outbound.Mode) []string {
	if m.Kind != outbound.OAuth2 && m.Kind != outbound.OAuth1 {
		return nil
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

// back returns where a browser goes at the end; empty for nowhere. Parameters of the redirect URL are kept, unless they
// have the names of ours.
func (o *opened) back(status, code string) string {
	if o.redirectURL == "" {
		return ""
	}
	u, err := url.Parse(o.redirectURL)
	if err != nil {
		return ""
	}
	q := u.Query()
	for name, value := range map[string]string{"state": o.state, "provider": o.providerConfigKey,
		"connection_id": o.connectionID, "status": status, "error": code} {
		q.Del(name)
		if value != "" {
			q.Set(name, value)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}
