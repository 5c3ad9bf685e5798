package connecting

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/tokens"
)

// Config holds the dependencies of a Service. All are needed.
type Config struct {
	DB          *db.DB
	Clock       clock.Clock
	Box         *secretbox.Box
	Providers   Providers
	Configs     *configs.Service
	Connections connections.Linker
	Protocol    *tokens.Protocol
	Teams       Teams
	People      People
	// OnFailure is called for each attempt that failed, up to a limit for each link.
	OnFailure connections.FailureHook
	Logger    *slog.Logger
	// Pepper is what the tokens of standing links are made with.
	Pepper installation.Pepper
	// PublicURL is the URL at which browsers reach the service.
	PublicURL string
}

// Service applies the rules of links. It is safe for concurrent use.
type Service struct {
	cfg     Config
	flows   flowStore
	metrics metrics
	// standing shares the configuration.
	standing StandingLinks
}

// New returns a Service.
func New(cfg Config) *Service {
	cfg.PublicURL = strings.TrimRight(cfg.PublicURL, "/")
	s := &Service{cfg: cfg, flows: flowStore{cfg.Box}, metrics: newMetrics()}
	s.standing = NewStandingLinks(s)
	return s
}

// PagePath is the path of a link's page, before its token.
const PagePath = "/connect/"

// Create creates a connection that is pending, with a link. It returns the errors of connections.Service.Create, and
// provider_not_configured if every way to connect needs an OAuth client that the configuration does not have.
// Locations of validation errors are those of the body of the request.
func (s *Service) Create(ctx context.Context, actor access.Principal, in connections.NewConnection, n Terms) (Made,
	error) {
	var v apperr.Violations
	if in.Credentials.Set {
		v.Add("credentials", "coherent", "must not be given together with connect")
	}
	if in.OnConflict == connections.ConflictUpdate {
		v.Add("on_conflict", "coherent", "must not be update together with connect; run the operation reconnect")
	}
	key := ""
	for _, name := range []*string{in.Provider, in.ProviderConfigKey} {
		if name != nil {
			key = *name
		}
	}
	mode := ""
	if in.AuthMode != nil {
		mode, in.AuthMode = *in.AuthMode, nil
	}
	made := Made{}
	l, token, err := s.prepare(ctx, &v, actor.Environment, key, mode, &n)
	if err == nil {
		at := v.At("connect")
		err = s.checkOwner(ctx, at, actor.Team, actor.Environment, n.UserID)
	}
	if err != nil {
		return Made{}, err
	}
	in.Pending, in.Details = true, l.details()
	if err := s.refuseSecrets(ctx, &v, actor.Environment, key, &in); err != nil {
		return Made{}, err
	}
	if in.OnConflict == connections.ConflictUpdate {
		return Made{}, v.Err() // a connection that exists would not be changed, and the link would lead nowhere
	}
	if v.Err() == nil {
		in.OwnerUserID = n.UserID // else it may be a text that no database stores
		in.Within = func(ctx context.Context, tx *sql.Tx, _, c *connections.Connection) error {
			return s.store(ctx, tx, actor, c, &l)
		}
	} else {
		// The errors of the connection come in the same response.
		in.Within = func(context.Context, *sql.Tx, *connections.Connection, *connections.Connection) error { return v.Err() }
	}
	made.Connection, _, err = s.cfg.Connections.Create(ctx, actor, in)
	if err != nil {
		return Made{}, joined(&v, err)
	}
	s.metrics.links.WithLabelValues(outcomeMade).Inc()
	made.URL, made.ExpiresAt, made.Modes = urlOf(&s.cfg, token), l.expiresAt, l.modes
	return made, nil
}

// joined returns the validation errors of v and of err as one, or err if it is of another kind.
func joined(v *apperr.Violations, err error) error {
	var e *apperr.Error
	if v.Err() != nil && errors.As(err, &e) && e.Code == apperr.CodeValidation && !slices.Equal(e.Details, v.Details()) {
		v.AddAll(e.Details)
		return v.Err()
	}
	return err
}

