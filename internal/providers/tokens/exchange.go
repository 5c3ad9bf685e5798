package tokens

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
)

// run makes the exchange of a lease and stores its outcome; asked says that a user wants it. When it had the lease, the
// caller has dropped what was in memory of the connection, because what another node has stored counts. The error says
// why there are no new tokens.
func (s *Service) run(ctx context.Context, held *row, asked bool) error {
	defer s.worker.keep(held)()
	a, err := s.cfg.Accounts.Account(ctx, held.environment, held.connectionUUID)
	now := s.cfg.Clock.Now()
	switch {
	case apperr.Is(err, apperr.CodeNotFound):
		return notReady("The connection has no credentials", nil)
	case errors.Is(err, ErrHosts):
		return s.finish(ctx, held, held.postponed(now), &Outcome{State: Moved, Version: a.Version}, outcomeMoved, err)
	case apperr.Is(err, apperr.CodeConnectionNotReady):
		return s.finish(ctx, held, held.postponed(now), s.unfit(ctx, held, now), outcomeMisconfigured, err)
	case err != nil:
		s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "cannot read a connection whose tokens are to be renewed",
			slog.String("connection_uuid", held.connectionUUID), slog.String("error", err.Error()))
		wait := maxBackoff // such as a secret that does not open, which a user has to give again
		if db.IsUnavailable(err) {
			wait = coolDown
		}
		at := now.Add(wait)
		return s.finish(ctx, held, &at, nil, "", err)
	case a.Idle:
		return s.finish(ctx, held, held.postponed(now), nil, "", notReady("The connection is disabled", nil))
	case a.Foreign:
		return s.finish(ctx, held, held.postponed(now), &Outcome{State: Foreign}, "", errForeign())
	case a.Dead && !asked:
		return s.finish(ctx, held, nil, nil, "", errDead()) // other credentials are scheduled
	}
	w := wayOf(a.mode(), &a.Sealed.Set)
	if w == neither {
		outcome := &Outcome{State: Ended, Reason: ReasonTokenExpired}
		if !isOver(&a.Sealed.Set, now) {
			return s.finish(ctx, held, a.Sealed.ExpiresAt, nil, "", nil)
		}
		return s.finish(ctx, held, nil, outcome, outcomeEnded, nil)
	}
	if !asked && held.isHeldBack(now) {
		return s.leaveAlone(ctx, held, a, now)
	}
	if s.cfg.Clock.Now().Add(ExchangeTimeout).After(held.leaseUntil) {
		// This process stood still, and another may have the lease before the response comes.
		return s.finish(ctx, held, held.due, nil, "", notReady("The access token could not be renewed in time", nil))
	}
	var late atomic.Bool
	permitted := *a
	permitted.Source.Permit = func() bool { // the process may have stood still since
		late.Store(s.cfg.Clock.Now().Add(ExchangeTimeout).After(held.leaseUntil))
		return !late.Load()
	}
	grant, err := s.exchange(ctx, &permitted, w)
	if late.Load() {
		return s.finish(ctx, held, held.due, nil, "", notReady("The access token could not be renewed in time", nil))
	}
	if errors.Is(err, ErrHosts) {
		return s.finish(ctx, held, held.postponed(now), &Outcome{State: Moved, Version: a.Version}, outcomeMoved, err)
	}
	if err != nil {
		return s.fail(ctx, held, a, err)
	}
	hosts, err := firstHosts(a, grant)
	if err != nil {
		return s.fail(ctx, held, a, err)
	}
	return s.succeed(ctx, held, a, grant, hosts)
}

// longUnknown is for how long a connection can show that all is well although its tokens may be dead, because the
// endpoint that has to say so wants to be left alone.
const longUnknown = time.Minute

// longFailing is the same for an endpoint that fails again and again, and is asked less and less often.
const longFailing = 5 * time.Minute

