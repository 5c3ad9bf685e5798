package connections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/tokens"
)

// accounts are the connections as their tokens are renewed. It implements tokens.Accounts.
type accounts struct{ svc *Service }

// Account implements tokens.Accounts.
func (a accounts) Account(ctx context.Context, env id.Environment, uuid string) (*tokens.Account, error) {
	read := func() (*tokens.Account, error) {
		c, err := readAs(ctx, a.svc.db.Reserved(), storedColumns,
			new(db.Where).And("environment_id = ?", string(env)).And("uuid = ?", uuid))
		if err != nil {
			return nil, err
		}
		return a.svc.auth.account(ctx, &c)
	}
	account, err := read()
	if !errors.Is(err, tokens.ErrHosts) {
		return account, err
	}
	// The connection, its credentials and its provider configuration are not read together: they may be of different
	// times.
	a.Forget(uuid)
	if err := a.svc.auth.configs.Forget(ctx, env); err != nil {
		return nil, err //nolint:wrapcheck // it says what failed
	}
	return read()
}

// Forget implements tokens.Accounts.
func (a accounts) Forget(uuid string) {
	a.svc.inbound.Drop(uuid)
	a.svc.auth.vault.Forget(uuid)
}

// Lock implements tokens.Accounts.
func (a accounts) Lock(ctx context.Context, tx *sql.Tx, uuids []string) ([]string, error) {
	return lockAll(ctx, tx, uuids, a.svc.db.SkipLocked())
}

// lockAll locks connections in their order, as the suffix says, and returns those that it has locked.
func lockAll(ctx context.Context, tx *sql.Tx, uuids []string, suffix string) ([]string, error) {
	bind := func(c *Connection) db.Columns { return storedColumns(c).Only("uuid") }
	free, err := db.All(ctx, tx, bind, "FROM connections", db.AnyOf(new(db.Where), "uuid", uuids),
		"ORDER BY uuid"+suffix)
	if err != nil {
		return nil, fmt.Errorf("lock connections: %w", err)
	}
	locked := make([]string, len(free))
	for i := range free {
		locked[i] = free[i].UUID
	}
	return locked, nil
}

// Change implements tokens.Accounts.
func (a accounts) Change(ctx context.Context, tx *sql.Tx, env id.Environment, uuid string,
	fn func() (*tokens.Outcome, error)) error {
	locked, err := a.lockStatus(ctx, tx, env, uuid)
	if err != nil {
		return ignoreNotFound(err)
	}
	outcome, err := fn()
	if err != nil || outcome == nil || outcome.State == tokens.Moved && !outcome.Version.Equal(locked.UpdatedAt) {
		return err
	}
	if outcome.State == tokens.Renewed && len(outcome.Config) == 0 && locked.EnabledStatus == Active {
		return nil // nearly all are
	}
	c, err := read(ctx, tx, new(db.Where).And("environment_id = ?", string(env)).And("uuid = ?", uuid))
	if err != nil {
		return err
	}
	if outcome.State == tokens.Foreign {
		// This node may know an older configuration, and the status would outlive the change that this one missed.
		sets, err := a.svc.auth.vault.Sets(ctx, tx, env, []string{uuid})
		if err != nil {
			return err
		}
		if foreign, err := isForeign(ctx, tx, &c, sets[uuid].ClientID); err != nil || !foreign {
			return err
		}
	}
	before := c
	kinds := a.svc.auth.follow(&c, outcome)
	if before.EnabledStatus == c.EnabledStatus && before.EnabledReason == c.EnabledReason &&
		maps.Equal(before.Config, c.Config) {
		return nil
	}
	c.UpdatedAt = clock.After(a.svc.now(), c.UpdatedAt)
	if err := update(ctx, tx, &c); err != nil {
		return err
	}
	if err := a.svc.auth.describe(ctx, tx, env, &c); err != nil {
		return err
	}
	return publish(ctx, tx, a.svc.onChange, &c, kinds)
}

