package connections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/masking"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/tokens"
)

// Signer makes requests to providers with the credentials of connections, for the pipeline of calls, which decides
// whether they may be made. Nothing else may use it. It is safe for concurrent use.
type Signer struct{ svc *Service }

// NewSigner returns the signer of the service.
func NewSigner(s *Service) *Signer { return &Signer{s} }

// Find returns a connection that the view shows, or connection_not_found. It reads memory, unless the connection was
// not looked up lately. The connection is shared and read-only, and has neither health nor a description of its
// credentials.
func (g *Signer) Find(ctx context.Context, v access.View, providerConfigKey, connectionID string) (*Connection, error) {
	if !possible(providerConfigKey, connectionID) || !v.Connections.Contains(connectionID) {
		return nil, connectionNotFound()
	}
	a := address{v.Environment, providerConfigKey, connectionID}
	if uuid, known := g.svc.addressed.get(a); known {
		if c, err := g.at(ctx, a, uuid); c != nil || err != nil {
			return c, err
		}
	}
	uuid, err := findAddressed(ctx, g.svc.loader.paths, a)
	if err != nil {
		return nil, err
	}
	c, err := g.at(ctx, a, uuid)
	if c == nil && err == nil {
		g.svc.inbound.Drop(uuid) // another process has changed the connection since it was read
		c, err = g.at(ctx, a, uuid)
	}
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, connectionNotFound()
	}
	g.svc.addressed.set(a, uuid)
	return c, nil
}

// at returns the connection of the UUID if it has the address, and otherwise nil.
func (g *Signer) at(ctx context.Context, a address, uuid string) (*Connection, error) {
	v, err := snapshotOf(ctx, g.svc, uuid)
	switch {
	case apperr.Is(err, apperr.CodeNotFound):
		return nil, nil //nolint:nilnil // a connection that is gone has no address
	case err != nil:
		return nil, err
	}
	c := &v.byToken.Connection
	if c.Environment != a.environment || c.ProviderConfigKey != a.key || c.ConnectionID != a.id {
		return nil, nil //nolint:nilnil // it has another one
	}
	return c, nil
}

func connectionNotFound() error {
	return apperr.New(apperr.CodeConnectionNotFound, "The provider configuration has no connection with this id")
}

// address names a connection in its environment.
type address struct {
	environment id.Environment
	key, id     string
}

// addressed remembers which connections addresses name. It may be outdated and is never cleared: what it says is
// compared with the connection.
type addressed struct {
	mu    sync.RWMutex
	uuids map[address]string
}

func (n *addressed) get(a address) (uuid string, known bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	uuid, known = n.uuids[a]
	return uuid, known
}

func (n *addressed) set(a address, uuid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.uuids == nil {
		n.uuids = map[address]string{}
	}
	for victim := range n.uuids { // map order is random enough to choose by
		if len(n.uuids) < maxCached {
			break
		}
		delete(n.uuids, victim)
	}
	n.uuids[a] = uuid
}

func findAddressed(ctx context.Context, q querier, a address) (uuid string, err error) {
	err = q.QueryRowContext(ctx, `SELECT uuid FROM connections
		WHERE environment_id = $1 AND provider_config_key = $2 AND connection_id = $3`, string(a.environment), a.key,
		a.id).Scan(&uuid)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", connectionNotFound()
	case err != nil:
		return "", fmt.Errorf("find a connection: %w", err)
	}
	return uuid, nil
}

// Session is a connection whose credentials can be used. It holds none of them in clear. It belongs to one call.
type Session struct {
	svc        *Service
	connection *Connection
	provider   *registry.Provider
	// account is nil for a connection to an API that needs no credentials; target is then where its requests go.
	account *tokens.Account
	target  outbound.Target
}

// Open returns a session for a connection of Find. It reads memory, unless the access token has expired: then it waits
// for another one.
//
// Errors: connection_owned, connection_not_ready.
func (g *Signer) Open(ctx context.Context, actor access.Principal, c *Connection) (*Session, error) {
	s, err := g.begin(actor, c)
	if err != nil {
		return nil, err
	}
	account, err := g.svc.auth.account(ctx, c)
	switch {
	case err == nil:
		s.account, err = g.svc.auth.tokens.Fresh(ctx, account)
		return s, err //nolint:wrapcheck // an error of the API
	case errors.Is(err, tokens.ErrHosts):
		return s, s.aimAgain(ctx)
	case apperr.Is(err, apperr.CodeNotFound):
		return s, s.openWithout(ctx)
	}
	return nil, err
}