// leaveAlone ends a lease without an exchange, because the endpoint has failed and is to be left alone for longer. The
// connection shows it as soon as its token has expired, and if it may be dead.
func (s *Service) leaveAlone(ctx context.Context, held *row, a *Account, now time.Time) error {
	var outcome *Outcome
	unknown := held.isInterrupted() && held.notBefore.Sub(now) > longUnknown
	if isStale(a.mode(), &a.Sealed.Set, now) || unknown {
		outcome = &Outcome{State: Failing, Reason: ReasonEndpointFailing}
	}
	due := held.notBefore
	if end := a.Sealed.ExpiresAt; end != nil && end.After(now) && due.After(*end) {
		due = end // which the connection has to show
	}
	return s.finish(ctx, held, due, outcome, "", notReady("The access token could not be renewed; the next "+
		"attempt is made later", nil))
}

// firstHosts returns the hosts of credentials whose first token has named where the API is; nil if they do not change.
// Later tokens cannot move them.
func firstHosts(a *Account, grant *Grant) ([]string, error) {
	mode := a.mode()
	if !mode.Mints() || len(mode.Token.Metadata) == 0 || slices.Contains(a.Sealed.Fields, AccessToken) {
		return nil, nil
	}
	target := a.Source.Target
	target.Config = maps.Clone(target.Config)
	if target.Config == nil {
		target.Config = outbound.Config{}
	}
	for name, value := range grant.Config {
		target.Config[name] = secretbox.Secret(value)
	}
	hosts, err := a.Source.Engine.Hosts(target)
	if err != nil {
		return nil, misconfigured("the token came without a host that requests may be sent to")
	}
	return hosts, nil
}

// unfit returns the outcome for a connection from whose settings no request can be made: nil while its token is valid.
func (s *Service) unfit(ctx context.Context, held *row, now time.Time) *Outcome {
	sets, err := s.cfg.Vault.Sets(ctx, s.cfg.DB.Read(), held.environment, []string{held.connectionUUID})
	if set, found := sets[held.connectionUUID]; err != nil || !found || !isOver(&set, now) {
		return nil
	}
	return &Outcome{State: Failing, Reason: ReasonMisconfigured}
}

// postponed returns when to look again at a connection of which nothing can be renewed now. Tokens that may be dead are
// looked at soon after that changes, also if the change comes while this is stored.
func (r *row) postponed(now time.Time) *time.Time {
	at := now.Add(postponement)
	if r.isInterrupted() {
		at = now.Add(2 * coolDown)
	}
	return &at
}

func (s *Service) exchange(ctx context.Context, a *Account, w way) (*Grant, error) {
	if w == mints {
		var scopes []string
		if len(a.Sealed.ScopesRequested) > 0 {
			scopes = a.Sealed.ScopesRequested
		}
		return s.cfg.Protocol.Mint(ctx, a.Source, scopes)
	}
	return s.cfg.Protocol.Refresh(ctx, a.Source)
}

// succeed stores a grant, or that it cannot be stored. It does not stop before that is done or the lease ends: a
// refresh token that the provider has replaced exists nowhere else.
func (s *Service) succeed(ctx context.Context, held *row, a *Account, grant *Grant, hosts []string) error {
	renewal := &credentials.Renewal{Of: a.Sealed, Values: credentials.Values(grant.Values), ScopesGranted: grant.Scopes,
		Hosts: hosts}
	if !grant.ExpiresAt.IsZero() {
		renewal.ExpiresAt = &grant.ExpiresAt
	}
	outcome := ""
	err := s.store(ctx, s.renewed, held, func(ctx context.Context, tx *sql.Tx, announced bool) error {
		outcome = "" // of a connection that is gone
		return s.cfg.Accounts.Change(ctx, tx, held.environment, held.connectionUUID, func() (*Outcome, error) {
			now := s.cfg.Clock.Now()
			next := *held
			next.attempted, next.notBefore, next.interrupted = &now, nil, 0
			renewal.Announced = announced
			renewed, err := s.cfg.Vault.Renew(ctx, tx, renewal)
			if err != nil {
				return nil, err
			}
			if !renewed { // others were given meanwhile, which are scheduled
				outcome = outcomeReplaced
				return nil, releaseOnly(ctx, tx, held)
			}
			set := a.Sealed.Set
			set.RefreshedAt, set.ExpiresAt, set.Fields = &now, renewal.ExpiresAt, withNames(set.Fields, grant.Values)
			next.due, next.endpoint = dueTime(a.mode(), &set, now, s.cfg.Random()), endpointOf(a.Source)
			next.revision = a.Sealed.Revision + 1
			if held, err := release(ctx, db.Prepared(s.cfg.DB, tx), &next); err != nil || !held {
				return nil, errors.Join(err, lost(held))
			}
			outcome = outcomeRenewed
			return &Outcome{State: Renewed, Config: grant.Config}, nil
		})
	})
	if err == nil {
		s.metrics.count(outcome)
	}
	if errors.Is(err, errLost) || outcome == outcomeReplaced {
		s.doubt(ctx, held)
	}
	if err == nil || isTransient(err) {
		return err
	}
	// The next exchange shows whether the former tokens are still accepted.
	return s.fail(ctx, held, a, &oauth.TokenError{Kind: oauth.Temporary,
		Description: "the gateway cannot store what it has sent"})
}

