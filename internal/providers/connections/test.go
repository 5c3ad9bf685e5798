package connections

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/tokens"

	"golang.org/x/sync/singleflight"
)

// refusalsUntilReauth is how many tests in a row must have found the credentials refused before they count as such: a
// provider can be wrong for a moment.
const refusalsUntilReauth = 2

// testsOfChanging is how often a connection is tested that changes during the test, as when its tokens are renewed:
// what was found may not be true of the new ones.
const testsOfChanging = 3

// Tested is the outcome of a test of a connection's credentials.
type Tested struct {
	// Connection is as the test leaves it. Its Health is the outcome.
	Connection Connection
	// Cached reports that no request was made: another test has just been made, or is in progress.
	Cached bool
}

// Tester tests the credentials of connections. It is safe for concurrent use.
type Tester struct {
	svc     *Service
	flights singleflight.Group
}

// NewTester returns the tester of the service, which is always the same, so that tests of a connection at the same time
// are one. Without a service, as for the API's document, there is none.
func NewTester(s *Service) *Tester {
	if s == nil {
		return nil
	}
	return s.tester
}

// Test tests the credentials of a connection of the actor's environment at the provider. It returns
// connection_not_ready for a connection that is disabled or has no credentials, and for one whose credentials were
// given for other hosts.
func (t *Tester) Test(ctx context.Context, actor access.Principal, providerConfigKey, connectionID string) (Tested,
	error) {
	c, err := t.svc.Get(ctx, actor.View(), providerConfigKey, connectionID)
	if err != nil {
		return Tested{}, err
	}
	if err := c.requireOwner(actor); err != nil {
		return Tested{}, err
	}
	if err := c.testable(); err != nil {
		return Tested{}, err
	}
	if c.isTested(t.svc.clock.Now()) {
		return Tested{Connection: c, Cached: true}, nil
	}
	for range testsOfChanging {
		var tested Tested
		if tested, err = t.share(ctx, c); !errors.Is(err, errStale) {
			return tested, err
		}
	}
	return Tested{}, err
}

// share tests a connection together with everyone who asks for it at the same time.
func (t *Tester) share(ctx context.Context, c Connection) (Tested, error) {
	own := false
	result, err, _ := t.flights.Do(c.UUID, func() (any, error) {
		again, err := t.reread(ctx, &c)
		if err != nil || again.isTested(t.svc.clock.Now()) {
			return again, err // another test has ended since the caller looked
		}
		c, own = again, true
		// Others wait for the outcome, so it does not end with this request.
		return t.run(context.WithoutCancel(ctx), &c, nil)
	})
	if err != nil {
		return Tested{}, err //nolint:wrapcheck // it is that of run
	}
	tested, _ := result.(Connection)
	return Tested{Connection: tested, Cached: !own}, nil
}

// testable returns connection_not_ready for a connection whose credentials cannot be tested.
func (c *Connection) testable() error {
	switch {
	case c.Credentials == nil:
		return apperr.New(apperr.CodeConnectionNotReady, "The connection has no credentials")
	case c.Status == Disabled:
		return apperr.New(apperr.CodeConnectionNotReady, "The connection is disabled")
	default:
		return nil
	}
}

// errStale says that a connection was changed while it was tested.
var errStale = errors.New("the connection was changed while it was tested")

