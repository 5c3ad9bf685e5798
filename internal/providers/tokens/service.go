package tokens

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/outbound"
)

// Account is a connection, as its tokens are renewed.
type Account struct {
	ConnectionUUID string
	Environment    id.Environment
	// Source is what its requests are made from. Its hosts are those of the credentials.
	Source Source
	// Sealed are its credentials. They decide what is done, and Source opens them.
	Sealed *credentials.Sealed
	// Version is that of the connection's settings.
	Version time.Time
	// Idle is true for a connection for which nothing is sent by itself: it is disabled.
	Idle bool
	// Dead is true if the provider has refused to renew the credentials. Nothing is sent with them then unless a user
	// wants it.
	Dead bool
	// Foreign is true if they belong to another OAuth client than the present one. Nothing is sent with them then: a
	// provider may end a grant that another client uses.
	Foreign bool
}

func (a *Account) mode() *outbound.Mode {
	m, _ := a.Source.Engine.Mode(a.Source.Target.Mode)
	return m
}

// IsRenewable reports whether another access token can be had without a user.
func (a *Account) IsRenewable() bool { return wayOf(a.mode(), &a.Sealed.Set) != neither }

// State is what an exchange leaves the credentials in.
type State string

// The states.
const (
	// Renewed: they can be used.
	Renewed State = "renewed"
	// Dead: the provider does not accept them any more. A user has to give them again.
	Dead State = "dead"
	// Failing: the access token has expired, and for now no other one is to be had. It repairs itself.
	Failing State = "failing"
	// Ended: they had an end, and nothing renews them.
	Ended State = "ended"
	// Moved: requests would go to hosts for which they were not given.
	Moved State = "moved"
	// Foreign: they belong to another OAuth client than the present one.
	Foreign State = "foreign"
)

// Reasons of states.
const (
	// ReasonGrantRefused: the provider refuses the refresh token, or the credentials that tokens are minted from.
	ReasonGrantRefused = "grant_refused"
	// ReasonRefreshInterrupted: the provider may have sent new tokens that were lost, with the node that had asked for
	// them or on their way, and it refuses the former ones.
	ReasonRefreshInterrupted = "refresh_interrupted"
	// ReasonTokenExpired: the token has expired, and the provider does not renew it.
	ReasonTokenExpired = "token_expired"
	// ReasonClientRefused: the provider refuses the OAuth client of the provider configuration.
	ReasonClientRefused = "client_refused"
	// ReasonEndpointFailing: the token endpoint cannot be reached, or its responses cannot be used.
	ReasonEndpointFailing = "token_endpoint_failing"
	// ReasonMisconfigured: no request for a token can be made, or it is one that the provider never grants.
	ReasonMisconfigured = "misconfigured"
)

// Outcome is what an exchange means for a connection.
type Outcome struct {
	State  State
	Reason string
	// Config has values of connection_config that came with the token.
	Config map[string]string
	// Version is that of the account that Moved is about. The outcome means nothing for another one.
	Version time.Time
}

// Accounts are the connections whose tokens are renewed. Package connections implements it.
type Accounts interface {
	// Account returns a connection, or not_found without one that has credentials. It returns ErrHosts, with the account,
	// if requests would go to hosts for which those were not given, and connection_not_ready if no request can be made.
	Account(ctx context.Context, env id.Environment, connectionUUID string) (*Account, error)
	// Lock locks connections of any environments in the transaction, in their order, and returns those that it has
	// locked: not those that other transactions have locked, and not those that are gone.
	Lock(ctx context.Context, tx *sql.Tx, connectionUUIDs []string) ([]string, error)
	// Change locks a connection in the transaction, calls fn, and records what the outcome of that means; nil for nothing.
	// A connection that is gone calls nothing.
	Change(ctx context.Context, tx *sql.Tx, env id.Environment, connectionUUID string, fn func() (*Outcome, error)) error
	// Forget drops what is in memory of a connection, after the transaction.
	Forget(connectionUUID string)
}