// isTransient reports whether a commit that failed can succeed later, or must not be made any more.
func isTransient(err error) bool { return errors.Is(err, errLost) || db.IsUnavailable(err) }

// errLost says that another node has taken the lease of an exchange, or that others were given, so that its outcome is
// not stored.
//
//nolint:gochecknoglobals,errname // one value, which errors.Is recognises
var errLost error = apperr.New(apperr.CodeConnectionNotReady,
	"Another renewal of the tokens began before the outcome of this one was stored; try again")

// doubt makes the tokens that another node has stored meanwhile be renewed: this process has sent the refresh token
// that they replaced, perhaps after the other, for which a provider may have ended the grant. It waits for an exchange
// of the other that is in progress.
func (s *Service) doubt(ctx context.Context, held *row) {
	ctx = context.WithoutCancel(ctx)
	s.worker.begin()
	go func() {
		defer s.worker.end()
		s.renewDoubtful(ctx, held)
	}()
}

func (s *Service) renewDoubtful(ctx context.Context, held *row) {
	for end := s.cfg.Clock.Now().Add(2 * s.cfg.Lease); s.cfg.Clock.Now().Before(end); {
		r, found, err := find(ctx, s.cfg.DB.Read(), held.environment, held.connectionUUID)
		if err == nil && (!found || r.lease == "" || !r.leaseUntil.After(s.cfg.Clock.Now())) {
			break
		}
		<-s.cfg.Clock.NewTimer(storeInterval).C()
	}
	if err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		return suspect(ctx, tx, held, s.cfg.Clock.Now())
	}); err != nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "cannot have tokens renewed that may be dead",
			slog.String("connection_uuid", held.connectionUUID), slog.String("error", err.Error()))
	}
}

func lost(held bool) error {
	if held {
		return nil
	}
	return errLost
}

// fail stores a failed exchange. Only the provider's word that a grant is dead condemns the connection, and only if no
// one has stored other credentials meanwhile.
func (s *Service) fail(ctx context.Context, held *row, a *Account, cause error) error {
	e := tokenError(cause)
	if e == nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "cannot make a request for tokens",
			slog.String("connection_uuid", held.connectionUUID), slog.String("error", cause.Error()))
		e = &oauth.TokenError{Kind: oauth.Misconfigured, Description: "the gateway cannot open what it needs"}
	}
	kind, reason := outcomeOf(e.Kind)
	if e.Kind == oauth.GrantDead && held.interrupted == a.Sealed.Revision {
		reason = ReasonRefreshInterrupted
	}
	message := "The provider's token endpoint has given no access token: " + describe(e)
	var counted string
	var failures int64
	err := s.store(ctx, s.failed, held, func(ctx context.Context, tx *sql.Tx, _ bool) error {
		counted, failures = "", 0
		return s.cfg.Accounts.Change(ctx, tx, held.environment, held.connectionUUID, func() (*Outcome, error) {
			now := s.cfg.Clock.Now()
			sets, err := s.cfg.Vault.Sets(ctx, tx, held.environment, []string{held.connectionUUID})
			if err != nil {
				return nil, err
			}
			set, found := sets[held.connectionUUID]
			if !found || set.Revision != a.Sealed.Revision {
				counted = outcomeReplaced
				return nil, releaseOnly(ctx, tx, held)
			}
			if err := s.cfg.Vault.RecordFailure(ctx, tx, held.environment, held.connectionUUID, set.Revision,
				describe(e)); err != nil {
				return nil, err
			}
			next := *held
			next.attempted, next.due, next.notBefore, next.revision = &now, nil, nil, set.Revision
			if maybeServed(e) {
				next.interrupted = set.Revision
			}
			outcome := &Outcome{State: Dead, Reason: reason}
			if e.Kind != oauth.GrantDead {
				at, requests := retryTimes(&set, now, set.RefreshFailures+1, e.RetryAfter, s.cfg.Random())
				next.due, next.notBefore, outcome = &at, &requests, nil
				unknown := next.interrupted == set.Revision && (e.RetryAfter > longUnknown || at.Sub(now) > longFailing)
				if isStale(a.mode(), &set, now) || unknown {
					outcome = &Outcome{State: Failing, Reason: reason}
				}
			}
			if held, err := release(ctx, db.Prepared(s.cfg.DB, tx), &next); err != nil || !held {
				return nil, errors.Join(err, lost(held))
			}
			counted, failures = kind, set.RefreshFailures+1
			return outcome, nil
		})
	})
	if !e.Unsent && (errors.Is(err, errLost) || counted == outcomeReplaced) {
		s.doubt(ctx, held)
	}
	if err != nil {
		return err
	}
	s.metrics.count(counted)
	if failures == 1 {
		// Before its token ends the connection shows nothing of it in lists.
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the tokens of a connection were not renewed",
			slog.String("environment_id", string(held.environment)), slog.String("connection_uuid", held.connectionUUID),
			slog.String("outcome", kind), slog.String("error", describe(e)), obs.Outage("token refreshes"))
	}
	return notReady(message, e)
}