// run tests a connection and stores the outcome, which temper may have changed; nil for nothing.
func (t *Tester) run(ctx context.Context, c *Connection,
	temper func(*Connection, *probes.Report, time.Time)) (Connection, error) {
	s := t.svc
	account, values, err := s.auth.open(ctx, c)
	if errors.Is(err, tokens.ErrHosts) {
		if c, err = t.aimAgain(ctx, c); err == nil {
			account, values, err = s.auth.open(ctx, c)
		}
	}
	if err != nil {
		return Connection{}, err
	}
	engine := account.Source.Engine
	observe, err := s.auth.acquire(ctx, c, engine)
	if err != nil {
		return Connection{}, err
	}
	report := s.auth.prober.RunObserved(ctx, engine, values, observe)
	if report.Code == probes.CodeCredentialsRefused && account.IsRenewable() {
		// The access token may have ended before its time. Its refusal decides nothing if another one is accepted, or if
		// none is to be had because the provider is away.
		renewed, failure := s.auth.tokens.Renew(ctx, account, false)
		again, err := t.reread(ctx, c) // a dead grant has changed the status
		if err != nil {
			return Connection{}, err
		}
		c = &again
		switch {
		case failure == nil:
			if account, values, err = s.auth.reveal(ctx, c, renewed); err != nil {
				return Connection{}, err
			}
			if observe, err = s.auth.acquire(ctx, c, engine); err != nil {
				return Connection{}, err
			}
			report = s.auth.prober.RunObserved(ctx, engine, values, observe)
		case c.EnabledStatus != NeedsReauth && c.Credentials.RefreshFailures > 0:
			report.Status, report.Code = probes.Degraded, probes.CodeProviderError
		}
	}
	if temper != nil {
		temper(c, &report, s.clock.Now())
	}
	if err := ctx.Err(); err != nil {
		return Connection{}, err // the end of this process says nothing about the provider
	}
	if c, err = t.follow(ctx, c, account); err != nil {
		return Connection{}, staleAsNotReady(err)
	}
	var tested Connection
	uuid := c.UUID
	err = s.change(ctx, &uuid, func(tx *sql.Tx) error {
		var err error
		tested, err = t.store(ctx, tx, c, engine, &report)
		return err
	})
	return tested, staleAsNotReady(err)
}

func staleAsNotReady(err error) error {
	if errors.Is(err, errStale) {
		return apperr.Wrap(apperr.CodeConnectionNotReady, "The connection was changed while it was tested; test it again",
			errStale)
	}
	return err
}

func (t *Tester) reread(ctx context.Context, c *Connection) (Connection, error) {
	again, err := find(ctx, t.svc.db.Read(), c.Environment, c.ProviderConfigKey, c.ConnectionID)
	if err != nil {
		return Connection{}, err
	}
	if err := t.svc.auth.describe(ctx, t.svc.db.Read(), c.Environment, &again); err != nil {
		return Connection{}, err
	}
	return again, again.testable()
}

// follow reads the connection again if its tokens were renewed for the test.
func (t *Tester) follow(ctx context.Context, c *Connection, account *tokens.Account) (*Connection, error) {
	if account.Sealed.Revision == c.Credentials.Revision {
		return c, nil
	}
	again, err := t.reread(ctx, c)
	if err == nil && again.Credentials.Revision != account.Sealed.Revision {
		err = errStale // others were given meanwhile
	}
	return &again, err
}

// aimAgain reads everything again of a connection whose requests would go to hosts for which its credentials were not
// given, in case that this was read at different times. If it is true, it records it and returns tokens.ErrHosts.
func (t *Tester) aimAgain(ctx context.Context, c *Connection) (*Connection, error) {
	account, err := accounts{t.svc}.Account(ctx, c.Environment, c.UUID)
	if errors.Is(err, tokens.ErrHosts) {
		if failure := t.markMoved(ctx, c, account); failure != nil {
			return nil, failure
		}
	}
	if err != nil {
		return nil, err
	}
	again, err := t.reread(ctx, c)
	return &again, err
}

// markMoved records that the credentials of a connection have to be given again for its present hosts: a provider
// configuration or a definition has changed them. It leaves a connection that is another than the one that was read.
func (t *Tester) markMoved(ctx context.Context, seen *Connection, account *tokens.Account) error {
	uuid := seen.UUID
	return t.svc.change(ctx, &uuid, func(tx *sql.Tx) error {
		c, err := lock(ctx, tx, seen.Environment, seen.ProviderConfigKey, seen.ConnectionID)
		if err != nil || c.UUID != seen.UUID || c.EnabledReason == ReasonHostChanged {
			return err
		}
		if err := t.svc.auth.describe(ctx, tx, c.Environment, &c); err != nil {
			return err
		}
		if !c.UpdatedAt.Equal(account.Version) || c.Credentials == nil ||
			c.Credentials.Revision != account.Sealed.Revision {
			return nil
		}
		kinds := c.moveTo(NeedsReauth, ReasonHostChanged)
		c.UpdatedAt = clock.After(t.svc.now(), c.UpdatedAt)
		if err := update(ctx, tx, &c); err != nil {
			return err
		}
		return publish(ctx, tx, t.svc.onChange, &c, kinds)
	})
}