func ignoreNotFound(err error) error {
	if apperr.Is(err, apperr.CodeNotFound) {
		return nil
	}
	return err
}

// follow gives a connection the status and the settings that the renewal of its tokens leads to.
func (a *authenticator) follow(c *Connection, o *tokens.Outcome) []ChangeKind {
	if provider, ok := a.providers.Find(c.Environment, c.Provider); ok && provider.Outbound != nil && len(o.Config) > 0 {
		config := c.publicConfig()
		for name, value := range o.Config {
			config[name] = secretbox.Secret(value)
		}
		c.Config = public(provider.Outbound, config)
	}
	if o.State == tokens.Dead && c.EnabledStatus == NeedsReauth {
		// It outlasts all else that is wrong. The end of that would leave a connection that no one knows to be dead.
		return c.moveTo(NeedsReauth, o.Reason)
	}
	// A renewal does not overrule a user or a test.
	ofTokens := c.EnabledStatus == NeedsReauth && (c.EnabledReason == tokens.ReasonGrantRefused ||
		c.EnabledReason == tokens.ReasonRefreshInterrupted) || c.EnabledStatus == Error || c.EnabledStatus == Expired
	if c.EnabledStatus != Active && !ofTokens {
		return nil
	}
	switch o.State {
	case tokens.Renewed:
		return c.moveTo(Active, "")
	case tokens.Dead:
		return c.moveTo(NeedsReauth, o.Reason)
	case tokens.Failing:
		if c.EnabledStatus == Active || c.EnabledStatus == Error {
			return c.moveTo(Error, o.Reason)
		}
	case tokens.Ended:
		return c.moveTo(Expired, o.Reason)
	case tokens.Moved:
		return c.moveTo(NeedsReauth, ReasonHostChanged)
	case tokens.Foreign:
		return c.moveTo(NeedsReauth, ReasonClientChanged)
	}
	return nil
}

// account returns what requests of a connection and its tokens are made from. It opens no credential but secrets of
// connection_config. It returns tokens.ErrHosts, with the account, if requests would go to hosts for which the
// credentials were not given.
func (a *authenticator) account(ctx context.Context, c *Connection) (*tokens.Account, error) {
	provider, ok := a.providers.Find(c.Environment, c.Provider)
	if !ok || provider.Outbound == nil {
		return nil, apperr.New(apperr.CodeConnectionNotReady, "The provider has no API that can be called here")
	}
	engine := provider.Outbound
	sealed, err := a.vault.Sealed(ctx, c.Environment, c.UUID)
	if err != nil {
		return nil, fmt.Errorf("read the credentials of connection %s: %w", c.UUID, err)
	}
	way, err := a.wayOf(ctx, c, engine, sealed)
	if err != nil {
		return nil, err
	}
	mode, target := way.mode, way.target
	client, err := a.clientOf(ctx, c, mode)
	if err != nil {
		return nil, err
	}
	account := &tokens.Account{ConnectionUUID: c.UUID, Environment: c.Environment, Sealed: sealed,
		Version: c.UpdatedAt, Idle: c.Status == Disabled, Dead: c.isDead(),
		Foreign: c.EnabledReason == ReasonClientChanged ||
			sealed.ClientID != "" && mode.Client && client != sealed.ClientID,
		Source: tokens.Source{Engine: engine, Target: target, Hosts: way.allowed,
			OpenClient: func(hosts []string) (outbound.Client, error) {
				client, err := a.openClient(ctx, c, hosts)
				return client, unusable(err)
			},
			OpenCredentials: func() (map[string]secretbox.Secret, error) {
				opened, err := a.vault.Open(sealed, way.values...)
				return opened, err
			}}}
	if way.moved {
		return account, apperr.Wrap(apperr.CodeConnectionNotReady,
			"The credentials were given for other hosts; give them again", tokens.ErrHosts)
	}
	return account, nil
}

