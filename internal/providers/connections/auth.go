package connections

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/tokens"
)

// Credentials are what a caller gives for the entry of auth.
type Credentials struct {
	// Values are the credentials by their names, such as "api_key".
	Values map[string]secretbox.Secret
	// Scopes are those of an OAuth token made elsewhere; nil if they are not known.
	Scopes []string
	// Requested are the scopes that were asked for; nil if they are not known.
	Requested []string
	// ExpiresAt is when an OAuth token made elsewhere expires; nil if it does not, or it is not known.
	ExpiresAt *time.Time
}

// configPrefix begins the names of values of the vault that are secrets of connection_config.
const configPrefix = "config."

// cutConfig returns the field of connection_config that a value of the vault belongs to.
func cutConfig(name string) (field string, found bool) { return strings.CutPrefix(name, configPrefix) }

// changesAuth reports whether the change concerns requests to the provider.
func (ch *Change) changesAuth() bool {
	return ch.AuthMode != nil || ch.Credentials.Set || ch.ConnectionConfig.Set
}

// authenticator knows what requests to providers are made from.
type authenticator struct {
	providers Providers
	vault     *credentials.Vault
	prober    *probes.Prober
	configs   *configs.Service
	limits    *limiter.Limiter
	addresses Addresses
	allowHTTP bool
	clock     clock.Clock
	protocol  *tokens.Protocol
	tokens    *tokens.Service
	turns     turns
	ways      ways
}

// target returns where requests of a connection go.
func (a *authenticator) target(ctx context.Context, c *Connection, mode string,
	config outbound.Config) (outbound.Target, error) {
	own, known, err := a.configs.Resolve(ctx, c.Environment, c.ProviderConfigKey)
	if err != nil {
		return outbound.Target{}, err
	}
	t := outbound.Target{Mode: mode, Config: config, AllowHTTP: a.allowHTTP}
	if known {
		t.BaseURL = own.BaseURL
	}
	return t, nil
}

// authChange is a checked change of how a connection authenticates. It is made outside of any transaction, because
// credentials are tested at the provider.
type authChange struct {
	// mode, config and account are what the connection has afterwards.
	mode    string
	config  map[string]string
	account outbound.Account
	// hosts are those to which requests would go; nil where that is not known yet.
	hosts []string
	// pinned are the hosts that were known before anything was sent.
	pinned []string
	// source is what requests are made from, if there are credentials.
	source tokens.Source
	// store are the credentials to store; nil to keep those that there are.
	store *credentials.New
	// drop deletes the credentials.
	drop bool
	// report is the outcome of a test; nil without one.
	report *probes.Report
}

// prepare checks a change of a connection's credentials and settings, and tests credentials that are given. It adds
// validation errors, and returns nil for a change that concerns neither. The error is invalid_credentials where the
// provider refuses them.
func (a *authenticator) prepare(ctx context.Context, v *apperr.Violations, provider *registry.Provider,
	current *Connection, ch *Change) (*authChange, error) {
	if !ch.changesAuth() || provider == nil {
		return nil, nil //nolint:nilnil // nothing to change
	}
	engine := provider.Outbound
	if engine == nil {
		refuseAuth(v, ch)
		return nil, nil //nolint:nilnil // v has the errors
	}
	given := maps.Clone(patch.MergeMembers(current.Config, ch.ConnectionConfig)) // secrets are added to it
	if ch.AuthMode != nil && *ch.AuthMode == NoAuth && !ch.Credentials.Set && len(current.fields()) > 0 {
		v.Add("auth_mode", "coherent", "must not be none while credentials are stored; give credentials: null to remove them")
	}
	if !ch.Credentials.Set {
		if err := a.addSecrets(ctx, current, given); err != nil {
			return nil, err
		}
	}
	if ch.Credentials.Null {
		return drop(v, engine, ch, given), nil
	}
	mode := chooseMode(v, engine, current, ch)
	switch {
	case mode == nil && (ch.AuthMode != nil || ch.Credentials.Given()):
		return nil, nil //nolint:nilnil // the mode is invalid, which v says
	case mode == nil:
		// The connection only receives webhooks: settings are complete when credentials are there.
		return &authChange{mode: current.AuthMode, config: checkGiven(v, engine, given), account: current.Account}, nil
	}
	return a.aim(ctx, v, engine, mode, current, ch, given)
}