// begin returns the session of an actor who may use a connection that makes calls now, without credentials.
func (g *Signer) begin(actor access.Principal, c *Connection) (*Session, error) {
	if err := c.requireOwner(actor); err != nil {
		return nil, err
	}
	if err := c.callable(); err != nil {
		return nil, err
	}
	provider, ok := g.svc.providers.Find(c.Environment, c.Provider)
	if !ok || provider.Outbound == nil {
		return nil, apperr.New(apperr.CodeConnectionNotReady, "The provider has no API that can be called here")
	}
	return &Session{svc: g.svc, connection: c, provider: provider}, nil
}

// Readiness is what is known of a connection before a call.
type Readiness struct {
	// Problem is the error with which Open refuses the actor; nil if it does not, as long as an expired token can be
	// renewed.
	Problem *apperr.Error
	// Granted are the scopes that the provider has granted; empty if it has not said which.
	Granted []string
	// RateLimit is what the provider has said about its limit; nil if nothing is known.
	RateLimit *limiter.State
}

// Look says what is known of a connection of Find before a call. Unlike Open it has no effect: no token is renewed and
// no status changes.
func (g *Signer) Look(ctx context.Context, actor access.Principal, c *Connection) (*Readiness, error) {
	problem, err := g.problem(ctx, actor, c)
	if err != nil {
		return nil, err
	}
	described, err := g.svc.Get(ctx, access.Whole(c.Environment), c.ProviderConfigKey, c.ConnectionID)
	switch {
	case apperr.Is(err, apperr.CodeNotFound):
		return nil, connectionNotFound() // it was deleted meanwhile
	case err != nil:
		return nil, err
	}
	r := &Readiness{Problem: problem, RateLimit: described.RateLimit}
	if described.Credentials != nil {
		r.Granted = described.Credentials.ScopesGranted
	}
	return r, nil
}

// problem returns the error with which Open refuses an actor, as far as that is known without an effect.
func (g *Signer) problem(ctx context.Context, actor access.Principal, c *Connection) (*apperr.Error, error) {
	s, err := g.begin(actor, c)
	if err == nil {
		_, err = g.svc.auth.account(ctx, c)
	}
	switch {
	case errors.Is(err, tokens.ErrHosts):
		// Open reads again, and finds either that this was outdated or what the message says.
		return apperr.New(apperr.CodeConnectionNotReady, "The credentials were given for other hosts"), nil
	case apperr.Is(err, apperr.CodeNotFound):
		err = s.openWithout(ctx)
	}
	var known *apperr.Error
	owned, notReady := apperr.Is(err, apperr.CodeConnectionOwned), apperr.Is(err, apperr.CodeConnectionNotReady)
	if errors.As(err, &known) && (owned || notReady) {
		return known, nil
	}
	return nil, err
}

// callable returns connection_not_ready for a connection that makes no calls now.
func (c *Connection) callable() error {
	switch c.Status {
	case Active:
		return nil
	case Disabled:
		return apperr.New(apperr.CodeConnectionNotReady, "The connection is disabled")
	case Pending:
		return apperr.New(apperr.CodeConnectionNotReady, "The connection waits for a person to connect an account")
	default:
		return apperr.New(apperr.CodeConnectionNotReady, "The connection has the status "+string(c.Status)+" ("+
			c.StatusReason+")")
	}
}

// aimAgain reads the connection, its credentials and its provider configuration again, which may be of different times.
// If they do lead to another host than the credentials were given for, that is recorded.
func (s *Session) aimAgain(ctx context.Context) error {
	account, err := accounts{s.svc}.Account(ctx, s.connection.Environment, s.connection.UUID)
	if errors.Is(err, tokens.ErrHosts) {
		if failure := s.svc.tester.markMoved(ctx, s.connection, account); failure != nil {
			return failure
		}
	}
	if err != nil {
		return err
	}
	s.account, err = s.svc.auth.tokens.Fresh(ctx, account)
	return err //nolint:wrapcheck // an error of the API
}