// store stores the outcome of a test, and what it means for the connection. It returns errStale if the connection
// is another than the one that was tested.
func (t *Tester) store(ctx context.Context, tx *sql.Tx, seen *Connection, engine *outbound.Engine,
	r *probes.Report) (Connection, error) {
	s := t.svc
	c, err := lock(ctx, tx, seen.Environment, seen.ProviderConfigKey, seen.ConnectionID)
	if err != nil {
		return Connection{}, err
	}
	if err := s.auth.describe(ctx, tx, c.Environment, &c); err != nil {
		return Connection{}, err
	}
	if c.UUID != seen.UUID || c.Credentials == nil || c.Credentials.Revision != seen.Credentials.Revision ||
		!c.UpdatedAt.Equal(seen.UpdatedAt) {
		return Connection{}, errStale
	}
	now := s.now()
	health := c.Health.after(r, now)
	if err := storeHealth(ctx, tx, c.Environment, c.UUID, &health); err != nil {
		return Connection{}, err
	}
	var kinds []ChangeKind
	if c.Health != nil && (c.Health.Status != health.Status || c.Health.Code != health.Code) ||
		c.Health == nil && health.Status != probes.Healthy {
		kinds = append(kinds, HealthChanged)
	}
	c.Health = &health
	before := c
	switch {
	case health.Refusals >= refusalsUntilReauth && c.EnabledStatus == Active:
		kinds = append(kinds, c.moveTo(NeedsReauth, ReasonCredentialsRefused)...)
	case health.Status == probes.Healthy && c.EnabledStatus == NeedsReauth && (c.EnabledReason == ReasonHostChanged ||
		c.EnabledReason == ReasonCredentialsRefused):
		kinds = append(kinds, c.moveTo(Active, "")...)
		if err := s.auth.resume(ctx, tx, &c); err != nil {
			return Connection{}, err
		}
	}
	c.learn(engine, r)
	if changed := !maps.Equal(before.Config, c.Config) || before.Account != c.Account ||
		before.EnabledStatus != c.EnabledStatus; changed {
		c.UpdatedAt = clock.After(now, c.UpdatedAt)
		if err := update(ctx, tx, &c); err != nil {
			return Connection{}, err
		}
	}
	if len(kinds) == 0 {
		return c, nil
	}
	return c, publish(ctx, tx, s.onChange, &c, kinds)
}

// learn takes over what a test has found at the provider.
func (c *Connection) learn(engine *outbound.Engine, r *probes.Report) {
	if r.Account.ID != "" {
		c.Account = r.Account
	}
	if len(r.Config) == 0 {
		return
	}
	config := outbound.Config{}
	for name, value := range c.Config {
		config[name] = secretbox.Secret(value)
	}
	for name, value := range r.Config {
		config[name] = secretbox.Secret(value)
	}
	c.Config = public(engine, config)
}

// acquire waits until the requests of a test may be sent, and returns what learns from their responses. It returns
// rate_limited if that takes too long.
func (a *authenticator) acquire(ctx context.Context, c *Connection, engine *outbound.Engine) (probes.Observer, error) {
	caller, rules, err := a.limitsOf(ctx, c, engine)
	if err != nil {
		return nil, err
	}
	for range sentProbes(engine, c) {
		if err := a.limits.Acquire(ctx, caller, rules); err != nil {
			return nil, err
		}
	}
	return func(r outbound.Response, v outbound.Verdict) { a.limits.Observe(caller, engine.Limits(), r, v) }, nil
}

// sentProbes returns the probes that a test of a connection sends.
func sentProbes(engine *outbound.Engine, c *Connection) []*outbound.HealthProbe {
	config := c.publicConfig()
	return slices.DeleteFunc(engine.Probes(c.AuthMode), func(p *outbound.HealthProbe) bool { return !p.Sent(config) })
}

// publicConfig is the connection's settings for an engine, without secrets.
func (c *Connection) publicConfig() outbound.Config {
	out := make(outbound.Config, len(c.Config))
	for name, value := range c.Config {
		out[name] = secretbox.Secret(value)
	}
	return out
}