// Reconnect makes a link for a connection that exists. The credentials that it has stay until others are proven.
func (s *Service) Reconnect(ctx context.Context, actor access.Principal, providerConfigKey, connectionID string,
	n Terms) (Made, error) {
	c, err := s.cfg.Connections.Get(ctx, actor.View(), providerConfigKey, connectionID)
	if err != nil {
		return Made{}, err
	}
	var v apperr.Violations
	mode, err := s.modeOfNext(ctx, &c)
	if err != nil {
		return Made{}, err
	}
	l, token, err := s.prepare(ctx, &v, actor.Environment, providerConfigKey, mode, &n)
	if at := v.At("connect"); n.UserID != "" && n.UserID != c.OwnerUserID {
		at.Add("user_id", "coherent", "must be the member to whom the connection belongs, or absent: that does not change")
	} else if err == nil {
		err = s.checkOwner(ctx, at, actor.Team, actor.Environment, c.OwnerUserID)
	}
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		return Made{}, err
	}
	c, err = s.cfg.Connections.Offer(ctx, actor, providerConfigKey, connectionID, func(ctx context.Context, tx *sql.Tx,
		now *connections.Connection) (audit.State, error) {
		if now.UUID != c.UUID || modeOf(now) != modeOf(&c) {
			return nil, apperr.New(apperr.CodePreconditionFailed,
				"Another request has changed the connection meanwhile; try again")
		}
		return l.details(), s.store(ctx, tx, actor, now, &l)
	})
	if err != nil {
		return Made{}, err
	}
	s.metrics.links.WithLabelValues(outcomeMade).Inc()
	return Made{Connection: c, URL: urlOf(&s.cfg, token), ExpiresAt: l.expiresAt, Modes: l.modes}, nil
}

// modeOf is the mode that a connection is bound to by the credentials that it has; empty for any.
func modeOf(c *connections.Connection) string {
	if c.Credentials == nil {
		return ""
	}
	return c.AuthMode
}

// modeOfNext is the mode of another link for a connection: of one that no one has connected yet that of the link
// before, as long as the definition has it.
func (s *Service) modeOfNext(ctx context.Context, c *connections.Connection) (string, error) {
	provider, ok := s.cfg.Providers.Find(c.Environment, c.Provider)
	if c.Credentials != nil || c.EnabledStatus != connections.Pending || !ok || provider.Outbound == nil {
		return modeOf(c), nil
	}
	before, found, err := findLink(ctx, s.cfg.DB.Read(), new(db.Where).And("environment_id = ?", string(c.Environment)).
		And("connection_uuid = ?", c.UUID))
	if err != nil || !found {
		return "", err
	}
	if _, known := provider.Outbound.Mode(before.mode); before.mode == "" || !known {
		return "", nil
	}
	return before.mode, nil
}

// details are what the audit trail says about a link. Anyone who opens it gives or replaces credentials.
func (l *link) details() audit.State {
	return audit.State{"link_id": l.id, "redirect_url": l.redirectURL, "scopes": l.scopes, "auth_mode": l.mode,
		"expires_at": clock.Wire(l.expiresAt)}
}

// refuseSecrets adds an error for each secret of connection_config: a pending connection has no place for it, and the
// page asks for it.
func (s *Service) refuseSecrets(ctx context.Context, v *apperr.Violations, env id.Environment, key string,
	in *connections.NewConnection) error {
	config, ok, err := s.cfg.Configs.Resolve(ctx, env, key)
	if err != nil || !ok {
		return err
	}
	provider, ok := s.cfg.Providers.Find(env, config.Provider)
	if !ok || provider.Outbound == nil {
		return nil
	}
	for _, f := range provider.Outbound.ConfigFields() {
		if value := in.ConnectionConfig.Value[f.Name]; f.Secret && value != nil {
			v.Add("connection_config."+f.Name, "coherent", "must not be given together with connect; the page asks for it")
		}
	}
	return nil
}

func urlOf(cfg *Config, token secretbox.Secret) secretbox.Secret {
	return secretbox.Secret(cfg.PublicURL + PagePath + token.Reveal())
}

// store stores the link of a connection.
func (*Service) store(ctx context.Context, tx *sql.Tx, actor access.Principal, c *connections.Connection,
	l *link) error {
	l.connectionUUID, l.environment, l.team = c.UUID, c.Environment, actor.Team
	l.providerConfigKey, l.connectionID = c.ProviderConfigKey, c.ConnectionID
	l.credentialsMillis = givenMillis(c)
	return replaceLink(ctx, tx, l)
}

// prepare checks what a link is made from.
func (s *Service) prepare(ctx context.Context, v *apperr.Violations, env id.Environment, key, mode string,
	n *Terms) (link, secretbox.Secret, error) {
	now := clock.FromMillis(clock.Millis(s.cfg.Clock.Now()))
	token := newToken()
	l := link{id: id.NewUUID(), tokenHash: hashOf(token), mode: mode, redirectURL: n.RedirectURL, state: n.State,
		scopes: n.Scopes, createdAt: now, expiresAt: now.Add(DefaultLifetime)}
	at := v.At("connect")
	n.Check(at)
	if n.Lifetime != 0 {
		l.expiresAt = now.Add(n.Lifetime)
	}
	if n.RedirectURL != "" {
		allowed, err := s.cfg.Teams.RedirectURLs(ctx, env)
		if err != nil {
			return link{}, "", err
		}
		if len(n.RedirectURL) <= maxRedirectURL && !slices.Contains(allowed, n.RedirectURL) {
			at.Add("redirect_url", "allowed", "must be one of the environment's connect_redirect_urls; "+
				"PATCH /team/environments/"+string(env)+" lists it")
		}
	}
	config, ok, err := s.cfg.Configs.Resolve(ctx, env, key)
	if err != nil || !ok {
		return l, token, err // connections report a key that is none
	}
	l.clientID = config.ClientID
	provider, ok := s.cfg.Providers.Find(env, config.Provider)
	switch {
	case !ok:
		return l, token, nil // as above
	case provider.Outbound == nil:
		at.Add("", "provider", "the provider has no API that can be called here")
		return l, token, nil
	}
	if len(connectable(provider.Outbound, config, mode)) == 0 {
		if again, ok, err := s.cfg.Configs.ResolveNow(ctx, env, key); err != nil {
			return l, token, err
		} else if ok && again.Provider == config.Provider {
			config, l.clientID = again, again.ClientID
		}
	}
	l.modes = offers(provider.Outbound, config, mode)
	return l, token, s.checkModes(v, provider.Outbound, config, mode)
}