// openWithout opens the session of a connection without credentials, where the provider needs none.
func (s *Session) openWithout(ctx context.Context) error {
	engine := s.provider.Outbound
	for _, m := range engine.Modes() {
		if m.Kind != outbound.None {
			continue
		}
		config, problems := engine.ResolveConfig(m.Name, s.connection.Config)
		if len(problems) > 0 {
			return apperr.New(apperr.CodeConnectionNotReady, "The connection's settings do not fit the provider's definition")
		}
		var err error
		s.target, err = s.svc.auth.target(ctx, s.connection, m.Name, config)
		return err
	}
	return apperr.New(apperr.CodeConnectionNotReady, "The connection has no credentials")
}

// Provider returns the provider's definition. Its engine says what responses mean.
func (s *Session) Provider() *registry.Provider { return s.provider }

// Acquire waits until a request may be sent by the limits of the provider, as far as ctx and the definition allow.
//
// Errors: rate_limited.
func (s *Session) Acquire(ctx context.Context) error {
	caller, rules, err := s.svc.auth.limitsOf(ctx, s.connection, s.provider.Outbound)
	if err != nil {
		return err
	}
	return s.svc.auth.limits.Acquire(ctx, caller, rules) //nolint:wrapcheck // an error of the API
}

// Observe learns from a response what the provider says about its limits.
func (s *Session) Observe(r outbound.Response, v outbound.Verdict) {
	c := s.connection
	s.svc.auth.limits.Observe(limiter.Caller{Environment: c.Environment, Connection: c.UUID,
		ConfigKey: c.ProviderConfigKey}, s.provider.Outbound.Limits(), r, v)
}

// Signed is a request with credentials, and what masks these in a response.
type Signed struct {
	Request *http.Request
	Mask    *masking.Masker
}

// Prepare makes a request with the credentials of the connection. A redirect leads to a URL, and keeps the credentials
// only on the host, and with the scheme, of the base URL; nil for a request to the base URL.
//
// The error is an *outbound.ConfigError if no such request can be made.
func (s *Session) Prepare(ctx context.Context, out outbound.Outgoing, redirect *url.URL) (*Signed, error) {
	values, err := s.reveal(ctx)
	if err != nil {
		return nil, err
	}
	engine := s.provider.Outbound
	var req *http.Request
	if redirect == nil {
		req, err = engine.Prepare(ctx, out, values)
	} else {
		req, err = outbound.PrepareRedirect(ctx, engine, redirect, out, values)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // as documented
	}
	return &Signed{Request: req, Mask: probes.NewMasker(engine, &values, req, out.Header)}, nil
}

// reveal returns what requests are made from, with the credentials in clear.
func (s *Session) reveal(ctx context.Context) (outbound.Values, error) {
	if s.account == nil {
		return outbound.Values{Target: s.target, Now: s.svc.clock.Now(),
			Credentials: map[string]secretbox.Secret{}}, nil
	}
	_, values, err := s.svc.auth.reveal(ctx, s.connection, s.account)
	return values, err
}

// Renew gets another access token after the provider has refused the present one. It reports false if there is none to
// be had, or if the credentials are none that are renewed.
func (s *Session) Renew(ctx context.Context) (bool, error) {
	if s.account == nil || !s.account.IsRenewable() {
		return false, nil
	}
	renewed, err := s.svc.auth.tokens.Renew(ctx, s.account, false)
	if err != nil {
		var known *apperr.Error
		if errors.As(err, &known) {
			return false, nil
		}
		return false, err //nolint:wrapcheck // it says what failed
	}
	s.account = renewed
	return true, nil
}

// limitsOf returns the limits that apply to requests of a connection.
func (a *authenticator) limitsOf(ctx context.Context, c *Connection, engine *outbound.Engine) (limiter.Caller,
	limiter.Rules, error) {
	own, known, err := a.configs.Resolve(ctx, c.Environment, c.ProviderConfigKey)
	if err != nil {
		return limiter.Caller{}, limiter.Rules{}, err
	}
	var override outbound.BudgetRule
	if known && own.RateLimit != nil {
		override = outbound.BudgetRule{Limit: int(own.RateLimit.Requests),
			Per: time.Duration(own.RateLimit.PerSeconds) * time.Second}
	}
	return limiter.Caller{Environment: c.Environment, Connection: c.UUID, ConfigKey: c.ProviderConfigKey},
		limiter.RulesOf(engine.Limits(), override), nil
}