// clientOf returns the id of the OAuth client of a connection's provider configuration; empty if there is none, or for
// a mode that needs none.
func (a *authenticator) clientOf(ctx context.Context, c *Connection, mode *outbound.Mode) (string, error) {
	if !mode.Client {
		return "", nil
	}
	config, known, err := a.configs.Resolve(ctx, c.Environment, c.ProviderConfigKey)
	if err != nil || !known {
		return "", err
	}
	return config.ClientID, nil
}

// allowedHosts returns the hosts to which stored credentials may be sent: those for which they were given and, while
// the provider configuration has the base URL that it had then, those that the definition names for any settings.
// Only a new version of the definition adds such.
func allowedHosts(engine *outbound.Engine, target outbound.Target, set *credentials.Set) []string {
	if set.BaseURL == nil || *set.BaseURL != target.BaseURL {
		return set.Hosts
	}
	return slices.Concat(set.Hosts, engine.FixedHosts(target))
}

// contain reports whether each of the hosts is an allowed one.
func contain(allowed, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return !slices.Contains(allowed, host) })
}

// isDead reports whether the connection waits for other credentials because these cannot be renewed.
func (c *Connection) isDead() bool {
	switch c.EnabledReason {
	case tokens.ReasonGrantRefused, tokens.ReasonRefreshInterrupted:
		return c.EnabledStatus == NeedsReauth
	default:
		return false
	}
}

// unusable makes an OAuth client that is missing, or that may not be sent to the connection's hosts, an error of the
// settings.
func unusable(err error) error {
	var e *apperr.Error
	if errors.As(err, &e) && e.Code == apperr.CodeProviderNotConfigured {
		return &oauth.TokenError{Kind: oauth.Misconfigured, Description: e.Message}
	}
	return err
}

// checkClient adds an error if the OAuth client of the provider configuration may not be sent where a connection's
// settings lead.
func (a *authenticator) checkClient(ctx context.Context, v *apperr.Violations, c *Connection, engine *outbound.Engine,
	target outbound.Target) error {
	hosts, err := engine.ChosenHosts(target)
	if err != nil {
		addError(v, err)
		return nil
	}
	config, known, err := a.configs.Resolve(ctx, c.Environment, c.ProviderConfigKey)
	if err != nil || !known {
		return err
	}
	if host := config.Withholds(hosts); host != "" {
		v.Add("connection_config", "oauth_hosts", "leads to "+host+", to which the OAuth client of the provider "+
			"configuration "+c.ProviderConfigKey+" may not be sent; its oauth.hosts can allow it")
	}
	return nil
}

// resume makes the tokens of a connection that is enabled again be renewed when that is due, and not after the time for
// which it was put off.
func (a *authenticator) resume(ctx context.Context, tx *sql.Tx, c *Connection) error {
	provider, ok := a.providers.Find(c.Environment, c.Provider)
	sets, err := a.vault.Sets(ctx, tx, c.Environment, []string{c.UUID})
	set, found := sets[c.UUID]
	if err != nil || !ok || provider.Outbound == nil || !found {
		return err
	}
	account := &tokens.Account{ConnectionUUID: c.UUID, Environment: c.Environment,
		Sealed: &credentials.Sealed{Set: set}, Source: tokens.Source{Engine: provider.Outbound,
			Target: outbound.Target{Mode: set.Mode}}}
	return a.tokens.Resume(ctx, tx, account) //nolint:wrapcheck // it says what failed
}

// hasToken reports whether an access token is among the stored values of those names.
func hasToken(fields []string) bool { return slices.Contains(fields, outbound.AccessToken) }

// openClient returns the OAuth client of a connection's provider configuration, to be sent to hosts that the settings
// choose, or provider_not_configured.
func (a *authenticator) openClient(ctx context.Context, c *Connection, hosts []string) (outbound.Client, error) {
	config, known, err := a.configs.Resolve(ctx, c.Environment, c.ProviderConfigKey)
	if err != nil {
		return outbound.Client{}, err
	}
	if !known || config.ClientID == "" {
		return outbound.Client{}, notConfigured(c)
	}
	client, err := a.configs.OpenClient(config, hosts)
	if err != nil {
		return outbound.Client{}, err
	}
	return outbound.Client{ID: client.ID, Secret: client.Secret, PrivateKey: client.PrivateKey,
		KeyID: client.KeyID}, nil
}