// Config holds the dependencies of a Service. All are needed but Lease and Random.
type Config struct {
	DB       *db.DB
	Clock    clock.Clock
	Vault    *credentials.Vault
	Protocol *Protocol
	Accounts Accounts
	Logger   *slog.Logger
	// Lease is how long a node that says nothing keeps others from renewing a connection's tokens; 0 for the usual time,
	// three times that of an exchange.
	Lease time.Duration
	// Random returns numbers from 0 to 1; nil for random ones.
	Random func() float64
}

// Service renews tokens: one exchange at a time for a connection, on any number of nodes. It is safe for concurrent
// use.
type Service struct {
	cfg     Config
	flights singleflight.Group
	metrics metrics
	worker  worker
	// renewed joins the outcomes with new tokens, and failed the others, which can wait: many of them come at the same
	// moment when an endpoint hangs, and new tokens must not wait for them.
	renewed, failed *joiner
}

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Lease == 0 {
		cfg.Lease = 3 * ExchangeTimeout
	}
	if cfg.Random == nil {
		cfg.Random = jobs.Random
	}
	s := &Service{cfg: cfg, metrics: newMetrics(), worker: newWorker()}
	s.renewed, s.failed = newJoiner(s, maxTogether), newJoiner(s, maxFailuresTogether)
	if cfg.Protocol != nil {
		cfg.Protocol.observe = func(took time.Duration) { s.metrics.latency.Observe(took.Seconds()) }
	}
	return s
}

// Schedule stores when the credentials that were just stored are renewed. It is called in that transaction.
func (s *Service) Schedule(ctx context.Context, tx *sql.Tx, set *credentials.Set, source Source) error {
	mode, ok := source.Engine.Mode(source.Target.Mode)
	if !ok {
		return nil
	}
	return schedule(ctx, tx, &row{connectionUUID: set.ConnectionUUID, environment: set.Environment,
		endpoint: endpointOf(source), due: dueTime(mode, set, s.cfg.Clock.Now(), s.cfg.Random()), revision: set.Revision,
		leaseUntil: time.UnixMilli(0)})
}

// Resume makes something be done about the tokens of a connection that can be used again, in the transaction that
// allows that: when it would have been done, and not after a postponement.
func (s *Service) Resume(ctx context.Context, tx *sql.Tx, a *Account) error {
	mode := a.mode()
	if mode == nil {
		return nil
	}
	now := s.cfg.Clock.Now()
	return resume(ctx, tx, a.Environment, a.ConnectionUUID, dueTime(mode, &a.Sealed.Set, now, s.cfg.Random()), now)
}

// endpointOf names the hosts that respond to exchanges.
func endpointOf(source Source) string {
	hosts, err := source.Engine.EndpointHosts(source.Target)
	if err != nil {
		return ""
	}
	return strings.Join(hosts, " ")
}

// Fresh returns the connection with credentials that requests can be made with. It reads memory only, unless the access
// token has expired: then it waits for another one. The error is connection_not_ready if there is none.
func (s *Service) Fresh(ctx context.Context, a *Account) (*Account, error) {
	if !isStale(a.mode(), &a.Sealed.Set, s.cfg.Clock.Now()) {
		return a, nil
	}
	return s.Renew(ctx, a, false)
}

// Renew renews the access token of a connection whose credentials are those of the account, and returns the connection
// with them. If they have been renewed since, it does nothing, and so does one within 30 seconds of another exchange.
// asked says that a user wants it, also with credentials that are dead. The error is connection_not_ready if the
// credentials cannot be used now.
func (s *Service) Renew(ctx context.Context, a *Account, asked bool) (*Account, error) {
	if !a.IsRenewable() {
		return nil, notReady("The provider does not renew these credentials", nil)
	}
	switch {
	case a.Foreign:
		return nil, errForeign()
	case a.Dead && !asked:
		return nil, errDead()
	}
	seen := a.Sealed.Revision
	for {
		// A flight may have begun before the account was read, and found that there is nothing to do.
		failure := s.fly(ctx, a, seen, asked)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("wait for an access token: %w", ctx.Err())
		}
		again, err := s.cfg.Accounts.Account(ctx, a.Environment, a.ConnectionUUID)
		stale := err == nil && isStale(again.mode(), &again.Sealed.Set, s.cfg.Clock.Now())
		switch {
		case err != nil:
			return nil, err //nolint:wrapcheck // as Accounts documents
		case again.Sealed.Revision != seen && !stale:
			return again, nil
		case failure != nil:
			return nil, failure
		case again.Sealed.Revision == seen:
			return nil, notReady("The access token could not be renewed", nil)
		}
		seen = again.Sealed.Revision
	}
}