// drop is a change that removes the credentials.
func drop(v *apperr.Violations, engine *outbound.Engine, ch *Change, given map[string]string) *authChange {
	if ch.AuthMode != nil && *ch.AuthMode != NoAuth {
		v.Add("auth_mode", "coherent", "must not be given together with credentials that are removed")
	}
	return &authChange{mode: NoAuth, drop: true, config: checkGiven(v, engine, given)}
}

// aim checks where requests of a mode would go, and keeps or replaces the credentials.
func (a *authenticator) aim(ctx context.Context, v *apperr.Violations, engine *outbound.Engine, mode *outbound.Mode,
	current *Connection, ch *Change, given map[string]string) (*authChange, error) {
	config, problems := engine.ResolveConfig(mode.Name, given)
	addProblems(v, problems)
	target, err := a.target(ctx, current, mode.Name, config)
	if err != nil {
		return nil, err
	}
	next := &authChange{mode: mode.Name, config: public(engine, config), account: current.Account}
	replacing := ch.Credentials.Given() || current.Credentials == nil || current.AuthMode != mode.Name
	if v.Err() == nil {
		if next.hosts, err = hostsOf(engine, mode, target, replacing || !hasToken(current.fields())); err != nil {
			addError(v, err)
		}
		a.checkAddresses(v, engine, target, next.hosts)
	}
	if v.Err() == nil {
		if err := a.checkClient(ctx, v, current, engine, target); err != nil {
			return nil, err
		}
	}
	if !replacing {
		next.source = tokens.Source{Engine: engine, Target: target}
		refuseSecretConfig(v, engine, ch)
		return next, nil
	}
	return a.replace(ctx, v, engine, mode, target, current, ch, next)
}

// hostsOf returns the hosts to which credentials would go. Where new ones are to be had from the provider, which may
// name a part of the base URL with them, it is enough to know the hosts of its endpoints.
func hostsOf(engine *outbound.Engine, mode *outbound.Mode, target outbound.Target, replacing bool) ([]string, error) {
	if replacing && mode.Mints() && len(mode.Token.Metadata) > 0 {
		return engine.EndpointHosts(target) //nolint:wrapcheck // addError reads it
	}
	return engine.Hosts(target) //nolint:wrapcheck // addError reads it
}

// replace checks and tests the credentials that are given.
func (a *authenticator) replace(ctx context.Context, v *apperr.Violations, engine *outbound.Engine,
	mode *outbound.Mode, target outbound.Target, current *Connection, ch *Change, next *authChange) (*authChange, error) {
	addProblems(v, mode.CheckCredentials(ch.Credentials.Value.Values))
	checkToken(v, mode, &ch.Credentials.Value, a.clock.Now())
	if ch.pinned != nil && !slices.Equal(ch.pinned, next.hosts) {
		return nil, errElsewhere()
	}
	if v.Err() != nil {
		return nil, nil //nolint:nilnil,nilerr // v has the errors
	}
	next.pinned = next.hosts
	return next, a.test(ctx, v, engine, mode, target, current, ch, next)
}