func notConfigured(c *Connection) error {
	return apperr.New(apperr.CodeProviderNotConfigured,
		"The provider configuration "+c.ProviderConfigKey+" has no OAuth client; set its oauth first")
}

// open returns what requests of a connection are made from, with an access token that has not expired. It returns
// connection_not_ready if there is none, or if requests would go to hosts for which the credentials were not given.
func (a *authenticator) open(ctx context.Context, c *Connection) (*tokens.Account, outbound.Values, error) {
	account, err := a.account(ctx, c)
	if err != nil {
		return nil, outbound.Values{}, err
	}
	if account, err = a.tokens.Fresh(ctx, account); err != nil {
		return nil, outbound.Values{}, err
	}
	return a.reveal(ctx, c, account)
}

// reveal opens the secrets of an account.
func (a *authenticator) reveal(ctx context.Context, c *Connection, account *tokens.Account) (*tokens.Account,
	outbound.Values, error) {
	values := outbound.Values{Target: account.Source.Target, Now: a.clock.Now()}
	var err error
	if values.Credentials, err = account.Source.OpenCredentials(); err != nil {
		return nil, values, err
	}
	if mode, ok := account.Source.Engine.Mode(values.Mode); ok && mode.Client && mode.Kind == outbound.OAuth1 {
		values.Client, err = a.signingClient(ctx, c, account.Source.Engine, values.Target)
	}
	return account, values, err
}

// signingClient returns the OAuth client where it signs every request to a provider's API.
func (a *authenticator) signingClient(ctx context.Context, c *Connection, engine *outbound.Engine,
	target outbound.Target) (outbound.Client, error) {
	hosts, err := engine.ChosenHosts(target)
	if err != nil {
		return outbound.Client{}, err //nolint:wrapcheck // as in package outbound
	}
	return a.openClient(ctx, c, hosts)
}

// mint gets the first access token of a mode that mints them, and adds it and what came with it. It reports false if
// the provider is away, which says nothing about the credentials. v has the errors of settings.
func (a *authenticator) mint(ctx context.Context, v *apperr.Violations, engine *outbound.Engine, mode *outbound.Mode,
	target *outbound.Target, current *Connection, store *credentials.New) (bool, error) {
	if mode.Client {
		if _, err := a.openClient(ctx, current, nil); err != nil {
			return false, err
		}
	}
	grant, err := a.protocol.Mint(ctx, tokens.Source{Engine: engine, Target: *target,
		OpenClient:      func(hosts []string) (outbound.Client, error) { return a.openClient(ctx, current, hosts) },
		OpenCredentials: func() (map[string]secretbox.Secret, error) { return store.Values, nil }}, nil)
	var e *oauth.TokenError
	switch {
	case err == nil:
	case !errors.As(err, &e):
		return false, err
	case e.Kind == oauth.Temporary:
		return false, nil
	case e.Kind == oauth.Misconfigured && e.Status == 0:
		v.Add("credentials", "usable", "no token can be requested with them: "+e.Description)
		return false, nil
	case e.Kind == oauth.ClientRefused:
		return false, apperr.New(apperr.CodeInvalidCredentials,
			"The provider refuses the OAuth client of the provider configuration: "+e.Error())
	default:
		return false, apperr.New(apperr.CodeInvalidCredentials, "The provider refuses the credentials: "+e.Error())
	}
	maps.Copy(store.Values, grant.Values)
	if grant.Scopes != nil {
		store.ScopesGranted = grant.Scopes
	}
	if !grant.ExpiresAt.IsZero() {
		store.ExpiresAt = &grant.ExpiresAt
	}
	for name, value := range grant.Config {
		target.Config[name] = secretbox.Secret(value)
	}
	return true, nil
}

// TokensModule returns what the renewal of the connections' tokens brings to the process.
func TokensModule(s *Service) module.Module { return s.auth.tokens.Module() }