// checkModes checks that there is a way to connect.
func (*Service) checkModes(v *apperr.Violations, engine *outbound.Engine, config *configs.Config, mode string) error {
	if mode != "" {
		if named, known := engine.Mode(mode); !known || named.Kind == outbound.None {
			v.Add("auth_mode", "enum", "must be a mode of the provider that has credentials: "+
				strings.Join(credentialModes(engine), ", "))
			return nil
		}
	}
	if len(connectable(engine, config, mode)) > 0 {
		return nil
	}
	if slices.ContainsFunc(engine.Modes(), func(m *outbound.Mode) bool {
		return m.Client && (mode == "" || m.Name == mode)
	}) {
		return apperr.New(apperr.CodeProviderNotConfigured, "The provider configuration "+config.Key+
			" has no OAuth client; set its oauth first")
	}
	v.Add("connect", "modes", "the provider's definition has no credentials that a person could give")
	return nil
}

// credentialModes returns the names of the modes that have credentials.
func credentialModes(engine *outbound.Engine) (names []string) {
	for _, m := range engine.Modes() {
		if m.Kind != outbound.None {
			names = append(names, m.Name)
		}
	}
	return names
}

// connectable returns the modes with which a person can connect.
func connectable(engine *outbound.Engine, config *configs.Config, only string) []*outbound.Mode {
	var out []*outbound.Mode
	for _, m := range engine.Modes() {
		if eligible(m, only) && offered(m, config) {
			out = append(out, m)
		}
	}
	return out
}

// offers returns the modes with which a person could connect, if the configuration had all that they need.
func offers(engine *outbound.Engine, config *configs.Config, only string) (out []ModeOffer) {
	for _, m := range engine.Modes() {
		if eligible(m, only) {
			out = append(out, ModeOffer{AuthMode: m.Name, Title: m.Title, Offered: offered(m, config)})
		}
	}
	return out
}

func eligible(m *outbound.Mode, only string) bool {
	return (only == "" || m.Name == only) && m.Kind != outbound.None
}

func offered(m *outbound.Mode, config *configs.Config) bool { return !m.Client || hasClient(m, config) }

func hasClient(m *outbound.Mode, config *configs.Config) bool {
	switch {
	case config.ClientID == "":
		return false
	case m.ClientKey:
		return config.HasPrivateKey()
	case m.OAuth.ClientAuth == outbound.ClientAuthNone:
		return true
	default:
		return config.HasSecret()
	}
}

// cleanBatch is how many links are read at the same time.
const cleanBatch = 200

// clean removes links that are old, the connections that no one has connected by them, and browsers that have not come
// back. It goes on after an error of one connection, and returns the errors.
func (s *Service) clean(ctx context.Context) error {
	now := s.cfg.Clock.Now()
	if err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return deleteFlows(ctx, tx, now) }); err != nil {
		return err
	}
	var failed []error
	var last *link
	for {
		list, err := oldLinks(ctx, s.cfg.DB.Read(), now.Add(-pendingLifetime), last, cleanBatch)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		for i := range list {
			if err := s.cleanLink(ctx, &list[i]); err != nil && len(failed) < maxCleanErrors {
				failed = append(failed, fmt.Errorf("remove the old link of connection %s: %w", list[i].connectionUUID, err))
			}
		}
		if len(list) < cleanBatch || ctx.Err() != nil {
			return errors.Join(append(failed, ctx.Err())...)
		}
		last = &list[len(list)-1]
	}
}

// maxCleanErrors is how many errors of connections one round reports.
const maxCleanErrors = 10

// cleanLink removes an old link, with the connection if no one has connected it.
func (s *Service) cleanLink(ctx context.Context, l *link) error {
	removed, err := s.cfg.Connections.RemovePending(ctx, l.team, l.environment, l.providerConfigKey, l.connectionID)
	if err != nil || removed {
		return err // the link goes with the connection
	}
	return s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return deleteLink(ctx, tx, l) })
}

// cleanInterval is how often clean runs.
const cleanInterval = 10 * time.Minute