// test tests credentials unless the caller wants none, and completes the change with what is to be stored.
func (a *authenticator) test(ctx context.Context, v *apperr.Violations, engine *outbound.Engine, mode *outbound.Mode,
	target outbound.Target, current *Connection, ch *Change, next *authChange) error {
	given := ch.Credentials.Value
	values := credentials.Values{}
	for name, value := range given.Values {
		if value != "" {
			values[name] = value
		}
	}
	store := &credentials.New{ConnectionUUID: current.UUID, Environment: current.Environment, Mode: mode.Name,
		Values: values, BaseURL: target.BaseURL, ScopesRequested: given.Requested, ScopesGranted: given.Scopes,
		ExpiresAt: given.ExpiresAt}
	var err error
	if store.ClientID, err = a.clientOf(ctx, current, mode); err != nil {
		return err
	}
	if ch.GrantedTo != "" && mode.Client {
		store.ClientID = ch.GrantedTo
	}
	if _, refreshes := values[tokens.RefreshToken]; refreshes && mode.Client && store.ClientID == "" {
		return notConfigured(current) // the refresh token could not be used
	}
	// A token that has expired would only show that it has; it is renewed soon, which tests the refresh token.
	tested := !ch.Untested && !given.hasExpired(a.clock.Now())
	if tested && !ch.Granted {
		owner := limiter.Given{Environment: current.Environment, ConfigKey: current.ProviderConfigKey, Hosts: next.hosts}
		if ch.Entered {
			owner.Entered = current.UUID
		}
		if err := a.limits.AcquireGiven(ctx, owner, engine.Limits()); err != nil {
			return err
		}
	}
	minted := !mode.Mints()
	if !minted && tested {
		if minted, err = a.mint(ctx, v, engine, mode, &target, current, store); err != nil || v.Err() != nil {
			return err
		}
	}
	if tested && minted {
		probed, err := a.probe(ctx, v, engine, mode, target, current, store, next)
		if err != nil || !probed {
			return err
		}
	}
	next.config = public(engine, target.Config)
	hosts, err := engine.Hosts(target)
	if err != nil && !minted {
		hosts, err = engine.EndpointHosts(target) // the rest comes with the token
	}
	if next.hosts = hosts; err != nil {
		addError(v, err)
		return nil
	}
	for _, f := range engine.ConfigFields() {
		if value := target.Config[f.Name]; f.Secret && value != "" {
			values[configPrefix+f.Name] = value
		}
	}
	store.Hosts = next.hosts
	next.store, next.source = store, tokens.Source{Engine: engine, Target: target}
	return nil
}

// probe tests credentials that can be sent, and reports false if v has errors.
func (a *authenticator) probe(ctx context.Context, v *apperr.Violations, engine *outbound.Engine, mode *outbound.Mode,
	target outbound.Target, current *Connection, store *credentials.New, next *authChange) (bool, error) {
	values := outbound.Values{Target: target, Credentials: store.Values}
	if mode.Kind == outbound.OAuth1 { // the client signs every request
		client, err := a.signingClient(ctx, current, engine, target)
		if err != nil {
			return false, err
		}
		values.Client = client
	}
	report := a.prober.Run(ctx, engine, values)
	switch report.Code { //nolint:exhaustive // with the others the credentials are stored
	case probes.CodeCredentialsRefused:
		return false, refusedCredentials(&report)
	case egress.CodeTargetRefused:
		v.Add("connection_config", egress.CodeTargetRefused, report.Checks[len(report.Checks)-1].Message)
		return false, nil
	case probes.CodeNotSendable:
		v.Add("credentials", "usable", report.Checks[len(report.Checks)-1].Message)
		return false, nil
	}
	next.report, next.account = &report, report.Account
	for name, value := range report.Config {
		target.Config[name] = secretbox.Secret(value)
	}
	return true, nil
}

// errElsewhere refuses credentials that were given while another request changed where they would be sent.
func errElsewhere() error {
	return apperr.New(apperr.CodePreconditionFailed,
		"Another request has changed where the credentials would be sent; read the connection, and give them again")
}

// fields are the names of the stored credentials.
func (c *Connection) fields() []string {
	if c.Credentials == nil {
		return nil
	}
	return c.Credentials.Fields
}

// addSecrets adds the stored secrets of connection_config to those that are given.
func (a *authenticator) addSecrets(ctx context.Context, c *Connection, given map[string]string) error {
	if !slices.ContainsFunc(c.fields(), func(name string) bool { return strings.HasPrefix(name, configPrefix) }) {
		return nil
	}
	sealed, err := a.vault.Sealed(ctx, c.Environment, c.UUID)
	if err != nil {
		return fmt.Errorf("read the settings of connection %s: %w", c.UUID, err)
	}
	stored, err := a.vault.OpenAll(sealed)
	if err != nil {
		return err
	}
	for name, value := range stored {
		field, found := cutConfig(name)
		if _, other := given[field]; found && !other {
			given[field] = value.Reveal()
		}
	}
	return nil
}

const maxScopeBytes = 255