// fly takes part in the renewal of a connection that is in progress in this process, or begins one.
func (s *Service) fly(ctx context.Context, a *Account, seen int64, asked bool) error {
	// One that began for an earlier revision, or that no user wants, would find that there is nothing to do.
	key := fmt.Sprint(a.ConnectionUUID, "/", seen, "/", asked)
	ended := s.flights.DoChan(key, func() (any, error) {
		// Others wait for the outcome, so it does not end with this request. Its parts have limits of their own, and an
		// exchange that has begun is not cut off.
		inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.cfg.Lease)
		defer cancel()
		s.worker.begin()
		defer s.worker.end()
		return nil, s.renew(inner, a.Environment, a.ConnectionUUID, seen, asked)
	})
	select {
	case <-ctx.Done():
		return nil
	case r := <-ended:
		return r.Err
	}
}

// Alone calls fn with a connection, as it is stored, while no exchange of its tokens is in progress on any node. None
// begins before fn has returned. If the credentials are still there then, they are renewed soon, which shows whether
// the provider accepts them. The error is that of Accounts or of fn, or connection_not_ready if ctx ends before.
func (s *Service) Alone(ctx context.Context, env id.Environment, uuid string, fn func(*Account) error) error {
	for {
		s.cfg.Accounts.Forget(uuid) // what another node has stored counts
		a, err := s.cfg.Accounts.Account(ctx, env, uuid)
		if err != nil {
			return err //nolint:wrapcheck // as Accounts documents
		}
		if !a.IsRenewable() {
			return fn(a)
		}
		held, busy, err := s.acquire(ctx, env, uuid, a.Sealed.Revision, exclusion)
		switch {
		case err != nil:
			return err
		case held != nil:
			end := s.worker.keep(held)
			err := errors.Join(fn(a), s.renewSoon(ctx, held))
			end()
			return err
		case busy:
			if err := s.waitForOther(ctx); err != nil {
				return err
			}
		}
	}
}

// renewSoon ends a lease and makes the renewal due. The row may be gone with its credentials.
func (s *Service) renewSoon(ctx context.Context, held *row) error {
	defer s.cfg.Accounts.Forget(held.connectionUUID)
	now := s.cfg.Clock.Now()
	next := *held
	next.due = &now
	err := s.cfg.DB.Tx(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		_, err := release(context.WithoutCancel(ctx), tx, &next)
		return err
	})
	if err != nil {
		return fmt.Errorf("release the lease of a connection's tokens: %w", err)
	}
	return nil
}

// waitForOther waits until it is time to look again whether the exchange of another node has ended.
func (s *Service) waitForOther(ctx context.Context) error {
	t := s.cfg.Clock.NewTimer(busyInterval)
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		t.Stop()
		return notReady("Another node has been renewing the access token for too long", ctx.Err())
	}
}

func notReady(message string, cause error) error {
	return apperr.Wrap(apperr.CodeConnectionNotReady, message, cause)
}

func errDead() error { return notReady("The connection needs its credentials again", nil) }

func errForeign() error {
	return notReady("The credentials belong to another OAuth client than that of the provider configuration; give them "+
		"again", nil)
}

// busyInterval is how often a request looks whether the exchange of another node has ended.
const busyInterval = 100 * time.Millisecond