// maybeServed reports whether the endpoint may have replaced the tokens although no new ones have come: its response
// was lost or cannot be read, or a server in front of it has responded.
func maybeServed(e *oauth.TokenError) bool {
	switch {
	case e.Kind != oauth.Temporary || e.Unsent:
		return false
	case e.Status < 400:
		return true
	default:
		// Those from 520 on are of a content delivery network, about a server behind it.
		return e.Status == http.StatusInternalServerError || e.Status == http.StatusBadGateway ||
			e.Status == http.StatusGatewayTimeout || e.Status >= 520
	}
}

// describe says what is wrong, in words without a secret.
func describe(e *oauth.TokenError) string {
	if e.Status != 0 {
		return e.Error()
	}
	return e.Description
}

// outcomeOf returns the outcome of a kind of error for the metric, and the reason for the connection.
func outcomeOf(k oauth.Kind) (outcome, reason string) {
	switch k {
	case oauth.GrantDead:
		return outcomeDead, ReasonGrantRefused
	case oauth.ClientRefused:
		return outcomeClientRefused, ReasonClientRefused
	case oauth.Misconfigured:
		return outcomeMisconfigured, ReasonMisconfigured
	default:
		return outcomeFailed, ReasonEndpointFailing
	}
}

// finish releases a lease without an exchange, stores what that means, and returns the error.
func (s *Service) finish(ctx context.Context, held *row, due *time.Time, outcome *Outcome, kind string,
	cause error) error {
	err := s.store(ctx, s.failed, held, func(ctx context.Context, tx *sql.Tx, _ bool) error {
		return s.cfg.Accounts.Change(ctx, tx, held.environment, held.connectionUUID, func() (*Outcome, error) {
			current, found, err := find(ctx, tx, held.environment, held.connectionUUID)
			if err != nil {
				return nil, err
			}
			if !found || current.revision != held.revision { // others were given meanwhile, which are scheduled
				return nil, releaseOnly(ctx, tx, held)
			}
			next := *held
			next.due = due
			if held, err := release(ctx, db.Prepared(s.cfg.DB, tx), &next); err != nil || !held {
				return nil, errors.Join(err, lost(held))
			}
			return outcome, nil
		})
	})
	if kind != "" && err == nil {
		s.metrics.count(kind)
	}
	return errors.Join(err, cause)
}

// releaseOnly ends a lease and leaves the rest of the row as others have written it.
func releaseOnly(ctx context.Context, tx *sql.Tx, held *row) error {
	current, found, err := find(ctx, tx, held.environment, held.connectionUUID)
	if err != nil || !found || current.lease != held.lease {
		return err
	}
	_, err = release(ctx, tx, &current)
	return err
}