// checkToken checks what is given about an OAuth token that was made elsewhere.
func checkToken(v *apperr.Violations, mode *outbound.Mode, given *Credentials, now time.Time) {
	if mode.Kind != outbound.OAuth2 {
		for name, set := range map[string]bool{"scopes": given.Scopes != nil, "expires_at": given.ExpiresAt != nil} {
			if set {
				v.Add("credentials."+name, "mode", "is not a credential of the mode "+mode.Name)
			}
		}
		return
	}
	for i, scope := range given.Scopes {
		// RFC 6749, section 3.3.
		if scope == "" || len(scope) > maxScopeBytes || strings.ContainsFunc(scope, func(r rune) bool {
			return r <= ' ' || r == '"' || r == '\\' || r > '~'
		}) {
			v.Add(fmt.Sprintf("credentials.scopes[%d]", i), "pattern", "must be 1 to 255 printable ASCII characters without "+
				"blanks, quotes and backslashes")
		}
	}
	if given.hasExpired(now) && given.Values[tokens.RefreshToken] == "" {
		v.Add("credentials.expires_at", "future", "must be in the future, unless a refresh_token is given")
	}
}

// hasExpired reports whether the token that is given is known to be of no use any more.
func (c *Credentials) hasExpired(now time.Time) bool {
	return c.ExpiresAt != nil && !c.ExpiresAt.After(now)
}

func refusedCredentials(r *probes.Report) error {
	message := "The provider refuses the credentials"
	if said := r.Checks[len(r.Checks)-1].Message; said != "" {
		message += `; it says: "` + said + `"`
	}
	return apperr.New(apperr.CodeInvalidCredentials, message)
}

// refuseAuth adds an error for each part of a change that a provider without an API has no use for.
func refuseAuth(v *apperr.Violations, ch *Change) {
	const message = "the provider has no API that can be called here"
	if ch.AuthMode != nil && *ch.AuthMode != NoAuth {
		v.Add("auth_mode", "enum", message)
	}
	if ch.Credentials.Given() {
		v.Add("credentials", "provider", message)
	}
	if len(ch.ConnectionConfig.Value) > 0 {
		v.Add("connection_config", "provider", message)
	}
}

// checkGiven checks the values that are there and returns those that are no secrets.
func checkGiven(v *apperr.Violations, engine *outbound.Engine, given map[string]string) map[string]string {
	config, problems := engine.ResolveConfig("", given)
	for _, p := range problems {
		if name, found := strings.CutPrefix(p.Field, "connection_config."); found && given[name] != "" {
			addProblems(v, []outbound.Problem{p})
		}
	}
	out := map[string]string{}
	for name, value := range public(engine, config) {
		if given[name] != "" {
			out[name] = value
		}
	}
	return out
}

// public returns the values of connection_config that are no secrets.
func public(engine *outbound.Engine, config outbound.Config) map[string]string {
	out := map[string]string{}
	for _, f := range engine.ConfigFields() {
		if value, found := config[f.Name]; found && !f.Secret {
			out[f.Name] = value.Reveal()
		}
	}
	return out
}

// refuseSecretConfig adds an error for each secret of connection_config that a change gives without credentials: both
// are replaced together.
func refuseSecretConfig(v *apperr.Violations, engine *outbound.Engine, ch *Change) {
	for _, f := range engine.ConfigFields() {
		if _, given := ch.ConnectionConfig.Value[f.Name]; given && f.Secret {
			v.Add("connection_config."+f.Name, "coherent", "must be given together with credentials")
		}
	}
}

func addProblems(v *apperr.Violations, problems []outbound.Problem) {
	for _, p := range problems {
		rule := "outbound"
		if strings.HasSuffix(p.Message, "is missing") {
			rule = "required"
		}
		v.Add(p.Field, rule, p.Message)
	}
}

// addError adds the problems of an error of package outbound.
func addError(v *apperr.Violations, err error) {
	var config *outbound.ConfigError
	switch {
	case err == nil:
		return
	case errors.As(err, &config):
		addProblems(v, config.Problems)
		return
	}
	v.Add("body", "outbound", "no request to the provider can be made from it")
}