// renew makes an exchange, or waits for that of another node.
func (s *Service) renew(ctx context.Context, env id.Environment, uuid string, seen int64, asked bool) error {
	why := need
	if asked {
		why = wish
	}
	for {
		held, busy, err := s.acquire(ctx, env, uuid, seen, why)
		if err != nil || held != nil {
			if held != nil {
				s.cfg.Accounts.Forget(uuid)
				err = s.run(context.WithoutCancel(ctx), held, asked)
			}
			return err
		}
		if !busy {
			s.cfg.Accounts.Forget(uuid) // another node has renewed them
			return nil
		}
		if err := s.waitForOther(ctx); err != nil {
			return err
		}
	}
}

// isRecent reports whether something of that age is within the cool-down. The database's clock may have been set back
// since.
func isRecent(age time.Duration) bool { return isWithin(age, coolDown) }

// isFree reports whether the lease can be taken; busy says that another exchange has it.
func (r *row) isFree(seen int64, now time.Time, why purpose) (free, busy bool, err error) {
	switch {
	case r.revision > seen:
		return false, false, nil
	case why == wish && r.attempted != nil && isRecent(now.Sub(*r.attempted)):
		return false, false, later(coolDown - now.Sub(*r.attempted))
	case why == need && r.attempted != nil && isRecent(now.Sub(*r.attempted)):
		return false, false, notReady("The access token could not be renewed a moment ago", nil)
	case why == need && r.isHeldBack(now):
		return false, false, &apperr.Error{Code: apperr.CodeConnectionNotReady, RetryAfter: r.notBefore.Sub(now),
			Message: "The access token could not be renewed; the next attempt is made later"}
	default:
		busy = r.leaseUntil.After(now)
		return !busy, busy, nil
	}
}

// isHeldBack reports whether requests do not have the tokens renewed now. The database's clock may have been set back
// since the exchange that has failed.
func (r *row) isHeldBack(now time.Time) bool {
	return r.notBefore != nil && r.attempted != nil && !now.Before(*r.attempted) && now.Before(*r.notBefore)
}

// purpose is what a lease is taken for.
type purpose int

// The purposes: an access token is needed, a user wishes for another, or no exchange is to be in progress.
const (
	need purpose = iota
	wish
	exclusion
)

// later refuses a refresh that a user wants right after another exchange.
func later(wait time.Duration) error {
	e := &apperr.Error{Code: apperr.CodeConnectionNotReady, RetryAfter: wait,
		Message: "Tokens of the connection were requested a moment ago; refresh them later"}
	return e
}

// acquire takes the lease of a connection. Held is nil if another node has it, which busy says, or if there is nothing
// to do: the credentials are others than those that were seen, or the last exchange has just ended.
func (s *Service) acquire(ctx context.Context, env id.Environment, uuid string, seen int64, why purpose) (held *row,
	busy bool, err error) {
	now := s.cfg.Clock.Now()
	// Many requests may need a token that is not to be had, and each of them may look many times: they read.
	if r, found, err := find(ctx, s.cfg.DB.Read(), env, uuid); err == nil && found {
		if free, busy, err := r.isFree(seen, now, why); !free || s.worker.keeps(&r) || s.worker.leaves(&r, now) {
			return nil, busy || free, err
		}
	}
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		held, busy = nil, false
		r, found, err := find(ctx, tx, env, uuid)
		if err != nil {
			return err
		}
		if !found { // the previous release has stored them
			r = row{connectionUUID: uuid, environment: env, revision: seen, leaseUntil: time.UnixMilli(0)}
			if err := schedule(ctx, tx, &r); err != nil {
				return err
			}
		}
		var free bool
		if free, busy, err = r.isFree(seen, now, why); !free {
			return err
		}
		if busy = s.worker.keeps(&r) || s.worker.leaves(&r, now); busy {
			return nil
		}
		rows, err := take(ctx, tx, env, []string{uuid}, id.NewRandom(""), now, now.Add(s.cfg.Lease), false)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			busy = true // another node was faster
			return nil
		}
		held = &rows[0]
		return nil
	})
	if err != nil && !apperr.Is(err, apperr.CodeConnectionNotReady) {
		err = fmt.Errorf("take the lease of a renewal: %w", err)
	}
	return held, busy, err
}
